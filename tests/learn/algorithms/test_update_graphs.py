"""Updates that are recorded and replayed: the same numbers as those that are made one by one.

Recording needs a GPU. Without one, a replay here calls the update again, on tensors that stay
where they are: all that goes with a recording is tested so.
"""

from __future__ import annotations

import gc
import weakref

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gpus import DEVICES  # noqa: E402
from gymnasium import spaces  # noqa: E402
from off_policy_tasks import goes_on_bit_for_bit, rounds  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import LossNotFinite  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    C51,
    DDPG,
    DQN,
    QRDQN,
    R2D1,
    SAC,
    TD3,
    TQC,
    CrossQ,
    DeterministicPolicyConfig,
    PolicyAgent,
    QAgent,
    QAgentConfig,
    Rainbow,
    Schedule,
    SerialSampler,
    SoftPolicyConfig,
    make_agent_network,
)
from plangym_ext.learn.algorithms.off_policy import base  # noqa: E402
from plangym_ext.learn.engines import actor_critic, flat_optimizer, update_graphs  # noqa: E402

#: Algorithm, network, and options.
CASES = {
    "sac": (
        SAC,
        SoftPolicyConfig(hidden=(16,)),
        {"learning_rate": Schedule(start=0.01, end=0.0, over=30)},
    ),
    "sac, prioritised": (SAC, SoftPolicyConfig(hidden=(16,)), {"prioritized": True}),
    "tqc": (TQC, SoftPolicyConfig(hidden=(16,)), {"quantiles": 5}),
    "crossq": (CrossQ, SoftPolicyConfig(hidden=(16,)), {"critic_hidden": (16,)}),
    "td3": (TD3, DeterministicPolicyConfig(hidden=(16,)), {"max_grad_norm": 0.1}),
    "ddpg": (DDPG, DeterministicPolicyConfig(hidden=(16,)), {"optimizer": "adamw", "l2": 0.01}),
    "dqn": (DQN, QAgentConfig(hidden=(16,)), {"target_every": 3}),
    "c51": (C51, QAgentConfig(hidden=(16,), returns="atoms"), {"target_every": 3}),
    "qrdqn": (QRDQN, QAgentConfig(hidden=(16,), returns="quantiles", atoms=8), {}),
    "rainbow": (
        Rainbow,
        QAgentConfig(hidden=(16,), returns="atoms", dueling=True, noisy=True),
        {"target_every": 2},
    ),
}
SMALL = {"capacity": 400, "learning_starts": 8, "updates_per_step": 0.5, "batch_size": 8}


@pytest.fixture(params=DEVICES)
def device(request, monkeypatch):
    """Where updates are recorded; on a CPU they are called again in place of a replay."""
    if request.param == "cpu":
        monkeypatch.setattr(flat_optimizer, "_is_on_gpu", lambda parts: True)
        monkeypatch.setattr(flat_optimizer, "_is_small", lambda parts: False)
        monkeypatch.setattr(actor_critic, "can_be_dense", lambda *modules: False)
        monkeypatch.setattr(
            "plangym_ext.learn.engines.compiled.q_values.can_compile_q", lambda net: False
        )
        monkeypatch.setattr(update_graphs, "captured", called_again)
    # So that both ways draw the same steps.
    monkeypatch.setattr(base, "_BLOCK", 1)
    return request.param


def called_again(call, device):
    """Return what calls again and overwrites what was returned, as a replay does."""
    before = torch.random.get_rng_state()
    for _ in range(2):
        call()
    found = call()
    torch.random.set_rng_state(before)

    def replay():
        errors = call().errors
        if errors is not None:
            found.errors.copy_(errors)

    return replay, found


def begun(name, device, *, compiled=True, **more):
    """Return a vector env, an agent and an algorithm."""
    algorithm, network, options = CASES[name]
    policy = hasattr(algorithm.config_class, "critics")
    env_id = "Pendulum-v1" if policy else "CartPole-v1"
    venv = make_vec(env_id, 2, backend="serial", autoreset_mode="same_step")
    shapes = venv.single_observation_space, venv.single_action_space
    made = make_agent_network(*shapes, network, seed=0)
    agent = (PolicyAgent if policy else QAgent)(made, device=device)
    settings = algorithm.config_class(**{**SMALL, "compiled": compiled, **options, **more})
    return venv, agent, algorithm(made, settings, seed=3)


def learned(name, device, count=8, **options):
    """Return what was learned and logged in some rounds of 10 steps."""
    venv, agent, algorithm = begun(name, device, **options)
    with SerialSampler(venv, agent, 5, seed=1) as sampler:
        logged = rounds(sampler, agent, algorithm, count)
    return algorithm, logged


def numbers(algorithm):
    """Return all weights and moments."""
    modules = [algorithm.network, *algorithm.modules.values()]
    parts = [part.cpu() for module in modules for part in module.state_dict().values()]
    for optimizer in algorithm.optimizers.values():
        parts += [part.cpu() for part in optimizer.changed_by_steps()]
    return torch.cat([part.flatten().double() for part in parts]).numpy()


@pytest.mark.parametrize("name", CASES)
def test_updates_are_those_that_are_made_one_by_one(name, device):
    recorded, logged = learned(name, device)
    one_by_one, told = learned(name, device, compiled=False)
    assert recorded._graphs is not None
    assert one_by_one._graphs is None
    assert recorded.updates == one_by_one.updates > 20
    # Gradients are shortened by a factor of float32 there; and on a GPU libraries may choose other
    # kernels while they are recorded.
    bound = 1e-6 if device == "cpu" else 1e-3
    np.testing.assert_allclose(numbers(recorded), numbers(one_by_one), rtol=bound, atol=bound)
    assert logged.keys() == told.keys()
    for key, number in told.items():
        assert logged[key] == pytest.approx(number, rel=1e-5 if device == "cpu" else 0.05), key


@pytest.mark.parametrize("name", CASES)
def test_recorded_updates_go_on_bit_for_bit(name, device, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK", 4)
    goes_on_bit_for_bit(lambda: begun(name, device), whole=8, before=5, least=20)


def test_kinds_are_recorded_once(device, monkeypatch):
    calls = []
    monkeypatch.setattr(
        update_graphs, "captured", lambda *given: calls.append(given) or called_again(*given)
    )
    algorithm, _ = learned("td3", "cpu" if device == "cpu" else "cuda", target_every=3)
    assert algorithm.updates > 20
    # With and without the policy, with and without the target networks.
    assert len(calls) == 4


@pytest.mark.parametrize("name", ["sac", "sac, prioritised", "dqn", "rainbow"])
def test_losses_that_are_not_finite_are_told_and_what_follows_is_not_made(name, device):
    algorithm, _ = learned(name, device)
    optimizer, updates, owed = algorithm.optimizers, algorithm.updates, algorithm._owed
    steps, before = algorithm._steps_of, None

    def infinite(batch):
        nonlocal before
        drawn = steps(batch)
        if algorithm.updates < updates + 2:
            return drawn
        before = before or moments(optimizer)
        return drawn._replace(reward=drawn.reward * np.nan)

    algorithm._steps_of = infinite
    algorithm._owed += 5
    with pytest.raises(LossNotFinite, match=rf"update {updates + 2} must have a finite loss"):
        algorithm.train()
    assert algorithm.updates == updates + 2
    assert algorithm._owed == owed + 3
    assert all(map(torch.equal, before, moments(optimizer)))
    assert np.isfinite(numbers(algorithm)).all()
    # It is over with that.
    algorithm._steps_of = steps
    logged = algorithm.train()
    assert algorithm.updates == updates + 5
    assert all(map(np.isfinite, logged.values()))


def moments(optimizers):
    return [part.cpu().clone() for o in optimizers.values() for part in o.changed_by_steps()]


def test_rounds_log_what_was_done_in_them(device):
    logs = []
    for compiled in (True, False):
        venv, agent, algorithm = begun("td3", device, compiled=compiled)
        with SerialSampler(venv, agent, 1, seed=1) as sampler:
            logs.append([rounds(sampler, agent, algorithm, 1) for _ in range(12)])
    for mine, theirs in zip(*logs, strict=True):
        assert mine.keys() == theirs.keys()
    assert {"train/policy_loss" in log for log in logs[0]} == {True, False}


@pytest.mark.parametrize("compiled", [True, False])
def test_means_are_of_the_updates_that_log_them(device, compiled):
    fixed = {"policy_every": 3, "temperature": 0.25, "learn_temperature": False}
    # Three updates of the policy in ten.
    _, logged = learned("sac", device, 1, compiled=compiled, learning_starts=0, **fixed)
    assert logged["train/temperature"] == pytest.approx(0.25)


def test_what_was_interrupted_leaves_nothing_behind(device, monkeypatch):
    captured = update_graphs.captured

    def interrupted(call, where):
        captured(call, where)
        raise KeyboardInterrupt

    algorithm, logged = learned("td3", device)
    algorithm._graphs.forget()
    before, updates = numbers(algorithm), algorithm.updates
    monkeypatch.setattr(update_graphs, "captured", interrupted)
    algorithm._owed += 3
    with pytest.raises(KeyboardInterrupt):
        algorithm.train()
    assert algorithm.updates == updates
    np.testing.assert_array_equal(numbers(algorithm), before)
    monkeypatch.setattr(update_graphs, "captured", captured)

    def stop(done):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        algorithm.train(stop)
    found = algorithm.train()
    assert algorithm.updates == updates + 3
    assert abs(found["train/critic_loss"]) < 10 * abs(logged["train/critic_loss"]) + 1


def test_an_algorithm_is_freed_at_once(device):
    algorithm, _ = learned("dqn", device)
    if device == "cpu":
        # What calls again keeps what it calls, as a graph does not.
        algorithm._graphs.forget()
    gc.collect()
    gc.disable()
    try:
        alive = weakref.ref(algorithm)
        del algorithm
        assert alive() is None
    finally:
        gc.enable()


class Seen(gym.Env):
    """Shows a place, two of which are told in other ways."""

    observation_space = spaces.Dict(
        {
            "at": spaces.Discrete(3, start=1),
            "both": spaces.MultiDiscrete([2, 3]),
            "speed": spaces.Box(-1, 1, (2,)),
        }
    )

    def __init__(self, discrete):
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-2, 2, (1,))

    def _shown(self):
        place = self.count % 3
        both = np.array([place % 2, place])
        return {"at": place + 1, "both": both, "speed": np.full(2, place / 3, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._shown(), {}

    def step(self, action):
        self.count += 1
        return self._shown(), float(np.sum(action)), self.count == 5, False, {}


@pytest.mark.parametrize(
    ("algorithm", "network", "discrete", "options"),
    [
        (SAC, SoftPolicyConfig(hidden=(8,)), False, {"learn_temperature": False}),
        (SAC, SoftPolicyConfig(hidden=(8,)), True, {"critic_layer_norm": True}),
        (TD3, DeterministicPolicyConfig(hidden=(8,), normalize_obs=True), False, {}),
        (DQN, QAgentConfig(hidden=(8,)), True, {"double": True, "n_steps": 2}),
    ],
)
def test_nested_observations_and_other_settings(algorithm, network, discrete, options, device):
    found = []
    for compiled in (True, False):
        venv = make_vec([lambda: Seen(discrete)] * 2, backend="serial", autoreset_mode="same_step")
        shapes = venv.single_observation_space, venv.single_action_space
        made = make_agent_network(*shapes, network, seed=0)
        agent = (QAgent if algorithm is DQN else PolicyAgent)(made, device=device)
        settings = algorithm.config_class(**{**SMALL, "compiled": compiled, **options})
        learner = algorithm(made, settings, seed=3)
        assert (learner._graphs is not None) is compiled
        with SerialSampler(venv, agent, 5, seed=1) as sampler:
            rounds(sampler, agent, learner, 6)
        assert learner.updates > 10
        found.append(numbers(learner))
    bound = 1e-6 if device == "cpu" else 1e-3
    np.testing.assert_allclose(*found, rtol=bound, atol=bound)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "rmsprop"},
        {"target_rate": Schedule(start=0.1, end=0.2, over=10)},
        {"max_grad_norm": Schedule(start=0.1, end=0.2, over=10)},
        {"compiled": False},
    ],
)
def test_what_cannot_be_recorded_is_made_one_by_one(options, device):
    algorithm, _ = learned("dqn", device, **options)
    assert algorithm._graphs is None
    assert algorithm.updates > 20


def test_recurrent_networks_are_not_recorded(device):
    network = QAgentConfig(hidden=(8,), recurrent="lstm", recurrent_size=8)
    with make_vec("CartPole-v1", 2, backend="serial") as venv:
        shapes = venv.single_observation_space, venv.single_action_space
        made = make_agent_network(*shapes, network, seed=0).to(device)
        assert R2D1(made)._graphs is None
