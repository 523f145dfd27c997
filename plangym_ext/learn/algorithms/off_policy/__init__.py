"""Algorithms that learn from a replay of steps: the DQN family, DDPG, TD3, SAC."""
