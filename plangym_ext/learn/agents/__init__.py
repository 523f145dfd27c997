"""Agents: what chooses actions for B rows, step by step."""
