"""On-policy algorithms: PPO, A2C, PQN, REINFORCE, V-trace."""
