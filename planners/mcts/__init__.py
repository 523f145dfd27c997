"""Monte Carlo tree search and its kin: MCTS, Shoot Tree Search, open-loop search."""
