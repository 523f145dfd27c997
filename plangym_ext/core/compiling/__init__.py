"""Numba compilation of kernels: decorators, disk cache, progress messages."""
