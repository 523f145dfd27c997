"""Off-policy algorithms with a replay buffer: the DQN family, DDPG, TD3, SAC."""
