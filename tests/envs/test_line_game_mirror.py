"""Boards of line games in a mirror: a move on an image leads to the image of what it led to."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.envs import LineGameEnv
from plangym_ext.envs.rules.line_game import mirrored
from plangym_ext.errors import InvalidSamples


@pytest.mark.parametrize("game", [(6, 7, 4, True), (3, 4, 3, False)])
def test_the_image_of_a_move_is_a_move(game):
    *size, gravity = game
    env, other = (LineGameEnv(*size, gravity=gravity) for _ in range(2))
    rng = np.random.default_rng(0)
    obs, info = env.reset()
    other.reset()
    for _ in range(8):
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        policy = np.eye(env.action_space.n, dtype=np.float32)[action]
        rows = {"obs": obs[None], "policy": policy[None], "value": np.ones(1)}
        image = mirrored(rows, np.array([0.2]))
        assert image["value"].tolist() == [1.0]
        obs, reward, ended, _, info = env.step(action)
        seen, other_reward, other_ended, _, _ = other.step(int(image["policy"][0].argmax()))
        np.testing.assert_array_equal(seen, mirrored({"obs": obs[None]}, np.array([0.2]))["obs"][0])
        assert (reward, ended) == (other_reward, other_ended)
        if ended:
            break


def test_rows_are_drawn_one_by_one_and_the_batch_stays_as_it_was():
    boards = np.random.default_rng(1).integers(0, 2, (4, 2, 6, 7)).astype(np.uint8)
    before = boards.copy()
    found = mirrored({"obs": boards}, np.array([0.1, 0.9, 0.4, 0.6]))["obs"]
    np.testing.assert_array_equal(found[[1, 3]], before[[1, 3]])
    np.testing.assert_array_equal(found[[0, 2]], before[[0, 2], ..., ::-1])
    np.testing.assert_array_equal(boards, before)


def test_numbers_of_actions_are_refused():
    rows = {"obs": np.zeros((1, 2, 6, 7)), "action": np.zeros(1, np.int64)}
    with pytest.raises(InvalidSamples, match="got 'action'"):
        mirrored(rows, np.zeros(1))
