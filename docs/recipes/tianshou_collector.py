"""A Tianshou collector with a random policy: it steps and resets sub-envs in any subset."""

import numpy as np
from tianshou.algorithm.algorithm_base import Policy
from tianshou.data import Batch, Collector, VectorReplayBuffer

import plangym_ext
from plangym_ext.vector.adapters.tianshou import TianshouVectorEnv


class RandomPolicy(Policy):
    """Draws actions from the action space."""

    def forward(self, batch, state=None, **kwargs):  # noqa: ARG002 - Tianshou's signature
        """One action for each observation."""
        return Batch(act=np.array([self.action_space.sample() for _ in range(len(batch.obs))]))


venv = plangym_ext.make_vec("CartPole-v1", 4, n_workers=2, autoreset_mode="disabled")
envs = TianshouVectorEnv(venv)
buffer = VectorReplayBuffer(2_000, len(envs))
collector = Collector(RandomPolicy(action_space=venv.single_action_space), envs, buffer)
collector.reset()
steps, episodes = collector.collect(n_step=400), collector.collect(n_episode=9)
print(steps.n_collected_steps, episodes.n_collected_episodes, len(buffer))
envs.close()
