"""Distributions over actions: what a policy head puts out."""
