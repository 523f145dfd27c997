"""HTML pages of plans and episodes: the search tree of each move, and films."""
