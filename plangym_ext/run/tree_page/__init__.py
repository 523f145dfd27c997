"""One page that shows an episode and the search for each of its moves."""
