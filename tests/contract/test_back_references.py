"""Wrappers that hold what is below them, for batches and for vector envs.

What gymnasium's `SyncVectorEnv` plays is the truth; whatever saves, restores or replaces a
worker has to give the same, and states of both mechanisms are the same bytes.
"""

from __future__ import annotations

import functools
import os
import signal

import numpy as np
import pytest
from back_references import BOARD_HOLDERS, BOARDS, HOLDERS, on_board, shown_family
from gymnasium.vector import SyncVectorEnv

import plangym_ext
from plangym_ext.core.gym_env import GymEnv

STEPS, SAVED_AT, SEED = 20, 6, 3
FAMILIES = (
    "CartPole-v1",
    "FrozenLake-v1",
    "Blackjack-v1",
    "Hopper-v5",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "MiniGrid-DoorKey-5x5-v0",
    "ALE/Pong-v5",
    "parking-v0",
    "plangym_ext/Sokoban-v0",
)
pytestmark = pytest.mark.slow


def family_makes(names):
    return [functools.partial(shown_family, name, HOLDERS) for name in names]


def board_makes(board):
    alone = [functools.partial(on_board, board, (holder,)) for holder in BOARD_HOLDERS]
    return [*alone, functools.partial(on_board, board, BOARD_HOLDERS)]


def actions_for(makes, limit):
    rng = np.random.default_rng(0)
    return rng.integers(0, limit, (STEPS, len(makes)))


def assert_same_step(got, expected, where):
    for k, field in enumerate(("obs", "reward", "terminated", "truncated")):
        for row, (a, b) in enumerate(zip(got[k], expected[k], strict=True)):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"{where}: {field}[{row}]"


def truth(makes, actions):
    """Return what `SyncVectorEnv` gives for each step, and which rows a step resets."""
    with_gymnasium = SyncVectorEnv(makes)
    with_gymnasium.reset(seed=SEED)
    steps = [with_gymnasium.step(action)[:4] for action in actions]
    with_gymnasium.close()
    return steps


def check_vector_env(makes, actions, expected, n_workers):
    """Play with a kill in the middle, and once more from a state; return states of a step."""
    backend = "serial" if n_workers is None else "process"
    with plangym_ext.make_vec(makes, n_workers=n_workers, backend=backend) as venv:
        venv.reset(seed=SEED)
        for t, action in enumerate(actions):
            if t == SAVED_AT:
                saved, ended = venv.get_states(), venv.ended
            if n_workers is not None and t in (SAVED_AT + 2, SAVED_AT + 7):
                os.kill(venv.worker_pids[t % n_workers], signal.SIGKILL)
            assert_same_step(venv.step(action), expected[t], f"step {t}")
        for attempt in range(2):
            venv.set_states(saved, ended=ended)
            for t in range(SAVED_AT, STEPS):
                where = f"attempt {attempt}, step {t}"
                assert_same_step(venv.step(actions[t]), expected[t], where)
    return saved


def check_plan_env(make, row, actions, expected, state):
    """Check the same for one env: `state` is what the vector env saved of it."""

    def play(env, first, ended):
        for t in range(first, STEPS):
            if t == SAVED_AT:
                found.append((env.get_state(), ended))
            want = [field[row] for field in expected[t]]
            if ended:
                obs, _ = env.reset(return_state=False)
                got = (obs, 0.0, False, False)
            else:
                got = env.step(actions[t, row])[:4]
            assert_same_step([[x] for x in got], [[x] for x in want], f"{make}, step {t}")
            ended = bool(got[2] or got[3])

    found = []
    with GymEnv(make, autoreset=False) as env:
        env.reset(seed=SEED + row)
        play(env, 0, False)
        own, ended = found[0]
        width = len(own)
        assert own.tobytes() == state[:width].tobytes() or not env.codec.canonical
        assert not state[width:].any()
        for saved in (own, state[:width], own):
            env.set_state(saved)
            play(env, SAVED_AT, ended)
        if not ended:
            batch = env.step_batch(np.repeat(actions[SAVED_AT, row], 2), np.stack([own, own]))
            assert batch.rewards.tolist() == [expected[SAVED_AT][1][row]] * 2


def check_all(makes, limit):
    actions = actions_for(makes, limit)
    expected = truth(makes, actions)
    states = check_vector_env(makes, actions, expected, 2)
    if os.environ.get("PYTEST_LONG"):
        check_vector_env(makes, actions, expected, None)
    for row, make in enumerate(makes):
        check_plan_env(make, row, actions, expected, states[row])


def test_families_under_wrappers_that_hold_the_env():
    check_all(family_makes(FAMILIES), 64)


def test_dm_control_under_wrappers_that_hold_the_env():
    pytest.importorskip("dm_control")
    check_all(family_makes(["dm_control/reacher-hard-v0", "dm_control/hopper-hop-v0"]), 64)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.__name__)
def test_wrappers_that_hold_the_env(board):
    check_all(board_makes(board), 6)
