"""Several learners, of which one has more rows to learn from than another."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    A2C,
    PPO,
    PQN,
    REINFORCE,
    ActorCriticAgent,
    AgentConfig,
    QAgent,
    QAgentConfig,
    SerialSampler,
    VTrace,
    make_agent_network,
)
from plangym_ext.learn.group import LearnerGroup  # noqa: E402


class Chance(gym.Env):
    """Episodes of any length, with actions that do not begin at 0."""

    observation_space = gym.spaces.Box(-4.0, 4.0, (3,), np.float32)
    action_space = gym.spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action):
        return self.seen(), float(action - 5), bool(self.np_random.random() < 0.2), False, {}

    def seen(self):
        return self.np_random.normal(size=3).astype(np.float32)


class Threads(LearnerGroup):
    """Learners in threads of one process, which meet at a barrier."""

    def __init__(self, rank, barrier, slots):
        self.rank, self.size = rank, len(slots)
        self._barrier, self._slots = barrier, slots

    def gathered(self, mine):
        self._slots[self.rank] = mine
        self._barrier.wait(60)
        found = list(self._slots)
        self._barrier.wait(60)
        return found

    def rows(self, mine):
        return np.stack(self.gathered(mine))

    def average(self, vectors):
        for vector in vectors:
            vector.copy_(sum(self.gathered(vector.clone())) / self.size)

    def share(self, tensors):
        for tensor in tensors:
            tensor.copy_(self.gathered(tensor.clone())[0])


def a_network(case):
    """The network that all learners of a case begin with."""
    kind, _, agent, _ = case
    own = QAgentConfig if kind is PQN else AgentConfig
    spaces = Chance.observation_space, Chance.action_space
    return make_agent_network(*spaces, own(hidden=(8,), **agent), seed=0)


def learned(case, rank, group, network):
    """Weights and logs after some rounds with four envs, or with this learner's two of them."""
    kind, config, _, on_end = case
    num_envs = 4 if group is None else 2
    venv = make_vec(Chance, num_envs, backend="serial", autoreset_mode="same_step")
    algorithm = kind(network, kind.config_class(learning_rate=1e-2, **config), seed=rank)
    if group is not None:
        algorithm.join(group)
    player = (QAgent if kind is PQN else ActorCriticAgent)(network)
    logged = []
    options = {"seed": 0, "first_row": rank * 2, "on_end": on_end}
    with SerialSampler(venv, player, 5, **options) as sampler:
        for _ in range(6):
            algorithm.take(sampler.collect(version=algorithm.updates))
            logged.append(algorithm.train())
    return copy.deepcopy(network.state_dict()), logged


ONE = {"epochs": 1, "batch_size": 1000}
CASES = {
    "reinforce": (REINFORCE, {"normalize_advantage": "none"}, {"heads": ("policy",)}, "reset"),
    "ppo": (PPO, {**ONE, "entropy_weight": 0.1}, {}, "wait"),
    "ppo, normalised": (PPO, {**ONE, "normalize_advantage": "minibatch"}, {}, "wait"),
    "ppo, sequences": (PPO, {**ONE, "minibatch": "env"}, {"recurrent": "gru"}, "sticky"),
    "a2c": (A2C, {"normalize_advantage": "batch"}, {}, "wait"),
    "v-trace": (VTrace, {}, {}, "wait"),
    "pqn": (PQN, ONE, {}, "wait"),
}


@pytest.mark.parametrize("name", CASES)
def test_they_learn_what_one_would_that_had_the_rows_of_all(name):
    case, barrier, slots = CASES[name], threading.Barrier(2), [None] * 2
    alone, log = learned(case, 0, None, a_network(case))
    # Made here, as threads that seed torch's generator at once draw each other's weights.
    networks = [a_network(case) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(learned, case, rank, Threads(rank, barrier, slots), networks[rank])
            for rank in (0, 1)
        ]
        (first, first_log), (second, second_log) = [run.result() for run in runs]
    for key, tensor in alone.items():
        assert torch.equal(first[key], second[key])
        torch.testing.assert_close(first[key], tensor, rtol=1e-4, atol=1e-5)
    assert first_log == second_log
    for mine, theirs in zip(first_log, log, strict=True):
        assert mine.keys() == theirs.keys()
        assert mine["updates"] == theirs["updates"]
        assert not any(np.isnan(number) for number in mine.values())
