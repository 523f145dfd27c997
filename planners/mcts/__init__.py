"""Monte Carlo tree search planners: MCTS, Shoot Tree Search, open-loop search, MENTS."""
