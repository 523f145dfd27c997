"""Translation of a small Python env's source to a compiled kernel with equal results."""
