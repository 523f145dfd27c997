"""Training runs: collect, add, train, evaluate, checkpoint; and their settings."""
