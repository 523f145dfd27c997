"""Parts of `everything.py`."""
