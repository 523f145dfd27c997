"""Training runs: collection, learning, evaluation, checkpoints."""
