"""Small envs whose observations are of every kind that a space can nest."""

from __future__ import annotations

import functools
from typing import ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

UNIT = spaces.Box(-1.0, 1.0, (2,), np.float32)
#: Observation space by name of the kind.
SPACES = {
    "dict": spaces.Dict(place=spaces.Discrete(64), noise=UNIT),
    "tuple": spaces.Tuple((spaces.Discrete(64), UNIT, spaces.MultiBinary(3))),
    "nested": spaces.Dict(
        outer=spaces.Tuple((spaces.Dict(inner=UNIT, place=spaces.Discrete(64)), UNIT)),
        bits=spaces.MultiBinary(3),
    ),
    "text": spaces.Dict(words=spaces.Text(12, charset="place0123456789 "), noise=UNIT),
    "graph": spaces.Graph(node_space=UNIT, edge_space=spaces.Discrete(4)),
    "sequence": spaces.Sequence(UNIT),
    "stack": spaces.Dict(seen=spaces.Sequence(UNIT, stack=True), place=spaces.Discrete(64)),
}
KINDS = tuple(SPACES)


class Shown(gym.Env):
    """A walk on places 0 to 40, shown in one of many ways; its state is a place and a generator.

    Action 1 of two, or a push above 0, pays most and leads on; both endings occur: the
    walk terminates at 40 and is truncated where the place is 13 and 14.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, kind="dict", continuous=False, render_mode=None):
        self.observation_space = SPACES[kind]
        self.action_space = (
            spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        )
        self.kind, self.render_mode = kind, render_mode
        self.place, self.noise = 0, np.zeros(2, np.float32)

    def _seen(self):
        place, noise = self.place, self.noise.copy()
        bits = np.array([place >> k & 1 for k in range(3)], np.int8)
        row = np.full((place % 3, 2), place / 64, np.float32)
        if self.kind == "dict":
            return {"place": place, "noise": noise}
        if self.kind == "tuple":
            return place, noise, bits
        if self.kind == "nested":
            return {"outer": ({"inner": noise, "place": place}, -noise), "bits": bits}
        if self.kind == "text":
            return {"words": f"place {place}", "noise": noise}
        if self.kind == "graph":
            nodes = np.concatenate([noise[None], row])
            links = np.array([[0, k] for k in range(1, len(nodes))], np.int32).reshape(-1, 2)
            return spaces.GraphInstance(nodes, np.arange(len(links)) % 4, links)
        if self.kind == "sequence":
            return (noise, *row)
        return {"seen": np.concatenate([noise[None], row]), "place": place}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.place = int(self.np_random.integers(0, 3))
        self.noise = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._seen(), {"place": self.place}

    def step(self, action):
        push = int(np.asarray(action).ravel()[0] > 0)
        self.noise = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        self.place = min(40, self.place + 1 + 2 * push)
        cut = self.place in (13, 14)
        return (
            self._seen(),
            push + float(self.noise[0]),
            self.place == 40,
            cut,
            {"place": self.place},
        )

    def render(self):
        return np.full((32, 32, 3), 6 * self.place, np.uint8)


def make(kind, continuous=False):
    """Return a constructor of the env that can be sent to workers."""
    return functools.partial(Shown, kind, continuous)
