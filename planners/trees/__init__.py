"""Search trees as arrays, with selection and backup kernels."""
