"""The page of runs: curves, episodes, settings; as a file, or live."""
