"""Montezuma's Revenge: what its infos say while a found way is played."""

import itertools
import re

import numpy as np
import pytest

import plangym_ext

pytestmark = pytest.mark.slow

NAME = "ALE/MontezumaRevenge-v5"
#: Found by random search: to the key, through a door and down to a sword. A letter is
#: an action ("a" is the no-op), a number how often.
WAY = (
    "q8e13nc3q2n6e2n4r5i3e5rk6a3r11o2j8f10qi14a2l9e13j3em4k9p3a13r2kc6r3i5g3k12e3f18p10l2"
    "d2f8q5e3q4fc9a8i4gb5co3qbc9o10n2h3o2j2kc6i2e14k13q3h6rqlm4a10k3g9hj6gn3i4m8c25k2p2od"
    "qi4d3q5o6q6r2q4p4o13l3f2d10e10rj5p3n6q13n2d2f7n17m3h6c4pi5b3q4m2c6f5r3"
)
FIELDS = ("room", "score", "keys", "swords", "torch", "mallet", "rooms_visited", "lives", "level")


def actions():
    found = re.findall(r"([a-r])(\d*)", WAY)
    return list(itertools.chain(*([ord(a) - ord("a")] * int(n or 1) for a, n in found)))


@pytest.fixture(scope="module")
def env():
    # Without sticky frames the way is the same in every game.
    arguments = {"obs_type": "ram", "repeat_action_probability": 0.0}
    # Serial: workers that a batch starts would outlive the test, in the eyes of the check.
    with plangym_ext.make(NAME, backend="serial", **arguments) as env:
        yield env


def test_rooms_score_and_things_carried(env):
    env.reset(seed=0)
    total, changes, last = 0.0, [], None
    for t, action in enumerate(actions()):
        step = env.step(action)
        total += step.reward
        assert step.info["score"] == total
        now = tuple(step.info[field] for field in FIELDS)
        if now != last:
            changes.append((t, *now))
            last = now
    assert changes == [
        (0, 1, 0, 0, 0, 0, 0, 1, 6, 0),
        (219, 1, 100, 1, 0, 0, 0, 1, 6, 0),  # the key
        (455, 1, 400, 0, 0, 0, 0, 1, 6, 0),  # opens a door
        (461, 2, 400, 0, 0, 0, 0, 2, 6, 0),
        (560, 6, 400, 0, 0, 0, 0, 3, 6, 0),  # down the ladder
        (612, 6, 500, 0, 1, 0, 0, 3, 6, 0),  # the sword
    ]


def test_position_follows_the_player(env):
    env.reset(seed=0)
    still, right = env.step(0, dt=8).info, env.step(3, dt=3).info
    assert (still["room"], still["x"]) == (1, 77)
    assert right["x"] > still["x"]
    assert right["y"] == still["y"]


def test_rooms_visited_belong_to_the_state(env):
    env.reset(seed=0)
    start, way = env.get_state(), actions()
    for action in way[:470]:
        env.step(action)
    later = env.get_state()
    infos = env.step_batch([0, 0], [start, later]).infos
    assert infos["rooms_visited"].tolist() == [1, 2]
    assert infos["room"].tolist() == [1, 2]
    assert infos["score"].dtype == np.int64
    assert env.reset(seed=0)[2]["rooms_visited"] == 1


def test_infos_can_be_left_out_and_are_of_this_game_alone():
    with plangym_ext.make(NAME, obs_type="ram", montezuma=False) as env:
        assert "room" not in env.reset(seed=0)[2]
    with pytest.raises(ValueError, match="montezuma=True is for ALE/MontezumaRevenge-v5; got 'po"):
        plangym_ext.make("ALE/Pong-v5", montezuma=True)
