"""The compiler of kernels: decorators, what is kept on disk, and how long it takes."""
