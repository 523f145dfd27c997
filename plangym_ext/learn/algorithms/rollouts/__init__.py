"""Rollout algorithms, which use each fragment once: PPO, A2C, PQN, REINFORCE, V-trace."""
