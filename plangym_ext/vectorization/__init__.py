"""The former place of `plangym_ext.vector.adapters`, kept for programs that import it here."""
