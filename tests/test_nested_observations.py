"""Observations that are no single array, through everything that touches observations."""

from __future__ import annotations

import copy
import itertools
import json
import os
from types import SimpleNamespace

import gymnasium as gym
import nested_kinds
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from nested_kinds import KINDS, make
from same_results import assert_same

import plangym_ext
from plangym_ext import GymEnv
from plangym_ext.arrays.nested import content, leaves, num_rows, rows_of
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidObservation, InvalidOption
from plangym_ext.learn.records import EpisodeRecorder
from plangym_ext.planners import MCTS, PLANNERS, load_planner, options_of, play
from plangym_ext.planners.continuous.base import Shooting
from plangym_ext.planners.simulator import stacked_obs
from plangym_ext.run.cli import main
from plangym_ext.workers.parallel_env import ParallelEnv

every_kind = pytest.mark.parametrize("kind", KINDS)


def covering(names, *axes):
    """Return all combinations in `tox -e long`, else so many that each value occurs."""
    rows = list(itertools.product(*axes))
    if not os.environ.get("PYTEST_LONG"):
        longest = max(map(len, axes))
        rows = [tuple(axis[i % len(axis)] for axis in axes) for i in range(longest)]
    return pytest.mark.parametrize(names, rows)


@pytest.fixture(scope="module", autouse=True)
def workers_are_sent_the_envs():
    import cloudpickle

    cloudpickle.register_pickle_by_value(nested_kinds)
    yield
    cloudpickle.unregister_pickle_by_value(nested_kinds)


def walked(kind, count, seed=0, continuous=False):
    """Return what an env that is played from a reset shows, `count` steps long."""
    env = make(kind, continuous)()
    env.reset(seed=seed)
    return [copy.deepcopy(env.step(1)[0]) for _ in range(count)]


# Batches --------------------------------------------------------------------------------


@every_kind
def test_rows_show_what_a_plain_env_shows(kind):
    with GymEnv(make(kind)) as env:
        state, *_ = env.reset(seed=0)
        for expected in walked(kind, 12):
            out = env.step_batch([1], state[None])
            state = out.states[0]
            assert num_rows(out.obs) == 1
            # Texts and counts become elements of arrays, which are equal and no more.
            assert_same(rows_of(out.obs, 0), expected, types=False)


@every_kind
def test_workers_show_what_one_process_shows(kind):
    with GymEnv(make(kind)) as local, ParallelEnv(make(kind), n_workers=2) as remote:
        state, *_ = local.reset(seed=3)
        states = np.repeat(state[None], 6, axis=0)
        actions = np.array([0, 1, 1, 0, 1, 0])
        for infos in ("numeric", "all"):
            expected = local.step_batch(actions, states, infos=infos)
            got = remote.step_batch(actions, states, infos=infos)
            assert got.states.tobytes() == expected.states.tobytes()
            assert content(got.obs) == content(expected.obs)
            states = expected.states
        played = np.ones((6, 20), np.int64)
        assert content(remote.rollout_batch(played, states).obs) == content(
            local.rollout_batch(played, states).obs
        )


@every_kind
def test_observations_go_where_the_caller_wants_them_and_stay_his(kind):
    with GymEnv(make(kind)) as local, ParallelEnv(make(kind), n_workers=2) as remote:
        state, *_ = local.reset(seed=0)
        states = np.repeat(state[None], 4, axis=0)
        expected = local.step_batch([0, 1, 0, 1], states)
        for env in (local, remote):
            first = env.step_batch([0, 1, 0, 1], states)
            before = content(first.obs)
            mine = SpaceLayout(env.observation_space, objects=True).stack(
                [rows_of(first.obs, 0)] * 4
            )
            out = env.step_batch([0, 1, 0, 1], states, out={"obs": mine})
            assert out.obs is mine
            assert content(mine) == content(expected.obs)
            env.step_batch([1, 1, 1, 1], first.states)
            assert content(first.obs) == before


@pytest.mark.parametrize("kind", ["graph", "sequence", "stack"])
def test_an_observation_outside_of_its_space_is_refused(kind):
    class Wrong(nested_kinds.Shown):
        def _seen(self):
            seen = super()._seen()
            if self.place < 6:
                return seen
            return {**seen, "seen": "nothing"} if kind == "stack" else "nothing"

    with GymEnv(lambda: Wrong(kind), check=False) as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(InvalidObservation, match="expected an element of"):
            env.rollout_batch(np.ones((1, 6), np.int64), state[None])


@every_kind
def test_restored_futures_are_exact(kind):
    with GymEnv(make(kind)) as env:
        report = plangym_ext.check_env(env)
        assert report.exact, str(report)
    with GymEnv(lambda: Forgetful(kind), check=False, capture="own") as env:
        report = plangym_ext.check_env(env)
        assert not report.exact
        assert "observation" in report.round_trip.difference


class Forgetful(nested_kinds.Shown):
    """Its state lacks what it shows."""

    def get_state(self):
        return np.array([self.place, 0]).tobytes()

    def set_state(self, state):
        self.place = int(np.frombuffer(state, np.int64)[0])


# Planners -------------------------------------------------------------------------------


@covering(("name", "kind"), tuple(PLANNERS), KINDS)
def test_every_planner_plays_to_the_end(name, kind):
    planner = load_planner(name)
    continuous = issubclass(planner, Shooting)
    options = {"num_simulations": 6}
    if any(option.name == "state_key" for option in options_of(planner)):
        options["state_key"] = "obs"
    with GymEnv(make(kind, continuous)) as env:
        alone = play(env, planner(**options), seed=0, max_steps=12)
        assert alone.truncated or alone.terminated or alone.length == 12
        first, second = play(env, planner(**options), seed=0, max_steps=12, num_episodes=2)
    # Side by side they see rows of a batch, alone what the env itself returns.
    assert first.actions.tobytes() == alone.actions.tobytes()
    assert second.length


@pytest.mark.parametrize("name", PLANNERS)
def test_functions_of_observations_see_batches_nested_as_the_space(name):
    planner = load_planner(name)
    if issubclass(planner, Shooting):
        return
    seen = []

    def value(obs):
        seen.append(obs)
        return np.asarray(obs["outer"][0]["place"]) / 64

    functions = {
        "evaluator": lambda obs: (None, value(obs)),
        "rollout_policy": lambda obs: np.full((len(value(obs)), 2), 0.5),
        "features": lambda obs: np.asarray(obs["outer"][0]["place"])[:, None],
    }
    known = {option.name for option in options_of(planner)}
    chosen = {key: function for key, function in functions.items() if key in known}
    if "rollout_depth" in known:
        chosen["rollout_depth"] = 3
    with GymEnv(make("nested")) as env:
        play(env, planner(num_simulations=8, **chosen), seed=0, max_steps=4)
        for obs in seen:
            count = num_rows(obs)
            assert all(len(leaf) == count for leaf in leaves(obs))
            assert rows_of(obs, 0) in env.observation_space or count == 0
    assert bool(seen) == bool(chosen.keys() & {"evaluator", "rollout_policy"})


@every_kind
def test_novelty_tells_observations_apart_by_every_part(kind):
    from plangym_ext.planners.novelty.features import FEATURES, default_features

    shown = walked(kind, 4)
    layout = SpaceLayout(nested_kinds.SPACES[kind], objects=True)
    for features in (default_features, FEATURES["whole"], FEATURES["numbers"], FEATURES["bytes"]):
        found = features(layout.stack(shown))
        assert found.dtype == np.int64
        assert len({row.tobytes() for row in found}) == len(shown)


def test_sequences_of_different_lengths_are_stacked_as_objects():
    space = gym.spaces.Sequence(nested_kinds.UNIT, stack=True)
    shown = [np.zeros((n, 2), np.float32) for n in (1, 3, 1)]
    batch = stacked_obs(SimpleNamespace(observation_space=space), shown)
    assert (batch.dtype, batch.shape) == (object, (3,))
    assert [row.shape for row in batch] == [(1, 2), (3, 2), (1, 2)]


def test_one_state_is_planned_for_as_a_row_of_a_batch():
    with GymEnv(make("nested")) as env:
        state, obs, _ = env.reset(seed=0)
        planner = MCTS(16, evaluator=lambda obs: (None, obs["outer"][0]["place"] / 64))
        one = planner.plan(env, state, rng=0, obs=obs)
        rows = SpaceLayout(env.observation_space).stack([obs])
        planner.reset()
        (row,) = planner.plan_batch(env, state[None], rngs=[np.random.default_rng(0)], obs=rows)
        assert one.visits.tolist() == row.visits.tolist()


# Networks -------------------------------------------------------------------------------


@covering(("kind", "name"), KINDS, ("mcts", "shooting", "bandit"))
def test_what_a_network_cannot_take_is_refused_before_the_search(kind, name):
    pytest.importorskip("torch")
    from plangym_ext.learn import NetworkEvaluator, make_network

    network = make_network(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2), seed=0)
    with GymEnv(make(kind)) as env:
        if kind not in ("dict", "tuple", "nested"):
            with pytest.raises(InvalidOption, match="make_network: observations"):
                make_network(env.observation_space, env.action_space, seed=0)
        planner = load_planner(name)(8, evaluator=NetworkEvaluator(network))
        with pytest.raises(InvalidOption, match=r"NetworkEvaluator: (the network|observation)"):
            play(env, planner, seed=0, max_steps=1)
    assert planner.evaluator.calls == 0


@pytest.mark.parametrize("kind", ["dict", "tuple", "nested"])
def test_a_network_takes_observations_of_several_parts(kind):
    torch = pytest.importorskip("torch")
    from plangym_ext.learn import NetworkEvaluator, make_network

    with GymEnv(make(kind)) as env:
        network = make_network(env.observation_space, env.action_space, seed=0)
        with torch.no_grad():
            network.heads.weight.normal_()
        asked = NetworkEvaluator(network)
        one = play(env, MCTS(8, evaluator=asked), seed=1, max_steps=3)
        _, other = play(env, MCTS(8, evaluator=asked), seed=0, max_steps=3, num_episodes=2)
    assert (one.actions == other.actions).all()
    assert asked.rows > 0
    # Each part counts: the value hangs on all weights of the first layer.
    first = network.body[1]
    assert first.in_features == network.encoder.width


def test_a_network_of_ones_own_takes_dicts_of_tensors():
    torch = pytest.importorskip("torch")
    from plangym_ext.learn import NetworkEvaluator, NetworkOutput

    class Own(torch.nn.Module):
        def forward(self, obs):
            ((inner, push), bits) = obs["outer"], obs["bits"]
            value = inner["place"].float() / 64 + push.sum(1) + bits.float().sum(1)
            return NetworkOutput(None, value, None)

    with GymEnv(make("nested")) as env:
        asked = NetworkEvaluator(Own(), outputs="value")
        episode = play(env, MCTS(16, evaluator=asked), seed=0, max_steps=4)
        same = MCTS(
            16,
            evaluator=lambda obs: (
                None,
                np.asarray(
                    obs["outer"][0]["place"].astype(np.float32) / 64
                    + obs["outer"][1].sum(1)
                    + obs["bits"].sum(1)
                ),
            ),
        )
        expected = play(env, same, seed=0, max_steps=4)
    assert episode.actions.tolist() == expected.actions.tolist()
    assert asked.rows == episode.budget.evaluator_rows


# Vector env -----------------------------------------------------------------------------


@covering(("kind", "mode", "n_workers"), KINDS, tuple(AutoresetMode), (None, 2))
def test_vector_env_equals_gymnasiums(kind, mode, n_workers):
    expected = SyncVectorEnv([make(kind)] * 3, autoreset_mode=mode)
    backend = {} if n_workers is None else {"n_workers": n_workers}
    got = plangym_ext.make_vec(make(kind), 3, autoreset_mode=mode, **backend)
    with got:
        for mine, theirs in zip(played(got), played(expected), strict=True):
            assert_same(mine, theirs)


def played(venv):
    """Return what 40 steps return, in which every sub-env ends at least once."""
    yield venv.reset(seed=1)
    mode, rng = venv.metadata["autoreset_mode"], np.random.default_rng(0)
    for _ in range(40):
        result = venv.step(rng.integers(2, size=3))
        yield result
        ended = result[2] | result[3]
        if mode == AutoresetMode.DISABLED and ended.any():
            yield venv.reset(options={"reset_mask": ended})


@every_kind
def test_vector_env_is_saved_restored_and_branched(kind):
    with plangym_ext.make_vec(make(kind), 3) as venv:
        venv.reset(seed=0)
        states = venv.get_states()
        actions = np.array([0, 1, 1])
        first = content(venv.step(actions)[0])
        venv.set_states(states)
        assert content(venv.step(actions)[0]) == first
        venv.fork(0, [1, 2])
        obs, *_ = venv.step(np.array([1, 1, 1]))
        rows = [layout_row(venv, obs, k) for k in range(3)]
        assert rows[0] == rows[1] == rows[2]


def layout_row(venv, obs, k):
    values = next(itertools.islice(gym.vector.utils.iterate(venv.observation_space, obs), k, None))
    return content(values)


# Programs -------------------------------------------------------------------------------


@pytest.fixture
def registered(request):
    """Return a registered env of a kind, by its id."""
    kind = request.param
    name = f"NestedKind-{kind}-v0"
    gym.register(name, entry_point=nested_kinds.Shown, kwargs={"kind": kind}, max_episode_steps=20)
    yield name
    del gym.registry[name]


@every_kind
def test_recorder_keeps_what_was_seen(kind):
    moves = []
    with GymEnv(make(kind)) as env:
        *_, first, _ = env.reset(seed=0)
        recorder = EpisodeRecorder(0, first, space=env.observation_space)
        with pytest.raises(InvalidOption, match=r"Pass space=env\.observation_space"):
            EpisodeRecorder(0, first)
        play(env, MCTS(4), seed=0, max_steps=3, callback=moves.append)
        for move in moves:
            recorder.add(move.plan, move.obs, move.reward, terminated=False, truncated=False)
        seen = recorder.record().observations
        assert num_rows(seen) == 4
        for t, obs in enumerate([first, *(move.obs for move in moves)]):
            assert_same(rows_of(seen, t), obs, types=False)


@pytest.mark.slow
@pytest.mark.parametrize("registered", ["nested", "graph"], indirect=True)
def test_doctor_proves_envs_of_every_kind(registered, capsys):
    assert main(["doctor", registered, "--steps", "30"]) == 0
    assert "round trip   exact" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("registered", ["nested", "graph"], indirect=True)
def test_plan_writes_episode_video_and_tree_page(registered, tmp_path):
    arguments = [registered, "--num-simulations", "8", "--max-steps", "3", "--n-workers", "0"]
    page = tmp_path / "tree.html"
    outputs = ["--video", "--tree", str(page), "--out", str(tmp_path)]
    assert main(["plan", *arguments, *outputs]) == 0
    episode = json.loads((tmp_path / "episode.json").read_text())
    assert episode["length"] == 3
    assert (tmp_path / "episode.mp4").stat().st_size > 0
    assert page.stat().st_size > 0
