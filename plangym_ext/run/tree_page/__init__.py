"""HTML page of an episode with the search tree of each move."""
