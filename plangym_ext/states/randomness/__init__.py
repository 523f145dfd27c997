"""Random generators in states: capture, restore, reseeding."""
