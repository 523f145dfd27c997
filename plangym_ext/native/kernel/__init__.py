"""The kernel backend: env rules that numba compiles into one loop over rows."""
