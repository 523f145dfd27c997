from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from gpus import NO_GPU
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import plangym_ext
from plangym_ext.errors import ForeignNetwork, InvalidAnswer, InvalidOption
from plangym_ext.learn import NetworkConfig, NetworkEvaluator, NetworkOutput, make_network
from plangym_ext.planners import MCTS, STS, play
from plangym_ext.planners.evaluators import from_q

VECTOR = Box(-np.inf, np.inf, (4,), np.float32)
TWO = Discrete(2)


def lively(network):
    """Give the heads weights, so that answers differ."""
    torch.manual_seed(0)
    torch.nn.init.normal_(network.heads.weight)
    return network


def evaluator(**options):
    return NetworkEvaluator(lively(make_network(VECTOR, TWO, seed=0)), **options)


def obs(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


class Spy(torch.nn.Module):
    """A network of one's own that remembers what it saw and said."""

    def __init__(self, first=None, value=None):
        super().__init__()
        self.first, self.value = first, value

    def forward(self, seen):
        self.seen = seen
        self.said = NetworkOutput(self.first, self.value, None)
        return self.said


def test_observations_are_read_and_values_are_answered_where_they_are():
    network = Spy(value=torch.arange(3.0))
    rows = obs(3)
    prior, value = NetworkEvaluator(network)(rows)
    assert prior is None
    assert network.seen.data_ptr() == rows.ctypes.data
    assert value.ctypes.data == network.value.data_ptr()
    np.testing.assert_array_equal(value, [0, 1, 2])


def test_later_calls_leave_earlier_answers_alone():
    asked = evaluator()
    prior, value = asked(obs(5))
    kept = prior.copy(), value.copy()
    asked(obs(5, seed=1))
    np.testing.assert_array_equal(prior, kept[0])
    np.testing.assert_array_equal(value, kept[1])


def test_memory_that_torch_cannot_use_is_copied():
    asked = evaluator()
    rows = obs(4)
    expected = asked(rows)
    locked = rows.copy()
    locked.setflags(write=False)
    for other in (locked, np.broadcast_to(rows, rows.shape), rows[::-1].copy()[::-1]):
        np.testing.assert_array_equal(asked(other)[0], expected[0])


def test_priors_are_probabilities_of_the_policy_head():
    asked = evaluator()
    prior, value = asked(obs(6))
    heads = asked.ask(obs(6))
    weights = np.exp(heads.policy_logits)
    np.testing.assert_allclose(prior, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(value, heads.value)
    assert prior.dtype == value.dtype == np.float32


@pytest.mark.parametrize(
    ("heads", "outputs", "has_prior", "has_value"),
    [
        (("policy", "value"), "auto", True, True),
        (("policy", "value"), "value", False, True),
        (("policy", "value"), "policy", True, False),
        (("value",), "auto", False, True),
        (("policy",), "auto", True, False),
        (("q",), "auto", True, True),
        (("policy", "value", "q"), "q", True, True),
    ],
)
def test_what_is_answered_from_which_heads(heads, outputs, has_prior, has_value):
    network = lively(make_network(VECTOR, TWO, NetworkConfig(heads=heads), seed=0))
    asked = NetworkEvaluator(network, outputs=outputs)
    prior, value = asked(obs(3))
    assert (prior is not None) == has_prior
    assert bool(value.any()) == has_value
    assert value.shape == (3,)


def test_q_values_give_the_best_value_and_a_softmax():
    network = lively(make_network(VECTOR, TWO, NetworkConfig(heads=("q",)), seed=0))
    asked = NetworkEvaluator(network, temperature=2.0)
    prior, value = asked(obs(4))
    q = asked.ask(obs(4)).q
    np.testing.assert_array_equal(value, q.max(axis=1))
    weights = np.exp(q / 2)
    np.testing.assert_allclose(prior, weights / weights.sum(axis=1, keepdims=True), rtol=1e-5)
    # The best of what can be played; of what nothing can be, all counts.
    legal = np.array([[True, True], [False, True], [True, False], [False, False]])
    prior, value = asked(obs(4), legal)
    assert value.tolist() == [q[0].max(), q[1, 1], q[2, 0], q[3].max()]
    assert (prior[1:3][~legal[1:3]] == 0).all()


@pytest.mark.parametrize("made", ["function", "network"])
def test_no_value_is_that_of_an_action_that_cannot_be_played(made):
    with plangym_ext.make("Taxi-v4") as env:
        state, seen, info = env.reset(seed=0)
        if made == "function":
            masks = np.array([env.gym_env.unwrapped.action_mask(number) for number in range(500)])
            q = np.where(masks == 1, -1.0, 1000.0)
            evaluator = from_q(lambda obs: q[np.asarray(obs)])
        else:
            spaces = env.observation_space, env.action_space
            network = make_network(*spaces, NetworkConfig(hidden=(8,), heads=("q",)), seed=0)
            evaluator = NetworkEvaluator(network)
        legal = np.asarray(info["action_mask"], bool)
        plan = MCTS(64, evaluator=evaluator).plan(env, state, rng=0, obs=seen, legal=legal)
        assert plan.value < 0 if made == "function" else np.isfinite(plan.value)
        few = from_q(lambda obs: np.zeros((len(obs), 2)))
        with pytest.raises(InvalidAnswer, match=r"\(1, 2\)"):
            MCTS(4, evaluator=few).plan(env, state, rng=0, obs=seen, legal=legal)


@pytest.mark.parametrize("space", [Box(-1.0, 1.0, (2,), np.float32), MultiDiscrete([2, 3])])
def test_policies_over_other_actions_are_no_prior(space):
    prior, value = NetworkEvaluator(make_network(VECTOR, space, seed=0))(obs(3))
    assert prior is None
    assert value.shape == (3,)


def test_a_head_that_is_not_there_is_named():
    network = make_network(VECTOR, TWO, NetworkConfig(heads=("policy",)), seed=0)
    with pytest.raises(InvalidOption, match=r"'value' need heads .* it has policy"):
        NetworkEvaluator(network, outputs="value")(obs(1))
    with pytest.raises(InvalidOption, match=r"did you mean 'policy'"):
        NetworkEvaluator(network, outputs="polciy")
    with pytest.raises(InvalidOption, match=r"temperature must be above 0; got 0"):
        NetworkEvaluator(network, temperature=0)


def test_weights_are_loaded_with_their_version_or_not_at_all():
    asked, other = evaluator(), make_network(VECTOR, TWO, seed=7)
    asked.load(other.state_dict(), 3)
    assert asked.version == 3
    assert torch.equal(asked.network.heads.weight, other.heads.weight)
    wrong = make_network(VECTOR, Discrete(5), seed=0)
    with pytest.raises(ForeignNetwork, match=r"NetworkEvaluator.load: .*heads.weight is \(6, 64\)"):
        asked.load(wrong.state_dict(), 4)
    assert asked.version == 3


def test_what_a_trainer_changes_is_asked_at_once():
    asked = evaluator()
    with torch.no_grad():
        asked.network.heads.bias[2] += 10
    assert (asked(obs(2))[1] > 5).all()


@pytest.mark.parametrize("planner", [MCTS, STS])
def test_all_trees_share_a_call_per_wave(planner):
    asked = evaluator()
    with plangym_ext.make("CartPole-v1") as env:
        states, seen = zip(*[env.reset(seed=i)[:2] for i in range(32)], strict=True)
        rngs = [np.random.default_rng(i) for i in range(32)]
        search = planner(64, wave_size=1, evaluator=asked)
        plans = search.plan_batch(env, np.stack(states), rngs=rngs, obs=np.stack(seen))
    assert asked.rows == sum(plan.budget.evaluator_rows for plan in plans)
    assert asked.rows / asked.calls >= 24


def test_a_search_follows_the_network():
    network = make_network(VECTOR, TWO, seed=0)
    with torch.no_grad():
        network.heads.bias[:2] = torch.tensor([-5.0, 5.0])
    with plangym_ext.make("CartPole-v1") as env:
        state, seen, _ = env.reset(seed=0)
        plan = MCTS(8, wave_size=1, evaluator=NetworkEvaluator(network)).plan(
            env, state, rng=0, obs=seen
        )
    assert plan.action == 1
    assert plan.visits[1] == 8


def test_the_same_calls_give_the_same_episode():
    with plangym_ext.make("CartPole-v1") as env:
        episodes = [
            play(env, MCTS(8, evaluator=evaluator()), seed=1, max_steps=15) for _ in range(2)
        ]
    np.testing.assert_array_equal(episodes[0].actions, episodes[1].actions)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
# torch uses its own deprecated functions.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
# torch on Python 3.13.0 advises to take 3.13.1.
@pytest.mark.filterwarnings("ignore:Guards may run slower:RuntimeWarning")
def test_a_compiled_network_answers_alike(monkeypatch):
    from torch._inductor import config

    # Without processes that outlive the test; the environment is read when torch's compiler is
    # first imported, which an earlier test may have done.
    monkeypatch.setattr(config, "compile_threads", 1)
    # To compile headers first saves time from the second program on, and there is one.
    monkeypatch.setattr(config, "cpp_cache_precompile_headers", False)
    plain, fast = evaluator(), evaluator(compile=True)
    for count in (3, 8):
        for one, other in zip(plain(obs(count)), fast(obs(count)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@NO_GPU
def test_a_network_on_a_gpu_answers_alike():
    plain, fast = evaluator(), evaluator(device="cuda")
    for one, other in zip(plain(obs(8)), fast(obs(8)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_device_that_is_not_there_is_one_line():
    there = "cpu, cuda" if torch.cuda.is_available() else "cpu"
    for device in ("cuda:99", "gpu"):
        with pytest.raises(InvalidOption, match=rf"such as {there}; got '{device}' \(") as caught:
            evaluator(device=device)
        assert "\n" not in str(caught.value)
