"""The kernels' rules beside plain Python's, in games of random and of a few illegal moves.

Run alone, the module plays more of them in compiled code, and prints how many were equal:
`python -P tests/envs/test_plain_games.py 1000`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import numpy as np
import plain_games as plain
import pytest

import plangym_ext
from plangym_ext.envs.rules.grid_world import TOY_MONTEZUMA

PAIRS = (0, 0, 1, 1, 2, 2)
ROOMS = ("@.k#....", ".b.D.kb.", ".x.#.x..", "...#D###", ".b...$..", "$x......")
#: Of each env: id, arguments, plain game, steps at most.
GAMES = {
    "three in a row": ("TicTacToe", {}, lambda rng: plain.PlainLines(3, 3, 3)),
    "connect on 5 x 4": (
        "ConnectFour",
        {"rows": 5, "columns": 4, "length": 3},
        lambda rng: plain.PlainLines(5, 4, 3, gravity=True),
    ),
    "hex on 4 x 3": ("Hex", {"rows": 4, "columns": 3}, lambda rng: plain.PlainHex(4, 3)),
    "go on 4": (
        "Go",
        {"size": 4, "komi": 0.5, "max_moves": 22},
        lambda rng: plain.PlainGo(4, 0.5, 22),
    ),
    "bits": ("BitFlip", {"n": 5, "max_episode_steps": 40}, lambda rng: plain.PlainBits(5, rng)),
    "ordered bits": (
        "BitFlip",
        {"n": 4, "ordered": True, "invalid_reward": -0.5, "max_episode_steps": 40},
        lambda rng: plain.PlainBits(4),
    ),
    "hanoi": (
        "Hanoi",
        {"disks": 3, "pegs": 4, "reward": 3.0, "invalid_reward": -0.25},
        lambda rng: plain.PlainHanoi(3, 4),
    ),
    "octomaze": ("Octomaze", {"corridors": 3, "length": 4}, lambda rng: plain.PlainOctomaze(3, 4)),
    "one goal": (
        "Octomaze",
        {"corridors": 2, "length": 3, "goal": 1},
        lambda rng: plain.PlainOctomaze(2, 3, 1),
    ),
    "packing": (
        "BinPacking",
        {
            "capacity": 6,
            "item_sizes": (1, 2, 6),
            "item_probabilities": (0.5, 0.25, 0.25),
            "horizon": 20,
            "reward_scale": 0.5,
        },
        lambda rng: plain.PlainPacking(rng, 6, (1, 2, 6), (0.5, 0.25, 0.25), 20, 0.5),
    ),
    "cube of two": (
        "RubiksCube",
        {"n": 2, "scramble": 2, "reward": "solved"},
        lambda rng: plain.PlainCube(rng, 2, 2, "solved"),
    ),
    "cube of four": (
        "RubiksCube",
        {"n": 4, "scramble": 3, "reward": "stickers", "colours": PAIRS, "smart": False},
        lambda rng: plain.PlainCube(rng, 4, 3, "stickers", PAIRS, smart=False),
    ),
    "rooms": (
        "GridWorld",
        {"map": ROOMS, "room": (3, 4), "lives": 3, "trap_reward": -0.5, "max_episode_steps": 150},
        lambda rng: plain.PlainGrid(ROOMS, (3, 4), 3, -0.5),
    ),
}
FULL = {
    "toy montezuma": ("GridWorld", {}, lambda rng: plain.PlainGrid(TOY_MONTEZUMA, (7, 9))),
    "cube": ("RubiksCube", {}, lambda rng: plain.PlainCube(rng)),
    "packing of 1,000": ("BinPacking", {}, lambda rng: plain.PlainPacking(rng)),
    "connect four": ("ConnectFour", {}, lambda rng: plain.PlainLines(6, 7, 4, gravity=True)),
    "hex": ("Hex", {}, lambda rng: plain.PlainHex(11, 11)),
    "go": ("Go", {}, lambda rng: plain.PlainGo(9, 7.5, 162)),
}


def check(name, options, plain_game, *, backend, games, seed=0, max_steps=400):
    """Play games in one batch, and each as plain Python does; the number of steps."""
    rng, steps = np.random.default_rng(seed), 0
    with plangym_ext.make(f"plangym_ext/{name}-v0", backend=backend, **options) as env:
        beginnings, playing = [], []
        for i in range(games):
            state, obs, info = env.reset(seed=seed + i)
            game = plain_game(np.random.default_rng(seed + i))
            same(game, obs, info, i)
            beginnings.append(state)
            playing.append(game)
        states = np.array(beginnings)
        for _ in range(max_steps):
            if not playing:
                break
            actions = np.array([drawn(game, env.action_space.n, rng) for game in playing])
            got = env.step_batch(actions, states)
            for i, game in enumerate(playing):
                reward = game.step(actions[i])
                assert (reward, game.over) == (got.rewards[i], got.terminateds[i]), (name, i)
                same(game, got.obs[i], got.infos[i], i)
            steps += len(playing)
            states = got.states[~got.terminateds]
            playing = [game for game in playing if not game.over]
    return steps


def drawn(game, count, rng):
    """Draw an action, seldom an illegal one."""
    legal = np.flatnonzero(game.mask()) if hasattr(game, "mask") else np.arange(count)
    return rng.integers(count) if rng.random() < 0.01 else rng.choice(legal)


def same(game, obs, info, row):
    np.testing.assert_array_equal(obs, game.obs(), err_msg=f"{game} {row}")
    if hasattr(game, "mask"):
        np.testing.assert_array_equal(info["action_mask"], game.mask(), err_msg=f"{game} {row}")
    if hasattr(game, "player") and not game.over:
        assert info["to_play"] == game.player


@pytest.mark.parametrize("case", GAMES)
def test_every_step_is_that_of_plain_python(case):
    name, options, plain_game = GAMES[case]
    assert check(name, options, plain_game, backend="serial", games=5, max_steps=25) >= 20


if __name__ == "__main__":
    for case, (name, options, plain_game) in {**GAMES, **FULL}.items():
        steps = check(name, options, plain_game, backend="kernel", games=int(sys.argv[1]))
        print(f"{case}: {sys.argv[1]} games, {steps} steps equal", flush=True)
