"""Data-parallel training: several learner processes."""
