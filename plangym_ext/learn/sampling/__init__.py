"""Samplers: collection of experience by agents in vector envs."""
