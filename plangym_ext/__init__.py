"""plangym-ext."""
