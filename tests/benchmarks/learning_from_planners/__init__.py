"""What `expert.py` measures."""
