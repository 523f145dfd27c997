"""A judge and an opponent of what `selfplay.py` trains."""
