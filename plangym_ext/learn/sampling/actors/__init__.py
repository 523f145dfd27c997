"""Actors: an agent with some rows of envs, writing its part of the fragment arrays."""
