"""Ensembles of observation models: what is predicted and drawn, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from plangym_ext.errors import ForeignState, InvalidOption, WrongKind
from plangym_ext.learn import (
    EnsembleConfig,
    EnsembleLearning,
    EnsembleLearningConfig,
    EnsembleModel,
    EpisodeRecord,
    make_ensemble_network,
    make_network,
    model_planner,
)
from plangym_ext.learn.models.ensemble import normals
from plangym_ext.planners import ICEM, MCTS

OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
BOX, MOVES = spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(3, start=1)
M, P = 3, 2


def network(action_space=BOX, **options):
    config = EnsembleConfig(
        **{"members": M, "particles": P, "hidden": (5,), "activation": "tanh", **options}
    )
    made = make_ensemble_network(OBS, action_space, config, seed=0)
    part = made.normalizer.parts[0]
    part.mean.copy_(torch.tensor([[0.5, -1.0]]))
    part.scale.copy_(torch.tensor([[0.5, 4.0]]))
    return made


def by_numpy(made, member, obs, action):
    """Return mean, log-variance and ending of one member for one row."""
    x = np.concatenate([(obs - [0.5, -1.0]) * [0.5, 4.0], action])
    for i, layer in enumerate(made.layers):
        x = x @ layer.weights[member].detach().numpy() + layer.biases[member, 0].detach().numpy()
        x = np.tanh(x) if i == 0 else x

    def softplus(y):
        return np.log1p(np.exp(y))

    spread = 0.5 - softplus(0.5 - x[3:6])
    return x[:3], -10.0 + softplus(spread + 10.0), x[6] if len(x) > 6 else -1.0


@pytest.mark.parametrize("space", [BOX, MOVES], ids=["box", "discrete"])
def test_a_step_is_that_of_numpy(space):
    made = network(space, sample=False, endings=True, disagreement=-0.25)
    with torch.no_grad():
        made.layers[-1].biases[1, 0, -1] += 10.0  # member 1 ends at once
    model = EnsembleModel(made)
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(4, 2)).astype(np.float32)
    actions = (
        rng.uniform(-1, 1, (4, 1)).astype(np.float32) if space is BOX else np.array([1, 2, 3, 1])
    )
    states = model.states_of(obs)
    np.testing.assert_allclose(model.obs_of(states), obs)
    first = model.step_batch(actions, states)
    second = model.step_batch(actions, first.states)
    for row in range(4):
        played = actions[row] if space is BOX else np.eye(3)[actions[row] - 1]
        at = {m: obs[row].astype(float) for m in range(M)}
        over = dict.fromkeys(range(M), False)
        for found in (first, second):
            rewards = []
            for m in range(M):
                if over[m]:
                    rewards.append(0.0)
                    continue
                mean, _, ending = by_numpy(made, m, at[m], played)
                at[m] = at[m] + mean[:2] / [0.5, 4.0]
                rewards.append(mean[2])
                over[m] = ending > 0
            spread = np.std([at[m] * [0.5, 4.0] for m in range(M)], axis=0).mean()
            wanted = np.mean(rewards) - 0.25 * spread
            assert found.infos["disagreement"][row] == pytest.approx(spread, rel=1e-4)
            assert found.rewards[row] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
            alive = [at[m] for m in range(M) if not over[m]] or list(at.values())
            np.testing.assert_allclose(found.obs[row], np.mean(alive, axis=0), rtol=1e-4, atol=1e-5)
            assert found.terminateds[row] == all(over.values())
        assert over[1]


def test_what_is_drawn_has_the_predicted_moments():
    made = network(members=1, particles=4000)
    with torch.no_grad():
        made.layers[-1].biases[0, 0, 3:6] = torch.tensor([-1.0, 0.0, -2.0])
    model = EnsembleModel(made)
    obs, action = np.array([[1.0, -1.5]], np.float32), np.array([[0.25]], np.float32)
    mean, log_variance, _ = by_numpy(made, 0, obs[0], action[0])
    states = model.states_of(obs)
    out = model.step_batch(action, states)
    rows = model._contents(out.states).view(model._form)["of"]["obs"].reshape(-1, 2)
    wanted = np.exp(0.5 * log_variance[:2]) / [0.5, 4.0]
    error = wanted / math.sqrt(4000)
    assert (np.abs(rows.mean(0) - (obs[0] + mean[:2] / [0.5, 4.0])) < 4 * error).all()
    np.testing.assert_allclose(rows.std(0), wanted, rtol=0.06)
    assert out.infos["disagreement"][0] == pytest.approx(
        (rows.std(0) * [0.5, 4.0]).mean(), rel=1e-3
    )
    # What is drawn follows from the state; another key draws otherwise.
    np.testing.assert_array_equal(model.step_batch(action, states).states, out.states)
    other = model.reseeded(states, np.random.default_rng(0))
    assert (model.step_batch(action, other).obs != out.obs).any()
    np.testing.assert_array_equal(model.reseeded(other, None), states)


def test_counted_noise_is_normal():
    drawn = normals(np.arange(20_000, dtype=np.uint64), 3)
    assert np.abs(drawn.mean(0)).max() < 4 / math.sqrt(20_000)
    np.testing.assert_allclose(np.cov(drawn.T), np.eye(3), atol=0.05)
    assert np.mean(np.abs(drawn) < 1.0) == pytest.approx(0.6827, abs=0.01)
    np.testing.assert_array_equal(normals(np.array([7], np.uint64), 3)[0], drawn[7])


def record(length, seed=0):
    rng = np.random.default_rng(seed)
    return EpisodeRecord(
        seed=0,
        observations=rng.normal(size=(length + 1, 2)).astype(np.float32),
        actions=rng.uniform(-1, 1, (length, 1)).astype(np.float32),
        rewards=rng.normal(size=length),
        terminated=True,
        truncated=False,
        root_values=np.full(length, np.nan),
    )


def test_the_loss_is_that_of_numpy():
    made = network(endings=True)
    algorithm = EnsembleLearning(made, EnsembleLearningConfig(bounds_weight=0.5), seed=3)
    one = record(6)
    rows = algorithm.samples(one)
    assert rows["ending"].tolist() == [0, 0, 0, 0, 0, 1]
    batch = {name: torch.tensor(part) for name, part in rows.items()}
    parts = algorithm._losses(batch)
    for row in range(6):
        model = ending = 0.0
        for m in range(M):
            mean, spread, over = by_numpy(made, m, rows["obs"][row], rows["action"][row])
            change = (rows["next_obs"][row] - rows["obs"][row]) * [0.5, 4.0]
            wanted = np.append(change, rows["reward"][row])
            likelihood = ((mean - wanted) ** 2 * np.exp(-spread) + spread).mean()
            model += rows["bag"][row, m] * likelihood / M
            chance = 1 / (1 + math.exp(-over))
            came = rows["ending"][row]
            surprise = -(came * math.log(chance) + (1 - came) * math.log(1 - chance))
            ending += rows["bag"][row, m] * surprise / M
        bounds = 0.5 * 3 * (0.5 + 10.0)
        assert float(parts["model"].loss[row].detach()) == pytest.approx(model + bounds, rel=1e-4)
        assert float(parts["ending"].loss[row].detach()) == pytest.approx(ending, rel=1e-4)


def test_bags_have_mean_one_and_come_again():
    algorithm = EnsembleLearning(network(), seed=3)
    bags = algorithm.samples(record(3000))["bag"]
    np.testing.assert_allclose(bags.mean(0), 1.0, atol=0.08)
    np.testing.assert_allclose(bags.var(0), 1.0, atol=0.12)
    np.testing.assert_array_equal(algorithm.samples(record(3000))["bag"], bags)
    assert (algorithm.samples(record(3000, seed=1))["bag"] != bags).any()


def test_a_linear_env_is_learned():
    made = network(hidden=(16,), sample=False)
    config = EnsembleLearningConfig(
        learning_rate=0.01, batch_size=64, learning_starts=1, updates_per_round=300, l2=0.0
    )
    algorithm = EnsembleLearning(made, config, seed=0)
    rng = np.random.default_rng(0)
    obs, actions = rng.normal(size=(400, 2)), rng.uniform(-1, 1, (400, 1))
    rows = algorithm.samples(record(400))
    rows["obs"], rows["action"] = obs.astype(np.float32), actions.astype(np.float32)
    rows["next_obs"] = (obs + 0.3 * actions * [1.0, -0.5]).astype(np.float32)
    rows["reward"] = obs[:, 0].astype(np.float32)
    algorithm.replay.add(rows)
    assert algorithm.train()["train/loss"] < 1.0
    model = EnsembleModel(made)
    found = model.step_batch(rows["action"], model.states_of(rows["obs"]))
    assert np.abs(found.obs - rows["next_obs"]).mean() < 0.06
    assert np.abs(found.rewards - rows["reward"]).mean() < 0.15


def test_planners_of_both_kinds_of_actions_plan_in_it():
    state = np.zeros(1, np.uint8)
    obs = np.array([0.1, 0.2], np.float32)
    continuous = model_planner(network(), lambda _: ICEM(8, horizon=3))
    plan = continuous.plan(None, state, rng=0, obs=obs)
    assert BOX.contains(plan.action)
    assert plan.budget.model_steps > 0
    discrete = model_planner(network(MOVES), lambda _: MCTS(8))
    assert discrete.plan(None, state, rng=0, obs=obs).action in (1, 2, 3)


def test_other_spaces_and_networks_are_refused():
    with pytest.raises(InvalidOption, match="vectors"):
        make_ensemble_network(spaces.Box(0, 1, (2, 2)), BOX, seed=0)
    with pytest.raises(WrongKind, match="EnsembleNetwork"):
        EnsembleLearning(make_network(OBS, BOX, seed=0))


def test_an_action_that_is_a_single_number():
    seen, act = spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (), np.float32)
    config = EnsembleConfig(members=2, hidden=(8,), sample=False)
    models = [
        EnsembleModel(make_ensemble_network(seen, one, config, seed=0))
        for one in (act, spaces.Box(-1.0, 1.0, (1,), np.float32))
    ]
    obs, actions = np.ones((4, 3), np.float32), np.linspace(-1, 1, 4, dtype=np.float32)
    found, wanted = (
        model.step_batch(played, model.states_of(obs))
        for model, played in zip(models, (actions, actions[:, None]), strict=True)
    )
    np.testing.assert_array_equal(found.obs, wanted.obs)


def test_states_know_the_action_space_by_its_values():
    seen, config = spaces.Box(-1.0, 1.0, (3,), np.float32), EnsembleConfig(members=2, hidden=(8,))

    def model(low):
        act = spaces.Box(low, np.ones_like(low))
        return EnsembleModel(make_ensemble_network(seen, act, config, seed=0))

    low = np.linspace(-1.123456789, -0.1, 2000, dtype=np.float32)
    states = model(low).states_of(np.zeros((1, 3), np.float32))
    actions = np.zeros((1, 2000), np.float32)
    with np.printoptions(precision=3, suppress=True):
        model(low).step_batch(actions, states)
    # What the text of the space leaves out.
    other = low.copy()
    other[1000] = -5.0
    with pytest.raises(ForeignState):
        model(other).step_batch(actions, states)
