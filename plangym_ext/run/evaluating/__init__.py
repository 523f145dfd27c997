"""Evaluation: comparison of players on equal episodes, audit of critics."""
