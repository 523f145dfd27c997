"""Actors: an agent in some env rows, writing its columns of a fragment."""
