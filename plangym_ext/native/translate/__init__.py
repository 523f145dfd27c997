"""Translation of a small Python env to a kernel: its source, typed as Python and numpy type it."""
