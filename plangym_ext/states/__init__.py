"""Exact env states: capture as rows of bytes, and restoring."""
