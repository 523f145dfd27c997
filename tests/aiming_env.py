"""A small task for every kind of action space: two actions, each as near as can be to a target."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (2,), np.float32)
#: The kinds of spaces that docs/planners.md has columns for.
KINDS = {
    "Discrete": spaces.Discrete(5, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 5, 5]),
    "MultiDiscrete, large": spaces.MultiDiscrete([6] * 6),
    "MultiBinary": spaces.MultiBinary(4),
    "Box": BOX,
    "Dict": spaces.Dict({"on": spaces.Discrete(2), "at": spaces.MultiDiscrete([3, 3])}),
    "Tuple": spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))),
    "hybrid": spaces.Dict({"gear": spaces.Discrete(3), "by": spaces.Tuple((BOX,))}),
}
#: Choices of each part, None for numbers; in the order of `parts_in`.
LENGTHS = {
    "Discrete": [5],
    "MultiDiscrete": [2, 5, 5],
    "MultiDiscrete, large": [6] * 6,
    "MultiBinary": [2] * 4,
    "Box": [None, None],
    "Dict": [3, 3, 2],
    "Tuple": [3, 2, 2],
    "hybrid": [None, None, 3],
}


def parts_in(space, action):
    """The numbers of an action, those of choices from 0."""
    if isinstance(space, spaces.Dict):
        return np.concatenate([parts_in(part, action[name]) for name, part in space.items()])
    if isinstance(space, spaces.Tuple):
        return np.concatenate([parts_in(*pair) for pair in zip(space, action, strict=True)])
    return np.ravel(np.asarray(action) - getattr(space, "start", 0)).astype(np.float64)


def all_actions(space):
    """Every action of a finite space, the last part changing fastest."""
    if isinstance(space, spaces.Dict):
        found = itertools.product(*map(all_actions, space.values()))
        return [dict(zip(space, parts, strict=True)) for parts in found]
    if isinstance(space, spaces.Tuple):
        return [*itertools.product(*map(all_actions, space))]
    if isinstance(space, spaces.Discrete):
        return [*range(int(space.start), int(space.start + space.n))]
    lengths = space.nvec if isinstance(space, spaces.MultiDiscrete) else [2] * space.n
    return [np.array(choices, space.dtype) for choices in itertools.product(*map(range, lengths))]


class Aiming(gymnasium.Env):
    """Pays 1 for an action on the target, less for others; the second target hangs on the first.

    With `masks`, the choice of each part that is on the target is illegal at the second step.
    """

    def __init__(self, kind, *, masks=False):
        self.kind, self.masks = kind, masks
        self.action_space = KINDS[kind]
        self.observation_space = spaces.Box(-10, 10, (3,), np.float64)
        self.scales = np.array([2.0 if n is None else n - 1.0 for n in LENGTHS[kind]])
        self.t, self.miss = 0, 0.0

    def target(self):
        """The numbers of the best action now."""
        late = self.t + (self.miss > 0.5)
        return np.array(
            [0.6 - 0.5 * late if n is None else (1 + late + k) % n for k, n in self.numbered()]
        )

    def numbered(self):
        return enumerate(LENGTHS[self.kind])

    def mask(self):
        columns = [np.ones(n, np.int8) for n in LENGTHS[self.kind] if n is not None]
        on_target = [int(x) for x, n in zip(self.target(), LENGTHS[self.kind], strict=True) if n]
        for column, best in zip(columns, on_target, strict=True):
            column[best] = self.t == 0
        return np.concatenate(columns)

    def told(self):
        obs = np.array([self.t, self.miss, 0.0])
        return obs, {"action_mask": self.mask()} if self.masks else {}

    def distance(self, action):
        """Mean distance of the parts of an action to the target, in [0, 1]."""
        off = np.abs(parts_in(self.action_space, action) - self.target()) / self.scales
        return float(np.mean(off))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.miss = 0, 0.0
        return self.told()

    def step(self, action):
        assert self.action_space.contains(action), action
        self.miss = self.distance(action)
        self.t += 1
        obs, info = self.told()
        return obs, 1.0 - self.miss, self.t == 2, False, info

    def get_state(self):
        return np.array([self.t, self.miss]).view(np.uint8)

    def set_state(self, state):
        self.t, self.miss = state.view(np.float64)
        self.t = int(self.t)
