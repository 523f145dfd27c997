"""Cells of `training.py`: what is learned, by ours and by Stable-Baselines3, and their table."""
