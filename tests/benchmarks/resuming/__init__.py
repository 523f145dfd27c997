"""Runs that are killed at moments of their work, and resumed."""
