"""DDPG: one critic and a deterministic policy, trained from a replay buffer."""

from __future__ import annotations

from plangym_ext.learn.algorithms.off_policy.actor_critic_config import DDPGConfig
from plangym_ext.learn.algorithms.off_policy.deterministic import DeterministicActorCritic


class DDPG(DeterministicActorCritic):
    """Deep deterministic policy gradient.

    Source: Lillicrap et al. 2016, "Continuous control with deep reinforcement learning", with
    normal noise on the actions.
    """

    config_class = DDPGConfig
