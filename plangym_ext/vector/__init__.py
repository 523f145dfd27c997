"""Gymnasium vector env on any backend, its checker, its framework adapters."""
