"""Envs with hidden state, and what becomes of them."""
