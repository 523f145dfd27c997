"""Batched tree search: B trees grown in lockstep, one model call per wave of leaves."""
