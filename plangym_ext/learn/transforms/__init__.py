"""Transforms of what was sampled, before it is learned from."""
