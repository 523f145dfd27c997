"""Updates that are recorded and replayed: the same numbers as those that are made one by one.

Recording needs a GPU. Without one, a replay here calls the update again, on tensors that stay
where they are: all that goes with a recording is tested so.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gpus import DEVICES  # noqa: E402
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
from plangym_ext.learn.algorithms import flat_optimizer  # noqa: E402
from plangym_ext.learn.algorithms.off_policy import (  # noqa: E402
    base,
    replay_actor_critic,
    update_graphs,
)

#: Algorithm, network, and options.
CASES = {
    "sac": (
        SAC,
        SoftPolicyConfig(hidden=(16,)),
        {"learning_rate": Schedule(start=0.01, end=0.0, over=30)},
    ),
    "sac, prioritised": (SAC, SoftPolicyConfig(hidden=(16,)), {"prioritized": True}),
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
        monkeypatch.setattr(replay_actor_critic, "can_be_dense", lambda *modules: False)
        monkeypatch.setattr("plangym_ext.learn.compiled.q_values.can_compile_q", lambda net: False)
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
    spaces = venv.single_observation_space, venv.single_action_space
    made = make_agent_network(*spaces, network, seed=0)
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


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_losses_that_are_not_finite_are_told_and_change_no_weight(name, device):
    algorithm, _ = learned(name, device)
    optimizer = next(iter(algorithm.optimizers.values()))
    before = [part.cpu().clone() for part in optimizer.changed_by_steps()]
    drawn = algorithm._steps_of

    def infinite(batch):
        steps = drawn(batch)
        return steps._replace(reward=steps.reward + np.inf)

    algorithm._steps_of = infinite
    algorithm._owed += 5
    with pytest.raises(LossNotFinite, match=r"updates from \d+ to \d+ must have finite"):
        algorithm.train()
    assert np.isfinite(numbers(algorithm)).all()
    after = [part.cpu() for part in optimizer.changed_by_steps()]
    assert all(map(torch.equal, before, after))


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
        spaces = venv.single_observation_space, venv.single_action_space
        made = make_agent_network(*spaces, network, seed=0).to(device)
        assert R2D1(made)._graphs is None
