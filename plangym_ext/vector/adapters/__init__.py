"""Adapters of the vector env to other RL frameworks, one module each."""
