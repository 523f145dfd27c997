"""Rows that are states, stepped by a native backend."""
