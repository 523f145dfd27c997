from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from plangym_ext.envs.rules.t_maze import TMazeEnv
from plangym_ext.errors import DamagedState, InvalidAction, ResetNeeded

NORTH, EAST, SOUTH, WEST = range(4)
CORRIDOR, JUNCTION = [1, 0, 1], [0, 1, 0]


def begun(n: int, *, goal_is_south: bool, **arguments: str) -> TMazeEnv:
    """An env at its start, with the goal on a given side."""
    env = TMazeEnv(n, **arguments)
    for seed in range(50):
        env.reset(seed=seed)
        if env.goal_is_south == goal_is_south:
            return env
    raise AssertionError("the side is always the same")


def play(env: TMazeEnv, actions: list[int]) -> list[tuple[list[float], float, bool]]:
    seen = [env.step(action) for action in actions]
    assert not any(truncated or info for *_, truncated, info in seen)
    return [(obs.tolist(), reward, terminated) for obs, reward, terminated, *_ in seen]


@pytest.mark.parametrize(
    ("goal_is_south", "turn", "reward"),
    [(False, NORTH, 4.0), (False, SOUTH, -0.1), (True, SOUTH, 4.0), (True, NORTH, -0.1)],
)
def test_the_turn_at_the_junction_ends_and_pays_on_one_side(goal_is_south, turn, reward):
    env = begun(3, goal_is_south=goal_is_south)
    assert play(env, [EAST, EAST, EAST, turn]) == [
        (CORRIDOR, 0.0, False),
        (CORRIDOR, 0.0, False),
        (JUNCTION, 0.0, False),
        (JUNCTION, reward, True),
    ]


def test_the_start_alone_shows_the_side():
    north, south = (begun(2, goal_is_south=side) for side in (False, True))
    for env, sign in ((north, [0, 1, 1]), (south, [1, 1, 0])):
        # Against three walls; on; against two walls, and back to the start.
        assert play(env, [NORTH, SOUTH, WEST]) == [(sign, -0.1, False)] * 3
        assert play(env, [EAST, NORTH, SOUTH]) == [
            (CORRIDOR, 0.0, False),
            (CORRIDOR, -0.1, False),
            (CORRIDOR, -0.1, False),
        ]
        assert play(env, [WEST]) == [(sign, 0.0, False)]
    assert play(north, [EAST, EAST, EAST]) == play(south, [EAST, EAST, EAST])
    assert play(north, [EAST]) == [(JUNCTION, -0.1, False)]


def test_a_reset_draws_both_sides():
    env = TMazeEnv(1)
    env.reset(seed=0)
    found = []
    for _ in range(4000):
        env.reset()
        found.append(env.goal_is_south)
    # Mean 2000, deviation sqrt(4000 / 4) = 32.
    assert abs(sum(found) - 2000) < 4 * 32


def test_gymnasiums_checker_is_content():
    check_env(gymnasium.make(EnvSpec("Checked-v0", entry_point=TMazeEnv)).unwrapped)


def test_text():
    env = begun(3, goal_is_south=False, render_mode="ansi")
    env.step(EAST)
    assert env.render() == "###G\n.@..\n###."
    env.render_mode = None
    with pytest.warns(UserWarning, match="no render_mode"):
        assert env.render() is None


def test_a_restored_state_has_the_same_future():
    def future(env: TMazeEnv) -> list[object]:
        seen: list[object] = []
        for t in range(60):
            seen.append(
                env.reset()[0].tolist() if t % 9 == 8 else play(env, [(EAST, t % 4)[t % 2]])
            )
        return seen

    env = TMazeEnv(5)
    env.reset(seed=2)
    play(env, [EAST, EAST])
    state = env.get_state()
    expected = future(env)
    for target in (env, TMazeEnv(5)):
        target.set_state(state)
        np.testing.assert_array_equal(target.get_state(), state)
        assert future(target) == expected


def test_bad_states_are_refused():
    env = begun(3, goal_is_south=True)
    before = env.get_state()
    with pytest.raises(DamagedState, match=r"expected \[45\] uint8; got \[44\]"):
        env.set_state(before[:-1])
    for at_byte, value, message in (
        (0, 4, r"the kernel's check refuses \(4, 1"),
        (4, 2, r"refuses \(0, 2"),
        (21, before[21] ^ 1, "odd increment"),
    ):
        bad = before.copy()
        bad[at_byte] = value
        with pytest.raises(DamagedState, match=message):
            env.set_state(bad)
    np.testing.assert_array_equal(env.get_state(), before)


def test_nothing_works_before_the_first_reset():
    env = TMazeEnv(render_mode="ansi")
    for call in (lambda: env.step(0), env.get_state, env.render):
        with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
            call()


@pytest.mark.parametrize("action", [-1, 4, 1.0, None])
def test_bad_actions_are_refused(action):
    with pytest.raises(InvalidAction, match=r"in \[0, 4\); got"):
        begun(2, goal_is_south=True).step(action)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"n must be in \[1, 2\*\*31\); got 0"):
        TMazeEnv(0)
    with pytest.raises(ValueError, match="render_mode must be None or 'ansi'; got 'human'"):
        TMazeEnv(render_mode="human")
