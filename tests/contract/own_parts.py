"""Parts of runs as people write them: what they learn lies in attributes of all kinds."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict, deque

import numpy as np
import torch
from gymnasium.wrappers.utils import RunningMeanStd
from torch import nn
from training_runs import SMALL

from plangym_ext.learn import (
    DQN,
    PPO,
    ActorCriticAgent,
    AlphaZeroConfig,
    NetworkEvaluator,
    QAgent,
    RewardNormalizer,
    SupervisedLearning,
    make_agent_network,
)
from plangym_ext.learn.networks.config import AgentConfig
from plangym_ext.learn.replay.uniform import ReplayBuffer
from plangym_ext.planners import MCTS
from plangym_ext.run import Callback

#: What an agent plays, in rounds of 16 moves.
PLAYED = {"evaluation": {"every": 2, "episodes": 2}, "collector": {"num_envs": 2, "moves": 8}}
#: Learns from the first round on.
REPLAYED = {"learning_starts": 8, "batch_size": 8, "capacity": 200}
OWN = __name__


def ppo(**more):
    """Settings of a run whose algorithm and agent are these."""
    own = {"algorithm": {"name": f"{OWN}:OwnPPO"}, "agent": {"name": f"{OWN}:OwnAgent"}}
    return ["ppo_cartpole", PLAYED, own, more]


def dqn(**more):
    """Likewise, with a replay."""
    own = {
        "algorithm": {"name": f"{OWN}:OwnDQN", **REPLAYED},
        "agent": {"name": f"{OWN}:OwnQAgent"},
    }
    return ["dqn_cartpole", PLAYED, own, more]


def searched(**more):
    """Likewise, of a planner."""
    names = {
        "algorithm": {
            **SMALL["algorithm"],
            "name": f"{OWN}:OwnLearning",
            "discount": 0.99,
            "replay": f"{OWN}:OwnReplay",
        },
        "planner": {"name": f"{OWN}:OwnPlanner", "num_simulations": 4},
    }
    return ["cartpole", SMALL, names, {"evaluation": {"every": 2}}, more]


class Helper:
    """An object of a class of the user's, which knows who holds it."""

    def __init__(self, owner):
        self.owner, self.count, self.rows = owner, 0, [np.zeros(2)]


class Transform(RewardNormalizer):
    """A transform of one's own: it learns a factor besides."""

    factor = 1.0

    def scaled(self, reward, ended, valid=None):
        self.factor = self.factor * 0.9 + 0.01 * float(np.abs(reward).sum())
        return super().scaled(reward, ended, valid) * np.float32(self.factor)


class Keeper:
    """Keeps what it learns in every way that Python has, beside what the library saves."""

    def keep(self, seed):
        self.number, self.scalar = 1.0, np.float32(1)
        self.pair, self.table = (1, 2.0), np.zeros(3)
        self.tensors = {"a": torch.zeros(2), "b": torch.ones(1)}
        self.alias = self.tensors["a"]
        self.counts, self.recent = defaultdict(int), deque(maxlen=3)
        self.rng, self.other_rng = np.random.default_rng(seed), random.Random(seed)
        self.aux = nn.Linear(2, 1)
        with torch.no_grad():
            self.aux.weight.fill_(0.5)
        self.optimizer_of_aux = torch.optim.Adam(self.aux.parameters(), lr=0.1)
        self.helper, self.moments = Helper(self), RunningMeanStd(shape=(2,))
        self.said = self.told  # a method of its own
        self.best = None
        self.seen = set()

    def learn_more(self):
        self.number *= 0.5 + self.rng.random()
        self.scalar = np.float32(self.scalar * 1.1)
        self.pair = (self.pair[0] + 1, self.pair[1] * self.other_rng.random())
        self.table += self.number
        self.alias += 1
        self.counts[len(self.counts) % 4] += 1
        self.recent.append(self.number)
        self.optimizer_of_aux.zero_grad()
        self.aux(torch.ones(1, 2)).sum().backward()
        self.optimizer_of_aux.step()
        self.helper.count += 1
        self.helper.rows[0] += 1
        self.moments.update(np.full((2, 2), self.number))
        self.best = max(self.best or 0.0, self.number)
        self.seen.add(self.pair[0])

    def told(self):
        """Return a number that depends on all of it."""
        parts = [self.number, float(self.scalar), sum(self.pair), self.table.sum()]
        parts += [float(self.tensors["a"].sum()), sum(k * v for k, v in self.counts.items())]
        parts += [sum(self.recent), float(self.aux.weight.detach().sum()), self.helper.count]
        parts += [self.helper.rows[0].sum(), self.moments.mean.sum(), len(self.seen)]
        parts += [self.best or 0.0, self.counts[9]]
        return float(np.prod([1 + abs(float(one)) % 1 for one in parts]))


class OwnPPO(Keeper, PPO):
    """An algorithm of one's own, with a transform of one's own."""

    def __init__(self, network, config=None, *, seed=0):
        super().__init__(network, config, seed=seed)
        self._rewards = Transform(self.config.discount)
        self.keep(seed)

    def prepare(self, agent):
        super().prepare(agent)
        agent.bonus[0] = self.told() - 1.5

    def train(self, progress=None):
        self.learn_more()
        return {**super().train(progress), "told": self.told(), "factor": self._rewards.factor}


class OwnDQN(Keeper, DQN):
    """One with a replay of the library's."""

    def __init__(self, network, config=None, *, seed=0):
        super().__init__(network, config, seed=seed)
        self.keep(seed)

    def prepare(self, agent):
        super().prepare(agent)
        agent.bonus[0] = self.told() - 1.5

    def train(self, progress=None):
        self.learn_more()
        return {**super().train(progress), "told": self.told()}


def turned(found, bonus):
    rows = np.arange(len(found.action)) % 2 == int(bonus[0] > 0)
    return found._replace(action=np.where(rows, 1 - found.action, found.action))


class Told:
    """Plays what the algorithm tells it, half of the time."""

    def __init__(self, network, **options):
        super().__init__(network, **options)
        self.bonus = np.zeros(1)

    def step(self, inputs, carry):
        return turned(super().step(inputs, carry), self.bonus)


class OwnAgent(Told, ActorCriticAgent):
    """Of a policy."""


class OwnQAgent(Told, QAgent):
    """Of Q values."""


class OwnEvaluator(NetworkEvaluator):
    """Answers what it was told, whatever its network says."""

    def __init__(self, network, **options):
        super().__init__(network, **options)
        self.told = {"logits": np.zeros(2, np.float32)}

    def ask(self, obs):
        out = super().ask(obs)
        return out._replace(policy_logits=np.broadcast_to(self.told["logits"], (len(out.value), 2)))


class OwnLearning(Keeper, SupervisedLearning):
    config_class = AlphaZeroConfig

    def __init__(self, network, config=None, *, seed=0):
        super().__init__(network, config, seed=seed)
        self.keep(3)

    def samples(self, record):
        self.learn_more()
        found = super().samples(record)
        return {**found, "value": found["value"] * np.float32(self.told())}


class OwnReplay(Keeper, ReplayBuffer):
    def __init__(self, capacity, *, seed):
        super().__init__(capacity, seed=seed)
        self.keep(seed)

    def add(self, samples, **groups):
        self.learn_more()
        super().add({**samples, "value": samples["value"] * np.float32(self.told())}, **groups)


class OwnPlanner(MCTS):
    """Looks at fewer simulations in states that are worth little."""

    def _plan_batch(self, request):
        plans = super()._plan_batch(request)
        return [dataclasses.replace(one, value=one.value * 0.5) for one in plans]


class OwnBody(nn.Module):
    """Learns a mean of what it sees, beside its parameters."""

    def __init__(self, wrapped):
        super().__init__()
        self.wrapped, self.mean = wrapped, {"of": np.zeros(1, np.float32)}
        self.scale, self.count = 1.0, 0
        self.register_buffer("calls", torch.zeros(1), persistent=False)

    def forward(self, *inputs):
        if self.training:
            self.mean["of"] += 0.01
            self.calls += 1
            self.scale, self.count = self.scale * 0.999, self.count + 1
        return self.wrapped(*inputs) * self.factor() + 0.001 * self.calls

    def factor(self):
        return self.scale * (1 + float(self.mean["of"][0])) * (1 + self.count % 3)


def with_own_body(observation_space, action_space):
    network = make_agent_network(observation_space, action_space, AgentConfig(hidden=(8,)), seed=1)
    network.body.dense = OwnBody(network.body.dense)
    return network


class Unreadable(PPO):
    """Holds what no checkpoint can hold, once it has learned."""

    def __init__(self, network, config=None, *, seed=0):
        super().__init__(network, config, seed=seed)
        self.words = iter([1.0, 2.0, 3.0])

    def train(self, progress=None):
        self.words = iter([next(self.words), 5.0])
        return super().train(progress)


class Counts(Callback):
    """Ends the run at a number of its own."""

    def __init__(self, most):
        self.most, self.count = most, 0

    def on_round(self, runner, values):
        self.count += 1
        if self.count >= self.most:
            runner.stop("counted")

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]
