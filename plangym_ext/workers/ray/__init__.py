"""The ray backend: rows on several machines of a Ray cluster."""
