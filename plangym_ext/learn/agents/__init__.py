"""Agents: action selection for B rows, step by step."""
