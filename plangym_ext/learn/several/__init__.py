"""Several agents in one env: rows of one agent each, networks, and the agent that plays them."""
