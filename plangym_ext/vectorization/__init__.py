"""Worker processes that step env rows in shared memory."""
