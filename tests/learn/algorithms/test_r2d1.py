"""R2D1: what sequences say is what was played; endings, resuming, what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from off_policy_tasks import Corridor, goes_on_bit_for_bit, rounds  # noqa: E402
from sampling_envs import oracle_venv  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import InvalidOption  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    R2D1,
    QAgent,
    QAgentConfig,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.losses.q_values import rescaled, unscaled  # noqa: E402

SMALL = {"capacity": 400, "learning_starts": 40, "batch_size": 8, "burn_in": 3, "length": 4}
LSTM = {"recurrent": "lstm", "recurrent_size": 8, "hidden": (8,)}


def made(venv, *, network=None, **options):
    space = venv.single_observation_space, venv.single_action_space
    net = make_agent_network(*space, QAgentConfig(**{**LSTM, **(network or {})}), seed=3)
    return QAgent(net), R2D1(net, R2D1.config_class(**{**SMALL, **options}), seed=0)


@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
def test_a_network_says_of_sequences_what_it_said_when_they_were_played(on_end):
    venv = oracle_venv(3)
    network = {
        "init": "orthogonal",
        "previous_action": True,
        "previous_reward": True,
        "dueling": True,
    }
    agent, algorithm = made(venv, network=network, n_steps=2)
    said = {}
    with SerialSampler(venv, agent, 5, seed=0, on_end=on_end) as sampler:
        for _ in range(9):
            collected = sampler.collect()
            algorithm.take(collected)
            tree = collected.data
            played = tree["valid"].to_ndarray()
            keys = tree["obs"].to_ndarray()[played]
            q = tree["agent_info"]["q"].to_ndarray()[played]
            said |= {tuple(key): row for key, row in zip(keys.tolist(), q.copy(), strict=True)}
    batch = algorithm.replay.sample(16)
    sequences = algorithm._steps_of(batch)
    with torch.no_grad():
        found = agent.network(sequences.inputs, sequences.carry)[0].q.numpy()
    obs, learned = batch.samples["obs"], batch.samples["learned"]
    assert learned.sum() > 30
    for row, sequence in np.argwhere(learned):
        wanted = said[tuple(obs[row, sequence].tolist())]
        np.testing.assert_allclose(found[row, sequence], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("terminates", [True, False])
def test_terminated_returns_end_and_truncated_ones_go_on(terminates):
    makes = [lambda: Corridor(terminates=terminates)] * 4
    venv = make_vec(makes, backend="serial", autoreset_mode="same_step")
    options = {
        "discount": 0.8,
        "learning_rate": 0.02,
        "epsilon": 1e-8,
        "exploration": 1.0,
        "target_every": 2,
        "target_rate": 0.5,
        "updates_per_step": 2,
        "n_steps": 2,
    }
    agent, algorithm = made(venv, **options)
    with SerialSampler(venv, agent, 5, seed=0) as sampler:
        rounds(sampler, agent, algorithm, 8)
        batch = algorithm._steps_of(algorithm.replay.sample(8))
        with torch.no_grad():
            q = agent.network(batch.inputs, batch.carry)[0].q
    learned = batch.learned.numpy()
    # Of a state that is never acted in, as after a truncation, only the value is asked for.
    worth = q.amax(dim=2).gather(0, batch.following.clamp(max=len(q) - 1))
    due = rescaled(batch.reward + batch.discount * unscaled(worth)).numpy()
    place, wanted = batch.inputs.obs.numpy(), np.array([1 + 0.8 + 0.64, 1.8, 1.0])
    ends = batch.discount.numpy()[learned] == 0
    assert ends.any() == terminates
    for action in range(2):
        found = q[..., action].numpy()[learned]
        np.testing.assert_allclose(found, due[learned], atol=0.12)
        if terminates:  # on the scale of h, which is what the network learns
            small = np.sqrt(wanted + 1) - 1 + 1e-3 * wanted
            np.testing.assert_allclose(found, small[place[learned]], atol=0.12)


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("eta", [0.0, 0.25, 1.0])
def test_priorities_weigh_the_largest_error_and_targets_are_on_their_scale(rescale, eta):
    with oracle_venv(2) as venv:
        agent, algorithm = made(venv, rescale=rescale, eta=eta, burn_in=0, double=False)
        with SerialSampler(venv, agent, 20, seed=0) as sampler:
            algorithm.take(sampler.collect())
        steps = algorithm._steps_of(algorithm.replay.sample(6))
    with torch.no_grad():
        found = algorithm._loss(steps)
        q = agent.network(steps.inputs, steps.carry)[0].q
    worth = q.amax(dim=2).gather(0, steps.following.clamp(0, len(q) - 1))
    target = steps.reward + steps.discount * (unscaled(worth) if rescale else worth)
    target = rescaled(target) if rescale else target
    value = q.gather(2, (steps.action - algorithm._start)[..., None] % q.shape[2])[..., 0]
    errors = torch.where(steps.learned, (target - value).abs(), 0.0)
    wanted = eta * errors.amax(0) + (1 - eta) * errors.sum(0) / steps.learned.sum(0)
    torch.testing.assert_close(found.errors, wanted)


def test_a_saved_algorithm_goes_on_bit_for_bit():
    def begin():
        venv = make_vec("CartPole-v1", 3, backend="serial", autoreset_mode="same_step")
        return venv, *made(venv, updates_per_step=0.2, target_every=3)

    goes_on_bit_for_bit(begin, whole=8, before=4, least=10)


def test_networks_that_carry_nothing_are_refused():
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    with venv:
        with pytest.raises(InvalidOption, match="must be recurrent"):
            made(venv, network={"recurrent": "none"})
        with pytest.raises(InvalidOption, match="must have a Q head"):
            made(venv, network={"heads": ("value",)})


def test_previous_rewards_are_learned_from_as_they_were_shown():
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    with venv:
        sees = {"previous_reward": True}
        made(venv, network=sees)
        made(venv, clip_reward=1.0)
        with pytest.raises(InvalidOption, match=r"R2D1: with clip_reward .* previous rewards"):
            made(venv, network=sees, clip_reward=1.0)


def test_updates_are_owed_until_a_sequence_is_old_enough():
    with oracle_venv(2) as venv:
        agent, algorithm = made(venv, learning_starts=0, burn_in=12, updates_per_step=0.5)
        counts = []
        with SerialSampler(venv, agent, 5, seed=0) as sampler:
            for _ in range(5):
                rounds(sampler, agent, algorithm, 1)
                counts.append(algorithm.updates)
    # 10 steps a round; the third has 15 of each env, of which the first sequence takes 13.
    assert counts == [0, 0, 15, 20, 25]
