"""Learned models: backends whose states are rows of a network's numbers."""
