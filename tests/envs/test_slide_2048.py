from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from plangym_ext.envs.rules.slide_2048 import Slide2048Env, slide
from plangym_ext.errors import DamagedState, InvalidAction, ResetNeeded


def at(*cells, **arguments):
    """An env with given tiles."""
    env = Slide2048Env(int(len(cells) ** 0.5), **arguments)
    env.reset(seed=0)
    env.state["cells"][:] = cells
    return env


@pytest.mark.parametrize(
    ("row", "after", "reward"),
    [
        ((1, 0, 0, 1), (2, 0, 0, 0), 4),
        ((1, 1, 1, 0), (2, 1, 0, 0), 4),
        ((1, 1, 1, 1), (2, 2, 0, 0), 8),
        ((1, 1, 2, 0), (2, 2, 0, 0), 4),  # what came of two does not meet a third
        ((0, 3, 0, 2), (3, 2, 0, 0), 0),
        ((2, 1, 2, 1), (2, 1, 2, 1), 0),
    ],
)
def test_tiles_slide_and_meet_once(row, after, reward):
    lines, ends = (np.array([line, *[[0] * 4] * 3]) for line in (row, after))
    # To the left; the same to the right, up and down.
    for direction, turned in (
        (3, lambda board: board),
        (1, np.fliplr),
        (0, np.transpose),
        (2, lambda board: np.flipud(board.T)),
    ):
        cells = turned(lines).astype(np.uint8).ravel()
        assert slide(cells.copy(), 4, direction, False) == (row != after, reward)
        assert slide(cells, 4, direction, True) == (row != after, reward)
        np.testing.assert_array_equal(cells, turned(ends).ravel())


def test_a_new_tile_follows_a_slide_that_moves_something():
    env = at(1, 0, 0, 0)
    obs, reward, over, cut, info = env.step(3)
    assert (obs.ravel().tolist(), reward, over, cut) == ([1, 0, 0, 0], 0.0, False, False)
    np.testing.assert_array_equal(info["action_mask"], [0, 1, 1, 0])
    assert (env.step(1)[0] > 0).sum() == 2


def test_new_tiles_are_drawn_uniformly_and_four_is_one_of_ten():
    places, fours = np.zeros(4), 0
    env = at(1, 0, 0, 0)
    for _ in range(3000):
        env.state["cells"][:] = [1, 0, 0, 0]
        obs = env.step(1)[0].ravel()
        assert obs[1] == 1
        new = np.flatnonzero(obs[[0, 2, 3]])
        places[[0, 2, 3][new[0]]] += 1
        fours += obs[[0, 2, 3]].max() == 2
    # Deviations: sqrt(3000 * 2 / 9) = 26, sqrt(3000 * 0.09) = 16.
    assert (abs(places[[0, 2, 3]] - 1000) < 4 * 26).all()
    assert abs(fours - 300) < 4 * 16


def test_it_ends_where_nothing_moves():
    obs, reward, over, _, info = at(1, 1, 2, 3, four=1.0).step(3)
    # 4 and a new 4 above 4 and 8: they can still meet.
    assert (reward, over) == (4.0, False)
    np.testing.assert_array_equal(obs, [[2, 2], [2, 3]])
    assert info["action_mask"].any()
    assert at(1, 2, 2, 1).step(0)[2]


def test_states_go_on_alike():
    env, other = Slide2048Env(3), Slide2048Env(3)
    env.reset(seed=1)
    state = env.get_state()
    first = [env.step(action % 4)[0].tolist() for action in range(12)]
    other.set_state(state)
    assert [other.step(action % 4)[0].tolist() for action in range(12)] == first


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_it_is_a_gymnasium_env():
    check_env(Slide2048Env(), skip_render_check=True)
    assert at(1, 0, 3, 2, render_mode="ansi").render() == "2 .\n8 4"


def test_what_is_wrong_is_refused():
    env = Slide2048Env(2)
    with pytest.raises(ResetNeeded, match="step: Slide2048Env has no state yet"):
        env.step(0)
    env.reset(seed=0)
    state = env.get_state()
    state[0] = 6
    with pytest.raises(DamagedState, match="the kernel's check refuses"):
        env.set_state(state)
    with pytest.raises(InvalidAction, match=r"in \[0, 4\); got 4"):
        env.step(4)
    with pytest.raises(ValueError, match=r"size must be in \[2, 6\]; got 1"):
        Slide2048Env(1)
    with pytest.raises(ValueError, match="four must be a probability"):
        Slide2048Env(four=2.0)
    with pytest.raises(ValueError, match="render_mode must be None or 'ansi'; got 'human'"):
        Slide2048Env(render_mode="human")
    with pytest.warns(UserWarning, match="no render_mode"):
        assert env.render() is None
