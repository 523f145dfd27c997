"""HTML page of training runs: curves, episodes, settings; as a file or live."""
