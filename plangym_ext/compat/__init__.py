"""Compatibility layers: interfaces of other libraries over this library's envs."""
