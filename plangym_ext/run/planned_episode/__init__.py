"""Output of the `plan` command: progress, messages, episode file."""
