from __future__ import annotations

import copy
import dataclasses
import io

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from plangym_ext.errors import (
    ForeignNetwork,
    InvalidOption,
    InvalidSamples,
    LossNotFinite,
    UnknownName,
)
from plangym_ext.learn import (
    AlphaZeroConfig,
    EpisodeRecord,
    HistogramConfig,
    NetworkConfig,
    NetworkEvaluator,
    PlanLearningConfig,
    PrioritizedReplay,
    QConfig,
    Schedule,
    SupervisedConfig,
    SupervisedLearning,
    TDConfig,
    TDLearning,
    UnionNetwork,
    ValueConfig,
    make_network,
)
from plangym_ext.learn.engines.flat_optimizer import flat_optimizer

VECTOR = Box(-np.inf, np.inf, (2,), np.float32)
HEADS = ("policy", "value", "q")


def network(action_space=None, seed=0, **config):
    made = NetworkConfig(**{"hidden": (16,), "heads": HEADS, **config})
    return make_network(VECTOR, action_space or Discrete(2), made, seed=seed)


def record(actions=(0, 1, 0), **changes):
    rng = np.random.default_rng(0)
    fields = {
        "seed": 0,
        "observations": rng.normal(size=(4, 2)).astype(np.float32),
        "actions": np.array(actions),
        "rewards": np.array([1.0, 2.0, 4.0]),
        "terminated": True,
        "truncated": False,
        "root_values": np.array([3.0, 4.0, 4.0]),
        "policies": np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]),
        "visits": np.array([[2, 2], [0, 4], [3, 0]]),
        "q": np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, np.nan]]),
    }
    return EpisodeRecord(**{**fields, **changes})


def alphazero(made, config=None):
    return SupervisedLearning(made, config or AlphaZeroConfig())


def values(made, config=None):
    return SupervisedLearning(made, config or ValueConfig())


def qs(made, config=None):
    return SupervisedLearning(made, config or QConfig())


def weights_of(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# What is learned --------------------------------------------------------------------


def fitted(learner, batch, updates=400):
    for _ in range(updates):
        found = learner.update(batch)
    return found


QUICK = {"learning_rate": 0.02, "l2": 0.0, "discount": 0.5}


def test_alphazero_learns_policy_and_value():
    learner = alphazero(network(), AlphaZeroConfig(**QUICK))
    batch = learner.samples(record())
    assert {name: rows.dtype for name, rows in batch.items()} == {
        "obs": np.float32,
        "value": np.float32,
        "policy": np.float32,
        "legal": np.bool_,
    }
    fitted(learner, batch)
    out = learner.network(torch.from_numpy(batch["obs"]))
    np.testing.assert_allclose(out.value.detach(), [3, 4, 4], atol=0.05)
    policy = torch.softmax(out.policy_logits, dim=1).detach()
    np.testing.assert_allclose(policy, [[0.5, 0.5], [0, 1], [1, 0]], atol=0.05)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_a_union_learns_what_its_networks_learn_each_alone(optimizer):
    how = {"learning_rate": 0.02, "optimizer": optimizer, "max_grad_norm": None}
    alone = {
        head: network(seed=seed, heads=(head,), value_scale=2.0, **shape)
        for seed, (head, shape) in enumerate(
            {"policy": {"hidden": (16,)}, "value": {"hidden": (8, 8), "activation": "tanh"}}.items()
        )
    }
    union = UnionNetwork(copy.deepcopy(alone))
    assert union.value_scale == 2.0
    together = alphazero(union, AlphaZeroConfig(**how))
    batch = together.samples(record())
    fitted(together, batch, updates=20)
    targets = {"policy": {"value_target": None}, "value": {"policy_target": None}}
    for head, made in alone.items():
        fitted(alphazero(made, AlphaZeroConfig(**how, **targets[head])), batch, updates=20)
        one, other = weights_of(made), weights_of(union.networks[head])
        assert one.keys() == other.keys()
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=1e-5, atol=1e-6)
    obs = batch["obs"]
    prior, value = NetworkEvaluator(union)(obs)
    np.testing.assert_array_equal(prior, NetworkEvaluator(union.networks["policy"])(obs)[0])
    np.testing.assert_array_equal(value, NetworkEvaluator(union.networks["value"])(obs)[1])


def test_a_frozen_part_of_a_union_stays_as_it_is():
    union = network(heads=("policy", "value"), shared_body=False)
    assert isinstance(union, UnionNetwork)
    before = weights_of(union.networks["value"])
    union.networks["value"].requires_grad_(False)
    learner = alphazero(union, AlphaZeroConfig(**QUICK))
    fitted(learner, learner.samples(record()), updates=3)
    assert same(before, weights_of(union.networks["value"]))
    assert not same(before, weights_of(union.networks["policy"]))
    for wrong in ({}, {"worth": union}):
        with pytest.raises(InvalidOption, match="networks must be by head, of policy, value, q"):
            UnionNetwork(wrong)


def test_value_learning_learns_what_the_search_said():
    learner = values(network(heads=("value",)))
    batch = learner.samples(record())
    assert set(batch) == {"obs", "value"}
    np.testing.assert_array_equal(batch["value"], [3, 4, 4])


def test_q_learning_learns_what_was_tried_and_nothing_else():
    learner = qs(network(), QConfig(**QUICK))
    batch = learner.samples(record())
    np.testing.assert_array_equal(batch["q"], [[1, 2], [0, 3], [4, 0]])
    np.testing.assert_array_equal(batch["q_mask"], [[1, 1], [0, 1], [1, 0]])
    fitted(learner, batch)
    q = learner.network(torch.from_numpy(batch["obs"])).q.detach().numpy()
    np.testing.assert_allclose(q[batch["q_mask"]], [1, 2, 3, 4], atol=0.05)
    # A different number where nothing is known must not be seen.
    other = {**batch, "q": np.where(batch["q_mask"], batch["q"], 99).astype(np.float32)}
    one, two = (qs(network(), QConfig(**QUICK)) for _ in range(2))
    assert one.update(batch) == two.update(other)


def test_q_of_the_played_action_can_be_its_return():
    learner = qs(network(), QConfig(q_target="discounted_return", **QUICK))
    batch = learner.samples(record())
    np.testing.assert_array_equal(batch["q"], [[3, 0], [0, 4], [4, 0]])
    np.testing.assert_array_equal(batch["q_mask"], [[1, 0], [0, 1], [1, 0]])


def test_histogram_learning_learns_counts_and_returns():
    batch = SupervisedLearning(network(), HistogramConfig()).samples(record())
    np.testing.assert_array_equal(batch["policy"], [[0.5, 0.5], [0, 1], [1, 0]])


def test_forbidden_actions_have_no_part_in_the_loss():
    legal = np.array([[True, True], [False, True], [True, False]])
    learner = alphazero(network(), AlphaZeroConfig(value_weight=0.0, l2=0.0))
    batch = learner.samples(record(legal=legal))
    # Only the first row leaves a choice, which is uniform as it should be: ln 2 of three rows.
    found = learner.update(batch)
    assert found["policy_loss"] == pytest.approx(np.log(2) / 3, rel=1e-5)
    assert found["grad_norm"] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (MultiDiscrete([2, 3]), [[0, 2], [1, 1], [0, 0]]),
        (Box(-2.0, 2.0, (1,), np.float32), [[0.5], [-1.0], [2.0]]),
        (Discrete(2, start=3), [3, 4, 3]),
    ],
)
def test_any_action_space_is_taught_what_was_played(space, actions):
    made = network(space, heads=("policy", "value"))
    learner = alphazero(made, AlphaZeroConfig(policy_target="action", **QUICK))
    batch = learner.samples(record(actions))
    assert ("legal" in batch) == isinstance(space, Discrete)
    fitted(learner, batch, 600)
    out = made(torch.from_numpy(batch["obs"])).policy_logits.detach().numpy()
    atol = 0.1 if isinstance(space, Box) else 0
    np.testing.assert_allclose(made.distribution.greedy(out), actions, atol=atol)


def test_losses_are_measured_in_value_scale():
    parts = []
    for scale in (1.0, 4.0):
        learner = alphazero(network(value_scale=scale), AlphaZeroConfig(discount=0.5))
        parts.append(learner.update(learner.samples(record()))["value_loss"])
    # A fresh network says 0, so these are means of (3, 4, 4) squared, in units of 1 and 4.
    assert parts == pytest.approx([41 / 3, 41 / 48], rel=1e-6)


# Steps ------------------------------------------------------------------------------


def test_weights_of_rows_scale_their_losses():
    batch = values(network()).samples(record())
    learner = values(network())
    found = learner.update(batch, weights=np.array([2.0, 0.0, 0.0]))
    assert found["loss"] == pytest.approx(2 * 9 / 3, rel=1e-6)
    np.testing.assert_allclose(learner.errors, [9, 16, 16], rtol=1e-6)
    # A weight of zero is as good as another target.
    other = {**batch, "value": np.array([3, 5, 6], np.float32)}
    one, two = (values(network()) for _ in range(2))
    one.update(batch, weights=np.array([1.0, 0.0, 0.0]))
    two.update(other, weights=np.array([1.0, 0.0, 0.0]))
    assert same(weights_of(one.network), weights_of(two.network))


def test_errors_are_what_is_above_the_least_loss():
    # A uniform network: the cross-entropy to p is ln 2, of which H(p) cannot be unlearned.
    learner = alphazero(network(), AlphaZeroConfig(value_weight=0.0))
    with torch.no_grad():
        for parameter in learner.network.parameters():
            parameter.zero_()
    found = learner.update(learner.samples(record()))
    assert found["policy_loss"] == pytest.approx(np.log(2), rel=1e-6)
    np.testing.assert_allclose(learner.errors, [0, np.log(2), np.log(2)], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (Box(-2.0, 2.0, (2,), np.float32), np.array([[0.5, -1], [1, 0], [0, 2]], np.float32)),
        (MultiDiscrete([2, 3]), np.array([[0, 2], [1, 1], [0, 0]])),
        (Discrete(2), np.array([0, 1, 0])),
    ],
    ids=["box", "multi-discrete", "discrete"],
)
def test_errors_are_priorities_whatever_the_loss(space, actions):
    config = SupervisedConfig(policy_target="action", learning_rate=0.02, l2=0.0)
    learner = SupervisedLearning(network(space, heads=("policy",)), config)
    batch = learner.samples(record(actions))
    replay = PrioritizedReplay(3, seed=0)
    replay.add(batch)
    learner.update(batch)
    assert (learner.errors > 0).all()
    losses = [learner.update(batch)["policy_loss"] for _ in range(300)]
    if isinstance(space, Box):
        # Of a density, whose logarithm has no upper bound.
        assert losses[-1] < 0
    assert (learner.errors >= 0).all()
    replay.update_priorities([0, 1, 2], learner.errors)


def test_a_gaussian_that_is_right_has_no_error_however_wide_it_is():
    space = Box(-1.0, 1.0, (2,), np.float32)
    distribution = network(space, heads=("policy",)).distribution
    target = torch.tensor([[0.5, -0.25], [0.5, -0.25]])
    # The same mean with deviations of 1 and e; then one that is off by one deviation each.
    params = torch.tensor([[0.5, -0.25, 0.0, 0.0], [0.5, -0.25, 1.0, 1.0]])
    least = distribution.least_loss(params, target)
    torch.testing.assert_close(distribution.loss(params, target), least)
    params[:, :2] -= params[:, 2:].exp()
    torch.testing.assert_close(distribution.loss(params, target), least + 2 * 0.5)


def test_adamw_decays_weights_apart_from_the_loss():
    made = torch.nn.Linear(2, 2)
    before = weights_of(made)
    options = {"learning_rate": 0.5, "l2": 0.1}
    optimizer = flat_optimizer(made, PlanLearningConfig(optimizer="adamw", **options), decays=True)
    optimizer.step(0.0 * made(torch.ones(1, 2)).sum(), 0.5, np.inf)
    # Each weight loses learning_rate * l2 of itself; of l2 / 2 w^2 in the loss, adam would
    # make a step of the learning rate whatever w is.
    torch.testing.assert_close(made.weight.detach(), 0.95 * before["weight"])
    torch.testing.assert_close(made.bias.detach(), before["bias"])


def test_long_gradients_are_shortened():
    config = {"optimizer": "sgd", "learning_rate": 1.0, "l2": 0.0}
    value = {"value_target": "value", **config}
    learner = SupervisedLearning(network(), SupervisedConfig(max_grad_norm=0.5, **value))
    before = weights_of(learner.network)
    assert learner.update(learner.samples(record()))["grad_norm"] > 0.5
    after = weights_of(learner.network)
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before])
    assert moved.norm().item() == pytest.approx(0.5, rel=1e-4)


def test_l2_shrinks_weights_and_spares_biases():
    config = {"value_target": "value", "optimizer": "sgd", "learning_rate": 0.1, "l2": 0.5}
    made = network(heads=("value",))
    with torch.no_grad():
        made.heads.bias[:] = 4.0
    learner = SupervisedLearning(made, SupervisedConfig(**config))
    before = weights_of(made)
    flat = record(root_values=np.full(3, 4.0))  # what it says already
    learner.update(learner.samples(flat))
    after = weights_of(made)
    # The gradient of l2 / 2 w^2 is l2 w: one step of 0.1 takes 5 % off.
    torch.testing.assert_close(after["body.1.weight"], 0.95 * before["body.1.weight"])
    assert torch.equal(after["heads.bias"], before["heads.bias"])


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop", "sgd"])
def test_every_optimizer_goes_downhill(optimizer):
    config = SupervisedConfig(value_target="value", optimizer=optimizer, learning_rate=0.01)
    learner = SupervisedLearning(network(), config)
    batch = learner.samples(record())
    first = learner.update(batch)["loss"]
    assert fitted(learner, batch, 50)["loss"] < 0.5 * first


def test_the_rate_follows_the_schedule():
    config = ValueConfig(learning_rate=Schedule(start=1e-3, end=0.0, over=2))
    learner = values(network(), config)
    batch = learner.samples(record())
    rates = [learner.update(batch)["learning_rate"] for _ in range(3)]
    assert rates == pytest.approx([1e-3, 5e-4, 0])


# Faults -----------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["obs", "value"])
def test_nan_is_refused_before_anything_changes(field):
    learner = alphazero(network())
    batch = learner.samples(record())
    learner.update(batch)
    before, moments = weights_of(learner.network), learner.optimizer.state_dict()
    moments = {i: weights["exp_avg"].clone() for i, weights in moments.items()}
    wrong = {name: rows.copy() for name, rows in batch.items()}
    wrong[field].flat[0] = np.nan
    with pytest.raises(LossNotFinite, match=rf"update 1 .* is nan.* not finite in {field}"):
        learner.update(wrong)
    assert same(weights_of(learner.network), before)
    now = learner.optimizer.state_dict()
    assert all(torch.equal(now[i]["exp_avg"], moments[i]) for i in moments)
    assert learner.updates == 1
    learner.update(batch)  # and it goes on


def test_a_gradient_that_overflows_is_refused_too():
    learner = values(network(heads=("value",)))
    batch = learner.samples(record())
    batch["obs"] = np.full_like(batch["obs"], 1e30)
    with torch.no_grad():
        learner.network.heads.weight[:] = 1e-25
    before = weights_of(learner.network)
    with pytest.raises(LossNotFinite, match="The batch is finite: lower learning_rate"):
        learner.update(batch)
    assert same(weights_of(learner.network), before)


def test_heads_that_are_not_there_are_named():
    learner = alphazero(network(heads=("policy",)))
    with pytest.raises(InvalidOption, match="value_target, but the network has no such head"):
        learner.update(learner.samples(record()))


def test_targets_that_do_not_fit_are_named():
    with pytest.raises(UnknownName, match=r"value_target must be .*.*did you mean 'value'"):
        SupervisedConfig(value_target="vlaue")
    with pytest.raises(InvalidOption, match="all are None"):
        SupervisedLearning(network())
    with pytest.raises(InvalidOption, match="for Discrete actions"):
        alphazero(network(VECTOR, heads=("policy", "value")))
    with pytest.raises(InvalidOption, match="must be a TDConfig; got a QConfig"):
        TDLearning(network(), QConfig())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"optimizer": "adma"}, "did you mean 'adam'"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"discount": 1.5}, r"discount must be a finite number in \[0.0, 1.0\]; got 1.5"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(InvalidOption, match=message):
        PlanLearningConfig(**wrong)


# States -----------------------------------------------------------------------------

LEARNERS = {
    "alphazero": alphazero,
    "rmsprop": lambda made: alphazero(made, AlphaZeroConfig(optimizer="rmsprop")),
    "td": lambda made: TDLearning(made, TDConfig(target_rate=0.1)),
}


def saved_and_loaded(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_loaded_state_goes_on_bit_for_bit(name):
    one = LEARNERS[name](network())
    batch = one.samples(record())
    for _ in range(3):
        one.update(batch)
    other = LEARNERS[name](network(seed=9))
    state = one.state_dict()
    other.load_state_dict({**state, "trainer": saved_and_loaded(state["trainer"])})
    assert other.updates == 3
    for _ in range(3):
        assert one.update(batch) == other.update(batch)
    assert same(weights_of(one.network), weights_of(other.network))


def test_states_of_others_are_refused_and_nothing_changes():
    learner = alphazero(network())
    learner.update(learner.samples(record()))
    before = weights_of(learner.network)
    state = alphazero(network(hidden=(8,))).state_dict()
    with pytest.raises(ForeignNetwork, match=r"body.1.weight is \(8, 2\) float32, here \(16, 2\)"):
        learner.load_state_dict(state)
    state = TDLearning(network(seed=1)).state_dict()
    with pytest.raises(ForeignNetwork, match=r"'TDLearning'; here it is 'SupervisedLearning'"):
        learner.load_state_dict(state)
    state = alphazero(network(seed=1), AlphaZeroConfig(optimizer="sgd")).state_dict()
    with pytest.raises(ForeignNetwork, match=r"of the optimizer 'sgd'; here it is 'adam'"):
        learner.load_state_dict(state)
    state = learner.state_dict()
    del state["trainer"]["moments"]
    with pytest.raises(ForeignNetwork, match=r"must have 'moments'"):
        learner.load_state_dict(state)
    assert same(weights_of(learner.network), before)
    assert learner.updates == 1


@pytest.mark.parametrize(
    "episodes",
    [..., None, 3, {}, [1], [{}], [{"reward": 1.0}], [{"reward": np.zeros(2), "obs": np.zeros(3)}]],
    ids=repr,
)
def test_episodes_in_progress_that_are_none_are_refused_and_nothing_changes(episodes):
    learner, other = alphazero(network()), alphazero(network(seed=1))
    before, state = weights_of(learner.network), dict(other.state_dict())
    del state["episodes"]
    if episodes is not ...:
        state["episodes"] = episodes
    with pytest.raises(InvalidSamples, match="load_state_dict: episodes must be"):
        learner.load_state_dict(state)
    assert same(before, weights_of(learner.network))


# Temporal differences ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_steps", "terminated", "reward", "discount", "last"),
    [
        (1, True, [1, 2, 4], [0.5, 0.5, 0], [1, 2, 3]),
        (2, True, [2, 4, 4], [0.25, 0, 0], [2, 3, 3]),
        # Cut: the last observation is worth something.
        (2, False, [2, 4, 4], [0.25, 0.25, 0.5], [2, 3, 3]),
        (9, False, [3, 4, 4], [0.125, 0.25, 0.5], [3, 3, 3]),
    ],
)
def test_windows_end_with_the_episode(n_steps, terminated, reward, discount, last):
    learner = TDLearning(network(), TDConfig(n_steps=n_steps, discount=0.5))
    played = record(terminated=terminated, truncated=not terminated)
    batch = learner.samples(played)
    np.testing.assert_allclose(batch["reward"], reward)
    np.testing.assert_allclose(batch["discount"], discount)
    np.testing.assert_array_equal(batch["next_obs"], played.observations[last])


def test_temporal_differences_by_hand():
    made = network(heads=("value",))
    with torch.no_grad():
        made.heads.bias[:] = 8.0  # says 8 everywhere
    learner = TDLearning(made, TDConfig(discount=0.5))
    found = learner.update(learner.samples(record()))
    # Wanted 1 + 4, 2 + 4, 4: errors 3, 2, 4.
    assert found["value_loss"] == pytest.approx((9 + 4 + 16) / 3, rel=1e-6)


def test_values_converge_to_the_returns():
    learner = TDLearning(network(heads=("value",)), TDConfig(**{**QUICK, "target_rate": 0.2}))
    batch = learner.samples(record())
    fitted(learner, batch, 600)
    value = learner.network(torch.from_numpy(batch["obs"])).value.detach()
    np.testing.assert_allclose(value, [3, 4, 4], atol=0.05)


def test_the_target_follows_slowly():
    learner = TDLearning(network(), TDConfig(target_rate=0.25, learning_rate=0.1))
    start = weights_of(learner.target)
    learner.update(learner.samples(record()))
    for name, now in learner.network.state_dict().items():
        expected = start[name] + 0.25 * (now - start[name])
        torch.testing.assert_close(learner.target.state_dict()[name], expected)
    assert TDLearning(network()).target is not learner.target


# Numbers that change -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "kind", "name", "start", "end"),
    [
        (SupervisedLearning, AlphaZeroConfig, "learning_rate", 0.1, 0.01),
        (SupervisedLearning, AlphaZeroConfig, "l2", 0.0, 0.5),
        (SupervisedLearning, AlphaZeroConfig, "max_grad_norm", 1.0, 0.1),
        (SupervisedLearning, AlphaZeroConfig, "value_weight", 0.0, 2.0),
        (SupervisedLearning, AlphaZeroConfig, "policy_weight", 2.0, 0.0),
        (SupervisedLearning, QConfig, "q_weight", 2.0, 0.5),
        (TDLearning, TDConfig, "target_rate", 0.5, 1.0),
    ],
)
def test_a_number_with_a_schedule_is_set_anew_for_every_update(cls, kind, name, start, end):
    # Stochastic gradient descent: Adam would hide what only scales the gradient.
    first = kind(optimizer="sgd", **{name: start})
    config = dataclasses.replace(first, **{name: Schedule(start=start, end=end, over=2)})
    one, other = cls(network(), config), cls(network(), first)
    batch = one.samples(record())
    for value in (start, 0.5 * start + 0.5 * end, end, end):
        before = weights_of(one.network)
        # The same learner, whose constant is changed by hand.
        other.config = dataclasses.replace(first, **{name: value})
        assert one.update(batch) == other.update(batch)
        assert same(weights_of(one.network), weights_of(other.network))
        assert not same(weights_of(one.network), before)
        if cls is TDLearning:
            assert same(weights_of(one.target), weights_of(other.target))


def test_an_algorithm_with_schedules_goes_on_from_its_state():
    rate = Schedule(start=0.1, end=0.0, over=5)
    config = AlphaZeroConfig(learning_rate=rate, l2=Schedule(start=0.1, end=0.0, over=5))
    whole, broken = (alphazero(network(), config) for _ in range(2))
    batch = whole.samples(record())
    fitted(whole, batch, 4)
    fitted(broken, batch, 2)
    resumed = alphazero(network(seed=3), config)
    resumed.load_state_dict(broken.state_dict())
    fitted(resumed, batch, 2)
    assert same(weights_of(resumed.network), weights_of(whole.network))


def test_what_a_schedule_cannot_be_is_an_error():
    with pytest.raises(InvalidOption, match=r"TDConfig: target_rate\.end must be .* got 1\.5"):
        TDConfig(target_rate=Schedule(start=0.5, end=1.5, over=3))
    with pytest.raises(InvalidOption, match="adam_beta must be a finite number"):
        PlanLearningConfig(adam_beta=Schedule(start=0.5, end=0.9, over=3))


def doubled(batch, draws):
    """Put images in place of rows: all doubled, and how often they were drawn for."""
    assert draws.shape == (len(batch["obs"]),)
    assert ((draws >= 0) & (draws < 1)).all()
    DRAWN.append(draws)
    return {**batch, "value": 2 * batch["value"]}


DRAWN = []


def test_rows_are_augmented_before_they_are_learned():
    DRAWN.clear()
    config = SupervisedConfig(value_target="return", augment=f"{__name__}:doubled")
    plain = SupervisedConfig(value_target="return")
    found = {}
    for name, settings in (("augmented", config), ("plain", plain)):
        learner = SupervisedLearning(network(), settings)
        batch = learner.samples(record())
        if name == "plain":
            batch = {**batch, "value": 2 * batch["value"]}
        torch.manual_seed(0)
        learner.update(batch)
        found[name] = weights_of(learner.network)
    assert same(found["augmented"], found["plain"])
    assert len(DRAWN) == 1
    with pytest.raises(UnknownName, match=r"SupervisedConfig: augment: .*'tripled'"):
        SupervisedConfig(value_target="return", augment=f"{__name__}:tripled")
