"""Trials of state capture: restored states must lead to the same future."""
