"""Trainers: how networks learn from records of played episodes."""
