"""Learning algorithms: network updates from sampled experience."""
