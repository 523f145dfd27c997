"""Losses: what is minimised, pure functions of tensors; a file for every kind of learning."""
