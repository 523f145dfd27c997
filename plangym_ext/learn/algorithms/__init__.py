"""Algorithms: how a network learns from what samplers collect."""
