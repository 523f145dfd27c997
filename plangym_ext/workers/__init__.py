"""The process backend: worker processes that step env rows in shared memory."""
