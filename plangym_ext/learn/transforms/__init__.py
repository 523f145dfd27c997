"""Normalisation of observations and rewards before learning."""
