"""The library's own small envs whose rules are kernels: BitFlip, Hanoi, Rubik's cube and others."""

from __future__ import annotations

import copy
import pickle
from collections import deque

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import plangym_ext
from plangym_ext import errors
from plangym_ext.envs import (
    BinPackingEnv,
    BitFlipEnv,
    GoGameEnv,
    GridWorldEnv,
    HanoiEnv,
    HexGameEnv,
    OctomazeEnv,
    RubiksCubeEnv,
)
from plangym_ext.envs.rules.rubiks_cube import turns
from plangym_ext.planners import MCTS, DiscreteShooting, GraphSearch, play

CLASSES = {
    "BitFlip": BitFlipEnv,
    "BinPacking": BinPackingEnv,
    "Go": GoGameEnv,
    "GridWorld": GridWorldEnv,
    "Hanoi": HanoiEnv,
    "Hex": HexGameEnv,
    "Octomaze": OctomazeEnv,
    "RubiksCube": RubiksCubeEnv,
}


def shortest(env):
    """Steps of the shortest way to a reward that ends the episode, and states that were seen."""
    start = env.get_state()
    seen, waiting = {start.tobytes()}, deque([(start, 0)])
    while waiting:
        state, steps = waiting.popleft()
        for action in range(env.action_space.n):
            env.set_state(state)
            _, reward, over, *_ = env.step(action)
            if over:
                if reward > 0:
                    return steps + 1, len(seen)
                continue
            after = env.get_state()
            if after.tobytes() not in seen:
                seen.add(after.tobytes())
                waiting.append((after, steps + 1))
    raise AssertionError("no way")


@pytest.mark.filterwarnings("ignore:.*render_mode")
@pytest.mark.parametrize("cls", CLASSES.values())
def test_gymnasiums_checker_is_content(cls):
    check_env(cls(), skip_render_check=True)
    env = cls(render_mode="ansi")
    env.reset(seed=0)
    assert isinstance(env.render(), str)


@pytest.mark.parametrize("name", CLASSES)
def test_the_kernel_is_proved_and_found_by_itself(name):
    # A difference between compiled and Python's results in 400 steps raises KernelDiffers.
    with plangym_ext.make(f"plangym_ext/{name}-v0", backend="kernel") as env:
        env.warm_up()
        state, *_ = env.reset(seed=1)
        actions = np.random.default_rng(0).integers(0, env.action_space.n, (8, 30))
        got = env.rollout_batch(actions, np.repeat(state[None], 8, axis=0))
        with plangym_ext.make(f"plangym_ext/{name}-v0", backend="serial") as serial:
            want = serial.rollout_batch(actions, np.repeat(state[None], 8, axis=0))
    np.testing.assert_array_equal(got.states, want.states)
    np.testing.assert_array_equal(got.rewards, want.rewards)


@pytest.mark.parametrize(
    ("name", "options", "planner", "best"),
    [
        ("BitFlip", {"n": 5}, DiscreteShooting(64), -3.0),  # four bits are wrong
        ("Hanoi", {"disks": 3}, GraphSearch(60, state_key="obs", rollout_depth=0), 1.0),
        ("RubiksCube", {"scramble": 2, "reward": "solved"}, MCTS(160), 1.0),
    ],
)
def test_a_planner_solves_them(name, options, planner, best):
    with plangym_ext.make(f"plangym_ext/{name}-v0", backend="serial", **options) as env:
        assert play(env, planner, seed=0, max_steps=30).return_ == best


@pytest.mark.parametrize("cls", CLASSES.values())
def test_copies_and_states_have_the_same_future(cls):
    def future(env):
        steps = [
            env.step(t % env.action_space.n)[:3] if t % 7 else env.reset() for t in range(1, 40)
        ]
        # Where nothing is drawn, the generator is no part of the state.
        draws = "rng" in (env.kernel.state.names or ())
        return steps, env.np_random.random() if draws else None

    env = cls()
    env.reset(seed=3)
    env.step(0)
    others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env)), cls()]
    others[-1].set_state(env.get_state())
    expected = str(future(env))
    assert [str(future(other)) for other in others] == [expected] * 3


@pytest.mark.parametrize("cls", CLASSES.values())
def test_what_is_no_state_is_refused(cls):
    env = cls()
    with pytest.raises(errors.ResetNeeded, match=r"call reset\(\) first"):
        env.get_state()
    env.reset(seed=0)
    before = env.get_state()
    for bad in (np.full_like(before, 255), before[:-1], before.astype(np.int64)):
        with pytest.raises(errors.DamagedState, match="Pass a row from get_state"):
            env.set_state(bad)
    np.testing.assert_array_equal(env.get_state(), before)
    with pytest.raises(errors.InvalidAction):
        env.step(env.action_space.n)


def test_bits_are_flipped_until_they_are_the_goal():
    env = BitFlipEnv(5)
    obs, _ = env.reset(seed=3)
    wrong = np.flatnonzero(obs[:5] != obs[5:])
    assert wrong.size > 1
    results = [env.step(int(i))[1:3] for i in wrong]
    assert results == [(-1.0, False)] * (wrong.size - 1) + [(0.0, True)]


@pytest.mark.parametrize(("disks", "pegs", "moves"), [(1, 3, 1), (3, 3, 7), (4, 3, 15), (4, 4, 9)])
def test_the_tower_is_moved_in_as_few_moves_as_known(disks, pegs, moves):
    # 2**disks - 1 with three pegs; with four the numbers of Frame and Stewart: 1, 3, 5, 9.
    env = HanoiEnv(disks, pegs)
    env.reset()
    found, seen = shortest(env)
    assert found == moves
    assert seen <= pegs**disks


def test_illegal_moves_of_a_disk_change_nothing():
    env = HanoiEnv(2, render_mode="ansi")
    _, info = env.reset()
    # From the first peg to the second and third alone.
    np.testing.assert_array_equal(info["action_mask"], [1, 1, 0, 0, 0, 0])
    before = env.step(0)[0]
    assert env.render() == "| 2\n| 1\n|"
    np.testing.assert_array_equal(env.step(0)[0], before)  # 2 onto 1
    np.testing.assert_array_equal(env.step(4)[0], before)  # an empty peg


def test_corridors_end_after_their_length():
    env = OctomazeEnv(4, 5, goal=3, render_mode="ansi")
    env.reset()
    assert shortest(env) == (6, 21)  # hub and 4 * 5 cells
    env.reset()
    assert [env.step(k)[1:3] for k in (1, 0, 1, 1, 1, 1, 1)] == [(0.0, False)] * 6 + [(0.0, True)]
    assert env.render().splitlines()[1] == "+.....@"
    assert env.step(1)[1:3] == (0.0, True)


def test_items_are_packed():
    env = BinPackingEnv(10, (4, 6), (0.5, 0.5), 4)
    env.reset(seed=0)
    env.state["item"] = 6
    assert env.step(3)[4]["invalid_action"] == 1  # a new bin
    env.state["item"] = 4
    assert env.step(6)[1:3] == (4.0, False)
    assert not env.state["bins"].any()  # full
    with pytest.raises(errors.InvalidOption, match="sum to 1"):
        BinPackingEnv(9, (2, 3), (0.5, 0.4))
    with pytest.raises(errors.InvalidOption, match="item_sizes must be in"):
        BinPackingEnv(9, (2, 10))


def test_quarter_turns_are_those_of_a_cube():
    moves = dict(zip("UuDdFfBbRrLl", turns(3), strict=True))

    def order(text):
        cube, count = np.arange(54), 0
        while count == 0 or (cube != np.arange(54)).any():
            for letter in text:
                cube = cube[moves[letter]]
            count += 1
        return count

    # Orders of elements of the cube's group; Bandelow 1982 has those of two faces.
    assert {letter: order(letter) for letter in moves} == dict.fromkeys(moves, 4)
    assert [order(text) for text in ("Uu", "RL", "RU", "Ru", "RUru", "RUrU", "FBLRUD")] == [
        *(1, 4, 105, 63, 6, 5),
        order("DURLBF"),
    ]
    # Centres stay, and a turn moves twelve stickers of other faces and eight of its own.
    for turn in moves.values():
        assert (turn[4::9] == np.arange(4, 54, 9)).all()
        assert (turn != np.arange(54)).sum() == 20
    # A sticker of the front goes up by a clockwise turn of the right face.
    up, front = range(9), range(18, 27)
    assert sum(moves["R"][i] in front for i in up) == 3


def test_a_scramble_is_undone():
    env = RubiksCubeEnv(scramble=1)
    env.reset(seed=0)
    state = env.get_state()
    found = []
    for action in range(12):
        env.set_state(state)
        found.append(env.step(action)[1:3])
    assert sorted(found) == [(-1.0, False)] * 11 + [(0.0, True)]
    for options, message in (
        ({"scramble": 0}, "scramble must be an integer >= 1; got 0"),
        ({"reward": "none"}, "one of step, solved, stickers"),
        ({"colours": [1] * 6}, "not all the same"),
    ):
        with pytest.raises(errors.InvalidOption, match=message):
            RubiksCubeEnv(**options)


def test_keys_doors_and_traps():
    env = GridWorldEnv(["@kDx", "..#$"], render_mode="ansi")
    env.reset()
    assert env.step(2)[1:3] == (0.0, False)
    assert env.step(1)[1:3] == (0.0, False)
    assert env.step(1)[1:3] == (0.0, False)  # a wall
    assert env.render() == ".kDx\n.@#$\nkeys: 0"
    env.step(0)
    assert env.step(1)[0][-2] == 0  # the key is in the door
    assert env.render() == "..@x\n..#$\nkeys: 0"
    assert env.step(1)[1:3] == (0.0, True)
    env = GridWorldEnv(["@D$k"])
    env.reset()
    assert env.step(1)[0].tolist() == [6, 3, 5, 2, 0, 0, 1]  # there is no key for the door


def test_boxes_are_pushed_and_lives_lost():
    env = GridWorldEnv(["@b.b#", "x.$.."], (1, 5), lives=2, trap_reward=-0.5, render_mode="ansi")
    env.reset()
    assert env.step(1)[1:3] == (0.0, False)
    env.step(1)  # two boxes
    assert env.render() == ".@bb#\nx.$..\nkeys: 0"
    env.step(2)
    assert env.step(3)[1:3] == (-0.5, False)
    assert env.render() == "..bb#\nx@$..\nkeys: 0"
    assert env.step(3)[1:3] == (-0.5, True)
    assert env.step(1)[1:3] == (0.0, True)


def test_toy_montezuma_is_solved_in_41_steps():
    env = GridWorldEnv()
    obs, _ = env.reset()
    assert obs[-3] == 1  # the room in the middle of the upper row
    assert shortest(env)[0] == 41


def test_a_ko_is_not_taken_back_at_once():
    env = GoGameEnv(4, render_mode="ansi")
    env.reset()
    for action in (1, 2, 4, 7, 9, 10, 6):
        env.step(action)
    obs, _, _, _, info = env.step(5)
    assert env.render() == ".xo.\nxo.o\n.xo.\n...."
    assert (info["action_mask"][6], obs[3].sum(), obs[3, 1, 2]) == (0, 1, 1)
    env.step(15)
    assert env.step(16)[4]["action_mask"][6] == 1
    assert env.step(6)[1] == 0.0
    assert env.render() == ".xo.\nx.xo\n.xo.\n...x"


def test_areas_are_counted_after_two_passes():
    # Black has the first column and that beside it alone, white the other two.
    for komi, rewards in ((0.0, (0.0, 0.0)), (0.5, (1.0, -1.0)), (-0.5, (-1.0, 1.0))):
        env = GoGameEnv(4, komi)
        env.reset()
        for row in range(4):
            env.step(4 * row + 1)
            env.step(4 * row + 2)
        state = env.get_state()
        env.step(16)
        assert env.step(16)[1:3] == (rewards[0], True)
        env.set_state(state)
        env.step(0)
        env.step(16)
        assert env.step(16)[1:3] == (rewards[1], True)


@pytest.mark.parametrize(
    ("map", "room", "message"),
    [
        (["@$", "."], None, "lines of one length"),
        (["@$?"], None, "of the signs"),
        (["@."], None, "a treasure"),
        (["@$."], (1, 2), "do not divide a map of 1 by 3"),
    ],
)
def test_wrong_maps_are_refused(map, room, message):  # noqa: A002
    with pytest.raises(errors.InvalidOption, match=message):
        GridWorldEnv(map, room)


@pytest.mark.parametrize(
    ("cls", "options", "named"),
    [
        (HexGameEnv, {"rows": 2.5}, "rows must be an integer; got 2.5"),
        (BitFlipEnv, {"n": "8"}, "n must be an integer >= 1; got '8'"),
        (BitFlipEnv, {"ordered": "no"}, "ordered must be True or False"),
        (BinPackingEnv, {"item_sizes": (2, 2.5)}, r"item_sizes\[1\] must be an integer"),
        (GoGameEnv, {"komi": "7.5"}, "komi must be a finite number"),
        (RubiksCubeEnv, {"n": None}, "n must be an integer >= 2; got None"),
    ],
)
def test_arguments_of_other_types_are_refused_by_name(cls, options, named):
    with pytest.raises(errors.InvalidOption, match=f"{cls.__name__}: {named}"):
        cls(**options)
