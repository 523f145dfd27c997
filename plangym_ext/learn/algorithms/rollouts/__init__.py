"""Algorithms that learn from a fragment once: PPO, A2C, PQN, REINFORCE, V-trace."""
