"""Core: the env contract, the row loop, and the requests and results of a batch."""
