"""Faces with the names of other libraries over this library's envs."""
