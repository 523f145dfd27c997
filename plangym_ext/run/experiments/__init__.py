"""Sweeps: many training runs as one experiment (variants, queue, summary)."""
