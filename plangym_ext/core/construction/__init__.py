"""Envs of callers, constructed in this process, and what their constructors start."""
