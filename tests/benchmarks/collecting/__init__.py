"""Contestants of `sampling.py`."""
