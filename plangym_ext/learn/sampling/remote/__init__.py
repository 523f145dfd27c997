"""Actors in other processes: what serves there, and what travels between."""
