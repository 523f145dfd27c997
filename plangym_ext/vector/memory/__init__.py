"""Shared memory of a vector env: actions, results and messages of its rows."""
