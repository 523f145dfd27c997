"""Whole simulations in compiled code, for envs that offer their rules."""
