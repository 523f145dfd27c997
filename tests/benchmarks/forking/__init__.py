"""What `forked.py` measures."""
