"""Algorithms that learn a model and plan in it."""
