"""Planners that sample sequences of continuous actions: CEM, iCEM, MPPI, ..."""
