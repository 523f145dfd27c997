"""Searches: B trees that grow side by side, one call of the model per wave of leaves."""
