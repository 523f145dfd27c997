"""Env families."""
