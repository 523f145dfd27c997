"""The former place of `plangym_ext.vector.adapters`."""
