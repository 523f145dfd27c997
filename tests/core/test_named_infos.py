"""Named infos: masks, players, cells and attributes, of whatever types and whenever told."""

from __future__ import annotations

import csv

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext import make_vec
from plangym_ext.core.infos import InfoBatch, info_values
from plangym_ext.core.masks import checked_mask, choices_of, flat_mask
from plangym_ext.errors import InvalidObservation, InvalidOption, WrongKind
from plangym_ext.explore.cells import InfoCells
from plangym_ext.learn import RandomAgent, SerialSampler
from plangym_ext.planners import MCTS, DiscreteShooting, play
from plangym_ext.planners.players import player_swaps
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner


class Gate(gym.Env):
    """Actions 0 and 1 are legal; 2 pays most. `tell` says how, of reset (t = 0) and steps."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(0, 10, (1,), np.float32)

    def __init__(self, tell):
        self.tell = tell

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), self.tell(0)

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), float(action), False, self.t >= 5, self.tell(self.t)


MASK = np.array([1, 1, 0], np.int8)
TOLD = {
    "array": lambda t: {"action_mask": MASK},
    "list": lambda t: {"action_mask": [True, True, False]},
    "tuple": lambda t: {"action_mask": (1, 1, 0)},
    "bools": lambda t: {"action_mask": [np.bool_(True), np.bool_(True), np.bool_(False)]},
    "mixed": lambda t: {"action_mask": MASK if t % 2 else MASK.astype(float)},
    "both": lambda t: {"action_mask": MASK if t % 2 else MASK.tolist()},
}


@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.parametrize("how", TOLD)
def test_masks_are_obeyed_however_they_are_told(how, n_workers):
    with plangym_ext.make(lambda: Gate(TOLD[how]), n_workers=n_workers) as env:
        assert env.tells_masks
        for player in (MCTS(16), DiscreteShooting(16), RandomAgent(env.action_space)):
            alone = play(env, player, seed=0, max_steps=5)
            both = play(env, player, seed=0, max_steps=5, num_episodes=2)
            for episode in (alone, *both):
                assert episode.actions.max() <= 1, type(player).__name__


@pytest.mark.parametrize("how", TOLD)
def test_samplers_obey_the_same_masks(how):
    venv = make_vec(lambda: Gate(TOLD[how]), 2, autoreset_mode="same_step")
    with SerialSampler(venv, RandomAgent(venv.single_action_space), 20) as sampler:
        assert np.array(sampler.collect().data["action"][0:20]).max() <= 1


def test_masks_that_only_the_reset_tells_hold_there():
    with plangym_ext.make(
        lambda: Gate(lambda t: {} if t else {"action_mask": [0, 1, 0]}), n_workers=0
    ) as env:
        assert env.tells_masks
        episodes = play(env, MCTS(16), seed=0, max_steps=5, num_episodes=2)
        assert [episode.actions.tolist() for episode in episodes] == [[1, 2, 2, 2, 2]] * 2


def test_masks_that_come_late_are_obeyed_or_refused():
    with plangym_ext.make(
        lambda: Gate(lambda t: {"action_mask": MASK} if t > 1 else {}), n_workers=0
    ) as env:
        drawn = play(env, RandomAgent(env.action_space), seed=0, max_steps=5, num_episodes=8)
        assert max(episode.actions[2:].max() for episode in drawn) <= 1
        rated = MCTS(16, rollout_depth=0)
        (one,) = play(env, rated, seed=0, max_steps=5, num_episodes=1)
        assert one.actions[2:].max() <= 1
        # Rollouts step many times at once: that they have to heed masks must be known.
        with pytest.raises(InvalidObservation, match="must return it in its first step"):
            play(env, DiscreteShooting(16), seed=0, max_steps=5)


class ByMethod(Gate):
    """Tells by `action_masks`, as envs for sb3-contrib do: action 1 in even steps alone."""

    def __init__(self):
        super().__init__(lambda t: {})

    def action_masks(self):
        return np.array([True, self.t % 2 == 0, False])

    def step(self, action):
        assert self.action_masks()[action]
        return super().step(action)


@pytest.mark.parametrize("n_workers", [0, 1])
def test_masks_that_a_method_tells_are_obeyed(n_workers):
    def make_env():
        return gym.wrappers.TimeLimit(ByMethod(), 9)

    with plangym_ext.make(make_env, n_workers=n_workers) as env:
        assert env.exact
        assert env.tells_masks
        for player in (MCTS(16), DiscreteShooting(16), RandomAgent(env.action_space)):
            play(env, player, seed=0, max_steps=5)
            play(env, player, seed=0, max_steps=5, num_episodes=2)
        assert play(env, MCTS(32), seed=0, max_steps=5).return_ == 3.0
    venv = make_vec(make_env, 2, n_workers=n_workers, autoreset_mode="same_step")
    with SerialSampler(venv, RandomAgent(venv.single_action_space), 20) as sampler:
        assert sampler.collect().data["action_mask"][0:20].to_ndarray()[:, :, 2].sum() == 0
        assert [mask.tolist() for mask in venv.call("action_masks")]


PARTS = np.array([1, 1, 0], np.int8), np.array([1, 0], np.int8)


class Switches(Gate):
    """Of the first part 2 is illegal, of the second 1."""

    action_space = spaces.MultiDiscrete([3, 2])

    def step(self, action):
        assert action[0] < 2
        assert action[1] == 0
        return super().step(action[0])


@pytest.mark.slow
@pytest.mark.parametrize("mask", [PARTS, np.concatenate(PARTS), np.concatenate(PARTS).tolist()])
def test_masks_of_multidiscrete_actions_are_obeyed(tmp_path, mask):
    settings = {
        "rounds": 2,
        "collector": {"num_envs": 2, "moves": 16},
        "evaluation": {"every": 2, "episodes": 2},
        "env": {"max_steps": 20},
    }

    def make_env():
        return Switches(lambda t: {"action_mask": mask})

    # An illegal action ends the run.
    with Runner(compose(["ppo_cartpole", settings]), tmp_path, make_env=make_env) as runner:
        runner.run()
    with plangym_ext.make(make_env, n_workers=0) as env:
        play(env, RandomAgent(env.action_space), seed=0, max_steps=5, num_episodes=4)


@pytest.mark.parametrize(
    "space", [spaces.MultiBinary(3), spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2)))]
)
def test_masks_of_other_actions_are_refused_by_name(space):
    class Other(Gate):
        action_space = space

        def step(self, action):
            return super().step(0)

    whole = np.ones(choices_of(space), np.int8)  # planners heed it
    tell = lambda t: {"action_mask": whole}  # noqa: E731
    agent = RandomAgent(space)
    with plangym_ext.make(lambda: Other(tell), n_workers=0) as env:
        for options in ({}, {"num_episodes": 2}):
            with pytest.raises(InvalidObservation, match="Discrete or MultiDiscrete actions"):
                play(env, agent, seed=0, max_steps=5, **options)
    venv = make_vec(lambda: Other(tell), 2, autoreset_mode="same_step")
    with (
        SerialSampler(venv, agent, 4) as sampler,
        pytest.raises(InvalidObservation, match="action_mask=False"),
    ):
        sampler.collect()
    venv = make_vec(lambda: Other(tell), 2, autoreset_mode="same_step")
    with SerialSampler(venv, agent, 4, action_mask=False) as sampler:
        sampler.collect()


def test_masks_of_a_wrong_width_are_refused():
    with pytest.raises(InvalidObservation, match=r"each of the 3 actions; got shape \(2,\)"):
        checked_mask([1, 0], spaces.Discrete(3), "play")
    with pytest.raises(InvalidObservation, match="got 'all'"):
        checked_mask("all", spaces.Discrete(3), "play")
    assert checked_mask(None, spaces.Discrete(3), "play") is None
    assert flat_mask({"a": [1, 0], "b": (1,)}).tolist() == [1, 0, 1]


def test_values_of_several_types_come_as_one_that_holds_all():
    counts = {"n_step": np.ones(3), "dt": np.ones(3)}
    batch = InfoBatch({**counts, "score": np.array([1, 0, 0])}, {1: {"score": 12.5}, 2: {}})
    values, known = info_values(batch, "score", 3)
    assert (values.tolist(), known.tolist()) == ([1.0, 12.5, 0.0], [True, True, False])
    late = InfoBatch(counts, {2: {"score": np.bool_(True)}})
    values, known = info_values(late, "score", 3)
    assert (values.tolist(), known.tolist()) == ([False, False, True], [False, False, True])
    values, known = info_values(InfoBatch(counts, {}), "score", 3)
    assert not known.any()


def test_players_of_mixed_types_are_told_apart():
    counts = {"n_step": np.ones(3), "dt": np.ones(3)}
    columns = {**counts, "player": np.array([0, 0, 1]), "to_play": np.array([1, 0, 0])}
    own = {1: {"player": np.int64(1), "to_play": np.float32(0)}}
    batch = InfoBatch(columns, own)
    assert player_swaps(batch, np.zeros(3, bool)).tolist() == [True, True, True]
    over = np.array([False, True, False])
    ended = InfoBatch(columns, {1: {"player": 1}})
    assert player_swaps(ended, over).tolist() == [True, False, True]
    with pytest.raises(WrongKind, match="must say in 'player'"):
        player_swaps(ended, ~over)
    wrong = InfoBatch({**columns, "player": np.array([0, 2, 1])}, {})
    with pytest.raises(WrongKind, match=r"got 'player' \[0, 2, 1\]"):
        player_swaps(wrong, np.zeros(3, bool))


def test_cells_are_of_the_numbers_that_rows_told():
    counts = {"n_step": np.ones(3), "dt": np.ones(3)}
    batch = InfoBatch({**counts, "score": np.array([0, 0, 1])}, {1: {"score": 0.5}})
    cells = InfoCells.of(score=0.5)
    assert cells(np.zeros((3, 1)), batch).tolist() == [[0], [1], [2]]
    with pytest.raises(InvalidOption, match="'score' in 1 of 3 rows"):
        cells(np.zeros((3, 1)), InfoBatch({**counts, "score": np.array([0, 0, 1])}, {1: {}}))


class Scored(gym.Env):
    """Tells a score: `told(t, end)`."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 10, (1,), np.float32)

    def __init__(self, told):
        self.told = told

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        end = self.t >= 5
        return np.full(1, self.t, np.float32), 1.0, end, False, self.told(end)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["ppo_cartpole", "cartpole"])
@pytest.mark.parametrize(
    ("told", "want"),
    [
        (lambda end: {"score": 12.5 if end else 0}, 12.5),
        (lambda end: {"score": 12.5} if end else {}, 12.5),
        (lambda end: {"score": np.bool_(True)} if end else {}, 1.0),
        (lambda end: {"score": np.float32(2.5) if end else None}, 2.5),
    ],
    ids=["mixed", "late", "bool", "none"],
)
def test_attributes_of_episodes_are_logged_whatever_their_type(tmp_path, preset, told, want):
    settings = {
        "rounds": 1,
        "collector": {"num_envs": 2, "moves": 8, "attributes": ["score"]},
        "evaluation": {"every": 0},
    }
    planned = {"planner": {"num_simulations": 4}, "algorithm": {"learning_starts": 4}}
    sources = [preset, settings, planned if preset == "cartpole" else {}]
    with Runner(compose(sources), tmp_path, make_env=lambda: Scored(told)) as runner:
        runner.run()
    with open(tmp_path / "progress.csv") as file:
        assert [float(row["score"]) for row in csv.DictReader(file)] == [want]


def test_infos_of_a_vector_env_hold_every_number():
    def fixed(value):
        return lambda: Scored(lambda end: {"score": value})

    makers = [fixed(value) for value in (0, 12.5, True, np.float32(0.1))]
    with make_vec(makers, autoreset_mode="same_step", capture="off") as venv:
        venv.reset(seed=0)
        infos = venv.step(np.zeros(4, int))[4]
    assert infos["score"].tolist() == [0, 12.5, 1, pytest.approx(0.1)]
    with make_vec([fixed(3), fixed(None)], autoreset_mode="same_step", capture="off") as venv:
        venv.reset(seed=0)
        assert venv.step(np.zeros(2, int))[4]["score"].tolist() == [3, None]
