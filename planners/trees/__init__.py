"""Search trees as arrays, and the kernels that choose in them and write them."""
