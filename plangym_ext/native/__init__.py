"""Backends that run rows in native code: compiled kernels and MuJoCo's batches."""
