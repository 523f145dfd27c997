"""The gymnasium vector env over any backend, its checker and its framework adapters."""
