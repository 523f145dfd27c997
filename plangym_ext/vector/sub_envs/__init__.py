"""Rows that are envs of their own: in this process, or many in each worker, and recovered."""
