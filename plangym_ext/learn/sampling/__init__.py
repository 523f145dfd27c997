"""Samplers: who plays while a network learns, and what they return."""
