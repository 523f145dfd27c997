"""Parts of `quality.py`."""
