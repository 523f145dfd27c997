"""One page that shows an episode and the search behind each of its moves."""
