"""Learning in several processes at once."""
