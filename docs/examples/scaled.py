"""Scaled: the policy gradient with advantages of a size of one's own.

plangym-ext train ppo_cartpole --algorithm.name scaled:Scaled --rounds 50 --out runs/scaled
"""

from dataclasses import dataclass

from plangym_ext.learn import A2C, A2CConfig
from plangym_ext.learn.returns import returns


@dataclass(frozen=True, kw_only=True)
class ScaledConfig(A2CConfig):
    """Settings of Scaled, beside those of A2C.

    Args:
        advantage_scale: advantages are multiplied by it.
    """

    advantage_scale: float = 1.0


class Scaled(A2C):
    """Policy gradients with Monte Carlo returns and the network's values as a baseline.

    `_estimate` says what each step of a fragment `[T, B]` teaches: an advantage for the policy and
    a target for the value. The update, the optimiser, resuming and logs are inherited.
    """

    config_class = ScaledConfig
    config: ScaledConfig

    def _estimate(self, rollout):
        """Return the rows with advantages and targets; a truncated end bootstraps."""
        discount = self.config.discount
        target = returns(rollout.reward, rollout.terminated, discount=discount, **rollout.ends)
        advantage = self.config.advantage_scale * (target - rollout.value)
        return rollout.rows(advantage, target)


if __name__ == "__main__":
    import numpy as np

    from plangym_ext import make_vec
    from plangym_ext.learn import ActorCriticAgent, AgentConfig, SerialSampler, make_agent_network

    venv = make_vec("CartPole-v1", 16, autoreset_mode="same_step")
    spaces = venv.single_observation_space, venv.single_action_space
    network = make_agent_network(*spaces, AgentConfig(shared_body=False), seed=0)
    config = ScaledConfig(learning_rate=3e-3, discount=0.99)
    algorithm = Scaled(network, config, seed=0)
    with SerialSampler(venv, ActorCriticAgent(network), 32, seed=0) as sampler:
        for update in range(10):
            algorithm.take(sampler.collect(version=algorithm.updates))
            algorithm.train()
            if update % 5 == 4:
                mean = np.mean(sampler.statistics.get("return", np.nan))
                print(f"update {update + 1}: return {mean:.0f}")
