"""The kernel backend: env rules compiled by numba into one loop over rows."""
