"""Numba-compiled updates of small dense networks, faster there than torch."""
