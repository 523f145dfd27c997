"""Rollouts from states: leaf evaluation, and planners without a tree."""
