"""TD3: DDPG with two critics, smoothed targets and delayed policy updates."""

from __future__ import annotations

from plangym_ext.learn.algorithms.off_policy.actor_critic_config import TD3Config
from plangym_ext.learn.algorithms.off_policy.deterministic import DeterministicActorCritic


class TD3(DeterministicActorCritic):
    """Twin delayed deep deterministic policy gradient.

    Source: Fujimoto et al. 2018, "Addressing function approximation error in actor-critic
    methods".
    """

    config_class = TD3Config
