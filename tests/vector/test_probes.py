"""Vector envs play every env as it is: probing how its state is captured leaves no trace."""

from __future__ import annotations

import functools
import itertools
import os
import random
import re
import signal
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import plangym_ext
from plangym_ext.errors import BackendUnavailable, IncompleteState, WorkerDied
from plangym_ext.vector.results import VectorClosed

#: What was done to envs here. It only grows, as logs do: what is counted is no state.
DONE: list[str] = []


def count(what):
    return DONE.count(what)


class Counted(gym.Env):
    """Walks on a line; counts what is done to its class and to itself."""

    observation_space = spaces.Box(-1e6, 1e6, (1,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self):
        DONE.append("made")
        self.resets = self.steps = 0
        self.is_closed = False

    def _obs(self):
        return np.array([self.at])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        DONE.append("reset")
        self.resets += 1
        self.at = float(self.np_random.integers(1000))
        return self._obs(), {}

    def step(self, action):
        DONE.append("step")
        self.steps += 1
        self.at += float(action)
        return self._obs(), 1.0, False, False, {}

    def close(self):
        DONE.append("closed")
        self.is_closed = True


@pytest.fixture(autouse=True)
def nothing_done():
    DONE.clear()


def played(venv, seed=0, steps=5):
    """Observations of a seeded play."""
    seen = [venv.reset(seed=seed)[0]]
    for _ in range(steps):
        seen.append(venv.step(np.ones(venv.num_envs, int))[0])
    return np.stack(seen)


def told_beside_costs(venv):
    """Return the note, unless a busy machine has made a row so dear that it is told."""
    note = venv.backend_note
    cost = (
        r"sub-envs \[[\d, ]+\]: a capture and a restore take [^;]*; `plangym-ext doctor` says why"
    )
    return "" if re.fullmatch(cost, note) else note


# What the probe costs ---------------------------------------------------------------


def test_equal_envs_are_made_once_each_and_no_other():
    with plangym_ext.make_vec([lambda: Counted() for _ in range(4)]) as venv:
        assert DONE == ["made"] * 4
        assert venv.get_attr("resets") == (0,) * 4
        assert venv.get_attr("steps") == (0,) * 4
        venv.reset(seed=0)
        assert venv.get_attr("resets") == (1,) * 4
        assert told_beside_costs(venv) == ""
        assert venv.get_states().shape[0] == 4
    assert count("closed") == 4


def test_without_states_nothing_is_tried():
    with plangym_ext.make_vec([lambda: Counted()] * 2, capture="off") as venv:
        assert DONE == ["made"] * 2
        assert venv.backend_note


class Drawing(Counted):
    """Draws from the generators of the process."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = random.random() + np.random.rand()  # noqa: NPY002
        return self._obs(), {}


def test_the_generators_of_the_process_are_as_they_were():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = random.random() + np.random.rand()  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    with plangym_ext.make_vec(Drawing) as venv:
        assert venv.reset()[0] == expected


# Envs whose probe fails -------------------------------------------------------------


class ReadsLater(Counted):
    """Reads what is set after it was made."""

    def step(self, action):
        self.at += self.bonus
        return super().step(action)


class Strict(Counted):
    """Raises on all actions but one, as board games do."""

    def step(self, action):
        if action != 1:
            raise ValueError(f"illegal action {action}")
        return super().step(action)


class Leaves(Counted):
    """Calls sys.exit on all actions but one."""

    def step(self, action):
        if action != 1:
            sys.exit("the licence has run out")
        return super().step(action)


class NoDefaults(Counted):
    """Wants both arguments of `reset`."""

    def reset(self, seed, options):
        return super().reset(seed=seed, options=options)


class Worded(Counted):
    """Takes words."""

    action_space = spaces.Text(3)

    def step(self, action):
        return super().step(len(action))


class Early(gym.Wrapper):
    """Refuses a reset in the middle of an episode, as SB3's `Monitor` may."""

    started = False

    def reset(self, **kwargs):
        if self.started:
            raise RuntimeError("Tried to reset an environment before done.")
        self.started = True
        return super().reset(**kwargs)


@pytest.mark.parametrize("n_workers", [None, 1])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (ReadsLater, "AttributeError"),
        (Leaves, "SystemExit: the licence has run out"),
        (lambda: Early(Counted()), "before done"),
    ],
    ids=["attribute", "exit", "early"],
)
def test_an_env_whose_probe_fails_is_played_all_the_same(make, reason, n_workers):
    theirs = gym.vector.SyncVectorEnv([make] * 2)
    with plangym_ext.make_vec([make] * 2, n_workers=n_workers) as venv:
        assert reason in venv.backend_note
        assert "sub-envs [0, 1]" in venv.backend_note
        for envs in (theirs, venv):
            if make is ReadsLater:
                envs.set_attr("bonus", 2.0)
        np.testing.assert_array_equal(played(venv), played(theirs))
        with pytest.raises(IncompleteState, match="cannot be captured"):
            venv.get_states()
    theirs.close()


class Quits(Counted):
    """Ends its process on all actions but one."""

    def step(self, action):
        if action != 1:
            os._exit(3)
        return super().step(action)


def test_an_env_whose_probe_ends_its_worker_is_played_all_the_same():
    theirs = gym.vector.SyncVectorEnv([Quits] * 2)
    with plangym_ext.make_vec([Quits, Counted], n_workers=2) as venv:
        assert venv.backend_note.startswith("sub-envs [0]: Quits: its state cannot be captured")
        assert "in a copy of this process: it died" in venv.backend_note
        np.testing.assert_array_equal(played(venv), played(theirs))
        with pytest.raises(IncompleteState, match="it died"):
            venv.get_states()
    theirs.close()


def dies(how):
    def make():
        how(os.getpid())

    return make


@pytest.mark.parametrize(
    ("how", "told"),
    [(lambda _: os._exit(4), "status 4"), (lambda pid: os.kill(pid, signal.SIGKILL), "SIGKILL")],
    ids=["exit", "kill"],
)
def test_a_constructor_that_ends_its_worker_is_told(how, told):
    with pytest.raises(WorkerDied, match=told):
        plangym_ext.make_vec([Counted, dies(how)], n_workers=2)


class Slow(Counted):
    """Takes its time for a step."""

    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


def test_the_proof_of_a_slow_env_is_cut_short_and_says_so():
    with plangym_ext.make(Slow, check=0.1, backend="serial") as env:
        assert 2 <= env.exactness.steps < 100
        assert env.exactness.transitions
    with plangym_ext.make_vec([Slow] * 2, check=0.1) as venv:
        venv.reset(seed=0)
        states = venv.get_states()
        expected = venv.step(np.ones(2, int))[0]
        venv.set_states(states)
        np.testing.assert_array_equal(venv.step(np.ones(2, int))[0], expected)


class Forgets(Slow):
    """Leaves out of its state what it walks by."""

    def get_state(self):
        return np.array([self.at])

    def set_state(self, state):
        self.at = float(state[0]) + 1


def test_a_proof_that_is_cut_short_still_finds_what_differs():
    with plangym_ext.make_vec(Forgets, capture="own", check=1e-9) as venv:
        assert "observation differs at step 2" in venv.backend_note


def test_words_are_actions():
    with plangym_ext.make_vec([Worded] * 2) as venv:
        theirs = gym.vector.SyncVectorEnv([Worded] * 2)
        plays = [[e.reset(seed=0)[0], e.step(("ab", "c"))[0]] for e in (theirs, venv)]
        np.testing.assert_array_equal(*plays)


def test_resets_without_defaults_are_given_both_arguments():
    with plangym_ext.make_vec(NoDefaults, 2) as venv:
        theirs = gym.vector.SyncVectorEnv([NoDefaults] * 2)
        np.testing.assert_array_equal(played(venv), played(theirs))


# Envs that exist already ------------------------------------------------------------


@pytest.mark.parametrize("idiom", ["same", "default", "iterator", "wrapped"])
def test_envs_that_exist_already_are_neither_stepped_nor_closed(idiom):
    envs = [Counted() for _ in range(2)]
    rest = iter(envs)
    makes = {
        "same": [lambda: envs[0], lambda: envs[1]],
        "default": [lambda e=e: e for e in envs],
        "iterator": [lambda: next(rest)] * 2,
        "wrapped": [lambda e=e: TimeLimit(e, 10) for e in envs],
    }[idiom]
    with plangym_ext.make_vec(makes, capture="auto") as venv:
        assert [(e.resets, e.steps, e.is_closed) for e in envs] == [(0, 0, False)] * 2
        assert [e.unwrapped for e in venv.envs] == envs
        assert told_beside_costs(venv) == ""
        venv.reset(seed=0)
        assert venv.get_states().shape[0] == 2
        np.testing.assert_array_equal(played(venv), played(gym.vector.SyncVectorEnv([Counted] * 2)))
    assert [e.is_closed for e in envs] == [True] * 2


@pytest.mark.parametrize("options", [{}, {"n_workers": 1}], ids=["serial", "workers"])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("capture", ["auto", "off"])
def test_rows_that_share_one_env_are_refused(wrapped, capture, options):
    env = Counted()
    shared = [lambda: TimeLimit(env, 10)] * 2 if wrapped else [lambda: env] * 2
    with pytest.raises(ValueError, match="sub-envs 1 and 2 return the same Counted instance"):
        plangym_ext.make_vec([Counted, *shared], capture=capture, **options)


def test_one_row_may_have_an_env_that_exists():
    env = Counted()
    with plangym_ext.make_vec([lambda: env]) as venv:
        venv.reset(seed=0)
        assert venv.envs[0].unwrapped is env


def test_an_env_of_a_pool_that_no_row_has_is_left_alone():
    pool = [Counted() for _ in range(3)]
    rest = iter(pool)
    with plangym_ext.make_vec([lambda: next(rest)] * 2) as venv:
        venv.reset(seed=0)
        assert not pool[2].is_closed
        assert pool[2].resets == 0


def test_constructors_that_count_are_called_in_order():
    numbers = itertools.count()

    def make():
        env = Counted()
        env.number = next(numbers)
        return env

    with plangym_ext.make_vec([make] * 3) as venv:
        assert venv.get_attr("number") == (0, 1, 2)


# Constructors that seed -------------------------------------------------------------


@pytest.mark.parametrize("n_workers", [None, 2])
def test_seeds_of_constructors_count(n_workers):
    def seeded(seed):
        def make():
            env = Counted()
            env.reset(seed=seed)
            return env

        return make

    makes = [seeded(seed) for seed in (4, 5, 6)]
    theirs = gym.vector.SyncVectorEnv(makes)
    with plangym_ext.make_vec(makes, n_workers=n_workers) as venv:
        assert venv.np_random_seed == theirs.np_random_seed == (4, 5, 6)
        np.testing.assert_array_equal(venv.reset()[0], theirs.reset()[0])
        assert venv.get_states().shape[0] == 3
        venv.fork(0, [1])
        after = venv.step(np.ones(3, int))[0]
        assert after[0] == after[1]


def test_an_unseeded_first_reset_is_drawn_anew():
    with plangym_ext.make_vec(Counted, 8) as venv:
        first = venv.reset()[0]
    with plangym_ext.make_vec(Counted, 8) as venv:
        assert (venv.reset()[0] != first).any()


# Spaces -----------------------------------------------------------------------------


class Words(spaces.Space):
    """A space of its own kind."""

    def __init__(self):
        super().__init__(None, None)

    def sample(self, mask=None, probability=None):
        return "word"

    def contains(self, x):
        return isinstance(x, str)

    def __eq__(self, other):
        return isinstance(other, Words)


class Speaking(Counted):
    """Shows words."""

    observation_space = Words()

    def _obs(self):
        return f"at {self.at}"


@pytest.mark.parametrize("n_workers", [None, 1])
def test_spaces_of_an_own_class_are_batched_as_upstream_does(n_workers):
    theirs = gym.vector.SyncVectorEnv([Speaking] * 2)
    with plangym_ext.make_vec([Speaking] * 2, n_workers=n_workers) as venv:
        assert venv.observation_space == theirs.observation_space
        assert venv.reset(seed=0)[0] == theirs.reset(seed=0)[0]
        assert venv.step([1, 1])[0] == theirs.step([1, 1])[0]


class Spaceless(gym.Env):
    """Declares no observation space, and shows texts."""

    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "begun", {}

    def step(self, action):
        return f"did {action}", 0.0, False, False, {}


@pytest.mark.parametrize("mode", ["same", "different"])
def test_envs_that_declare_no_space_show_what_they_like(mode):
    with plangym_ext.make_vec([Spaceless] * 2, observation_mode=mode) as venv:
        assert venv.reset()[0] == ("begun", "begun")
        assert venv.step([1, 2])[0] == ("did 1", "did 2")


def test_minigrid_is_played_by_name():
    pytest.importorskip("minigrid")
    with plangym_ext.make_vec("MiniGrid-Empty-5x5-v0", 1) as venv:
        obs, _ = venv.reset(seed=0)
        assert obs["image"].shape == (1, 7, 7, 3)
        assert venv.get_states().shape[0] == 1


# The sub-envs themselves ------------------------------------------------------------


def test_sub_envs_can_be_reached_where_they_live_here():
    with plangym_ext.make_vec(Counted, 2) as venv:
        assert [type(env.unwrapped) for env in venv.envs] == [Counted] * 2
    with plangym_ext.make_vec(Counted, 2, n_workers=1, capture="off") as venv:
        assert not hasattr(venv, "envs")


def test_closing_while_a_call_is_pending_warns():
    venv = plangym_ext.make_vec(Counted, 2)
    venv.reset_async(seed=0)
    with pytest.warns(UserWarning, match=r"waiting for a pending call to `reset` to complete\."):
        venv.close()


# The checker ------------------------------------------------------------------------


class Brief(Counted):
    """Ends in its first step, as a hand of Blackjack may."""

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, True, truncated, info


@pytest.mark.parametrize("mode", ["disabled", "next_step", "same_step"])
def test_the_checker_plays_envs_that_end_at_once(mode):
    with plangym_ext.make_vec(Brief, 3, autoreset_mode=mode) as venv:
        report = plangym_ext.check_vector_env(venv)
        assert report.ok, str(report)


class Chain(gym.Env):
    """Holds a list of nodes that is as deep as the episode is long, or a state that fails."""

    observation_space = spaces.Box(0, 1e9, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, kind="chain"):
        self.kind = kind

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.node = 0, []
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        if self.kind == "chain":
            self.node = [self.node] * 1
        elif self.kind == "large" and self.t == 70:
            self.number = 10**5000
        return np.full(1, self.t), 0.0, False, False, {}


@pytest.mark.parametrize("n_workers", [None, 1])
@pytest.mark.parametrize("kind", ["chain", "large"])
def test_a_state_that_cannot_be_captured_costs_no_step(kind, n_workers):
    constructors = [functools.partial(Chain, kind)] * 2
    with plangym_ext.make_vec(constructors, n_workers=n_workers) as venv:
        venv.reset(seed=0)
        for t in range(1500):
            obs, *_ = venv.step(np.zeros(2, int))
            assert (obs == t + 1).all()


class Scribbling(gym.Env):
    """Shows a graph into which it goes on writing."""

    observation_space = spaces.Graph(spaces.Box(0, 99, (1,)), None)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.nodes = np.zeros((2, 1), np.float32)
        return spaces.GraphInstance(self.nodes, None, None), {}

    def step(self, action):
        self.nodes += 1
        return spaces.GraphInstance(self.nodes, None, None), 0.0, False, False, {}


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 1}], ids=str)
def test_what_was_shown_is_not_written_into(options):
    with plangym_ext.make_vec(Scribbling, 2, **options) as venv:
        shown = [venv.reset(seed=0)[0], *(venv.step(np.zeros(2, int))[0] for _ in range(3))]
        assert [graphs[0].nodes[0, 0] for graphs in shown] == [0, 1, 2, 3]


def test_nothing_is_shown_after_closing():
    venv = plangym_ext.make_vec(Counted, 2)
    venv.reset(seed=0)
    venv.close()
    with pytest.raises(VectorClosed, match="observations: this vector env is closed"):
        venv.observations()
    with pytest.raises(VectorClosed, match="step_out: this vector env is closed"):
        venv.step_out({"rewards": np.zeros(2)})


@pytest.mark.parametrize("backend", ["serial", "process", "kernel", "mujoco"])
def test_seeds_are_those_of_the_last_resets(backend):
    name = "Hopper-v5" if backend == "mujoco" else "CartPole-v1"
    theirs = gym.vector.SyncVectorEnv([lambda: gym.make(name)] * 3)
    with plangym_ext.make_vec(name, 3, backend=backend) as venv:
        for seeds in (1, [7, 8, 2**40], [None, 3, None]):
            for one in (theirs, venv):
                one.reset(seed=seeds)
            assert venv.np_random_seed == venv.get_attr("np_random_seed") == theirs.np_random_seed
        with pytest.raises(TypeError):
            venv.reset(seed=[1, 2, "no"])
        assert venv.np_random_seed == theirs.np_random_seed


def test_envs_that_their_constructor_makes_by_chance_have_rows_of_their_own():
    chance = {"desc": None, "map_name": None}
    with plangym_ext.make_vec("FrozenLake-v1", 6, **chance) as venv:
        assert venv.backend == "serial"
        assert len({desc.tobytes() for desc in venv.get_attr("desc")}) > 1
    with pytest.raises(BackendUnavailable, match="its constructor makes envs that differ"):
        plangym_ext.make_vec("FrozenLake-v1", 6, backend="kernel", **chance)
    with plangym_ext.make_vec("FrozenLake-v1", 1, backend="kernel", **chance) as venv:
        assert venv.backend == "kernel"


class Told(Counted):
    """Tells a file of each instance that is made."""

    def __init__(self, path):
        super().__init__()
        with open(path, "a") as file:
            file.write("made\n")


def test_a_replaced_worker_proves_nothing_anew(tmp_path):
    path = tmp_path / "made"
    with plangym_ext.make_vec(lambda: Told(path), 2, n_workers=1) as venv:
        venv.reset(seed=0)
        assert path.read_text().count("made") == 2
        # The one after the next is no different.
        for made in (4, 6):
            os.kill(venv.worker_pids[0], signal.SIGKILL)
            before = venv.observations()
            obs = venv.step(np.array([1, 2]))[0]
            assert (obs - before).tolist() == [[1.0], [2.0]]
            assert path.read_text().count("made") == made
        states = venv.get_states()
        venv.step(np.array([1, 2]))
        venv.set_states(states)
        assert (venv.step(np.array([0, 0]))[0] == obs).all()
