"""Neural networks from observations to policies, values and Q values."""
