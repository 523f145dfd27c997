"""Actors: an agent in some rows of envs, which writes columns of a fragment."""
