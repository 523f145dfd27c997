"""Random generators within states: read, written, seeded anew."""
