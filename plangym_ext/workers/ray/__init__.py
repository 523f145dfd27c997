"""The ray backend: rows that run on more than one machine."""
