"""Continuous planners: CEM, iCEM, MPPI and other sequence sampling."""
