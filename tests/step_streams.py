"""Streams of steps whose every number says what it is, cut into the trees of a sampler."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from plangym_ext.arrays import Array, ArrayDict

#: What a step may be: played on, ended in either way, or not played after an end.
GOES_ON, TERMINATES, TRUNCATES = range(3)


def array(values, dtype, padding=0):
    """Return an `Array` of `[T, B, ...]` values, the last `padding` rows in its padding."""
    values = np.asarray(values, dtype)
    shape = (len(values) - padding, values.shape[1])
    made = Array(shape, dtype, feature_shape=values.shape[2:], padding=padding)
    made[0 : len(values)] = values
    return made


@dataclass
class Step:
    """One step, as an env would tell it."""

    obs: float
    action: int
    reward: float
    terminated: bool
    truncated: bool
    following: float  # what was seen after it; of an episode that ended, its last observation
    valid: bool = True
    first: bool = False


@dataclass
class Stream:
    """The steps of one env: every observation and reward occurs once.

    Args:
        env: its number.
        ends: what each step does, cyclically.
    """

    env: int
    ends: list[int]
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self):
        self._seen = 1000.0 * self.env
        self._first = True

    def _new(self):
        self._seen += 1
        return self._seen

    @property
    def shown(self):
        """What is seen now."""
        return self._seen

    @property
    def first(self):
        return self._first

    def play(self):
        """Play one step."""
        end = self.ends[len(self.steps) % len(self.ends)]
        obs, first = self._seen, self._first
        following = self._new()
        if end != GOES_ON:
            self._new()
        self._first = end != GOES_ON
        number = len(self.steps)
        self.steps.append(
            Step(
                obs,
                number % 5,
                1.0 + self.env + number / 8,
                end == TERMINATES,
                end == TRUNCATES,
                following,
                first=first,
            )
        )
        return self.steps[-1]

    def wait(self):
        """Stand still for a step, as after an end until the fragment is over."""
        self.steps.append(Step(0.0, 0, 0.0, False, False, 0.0, valid=False))
        return self.steps[-1]


def fragment(streams, num_steps, *, waits=False, shape=(2,), dtype=np.float32):
    """Play T steps of all streams; return their tree.

    Args:
        streams: one per env.
        num_steps: T.
        waits: whether an env stands still after an end, until the fragment is over.
        shape: of an observation, which repeats its number.
        dtype: of observations.
    """
    rows, ended = [], [False] * len(streams)
    for _ in range(num_steps):
        row = []
        for i, stream in enumerate(streams):
            row.append(stream.wait() if waits and ended[i] else stream.play())
            ended[i] = ended[i] or row[-1].terminated or row[-1].truncated
        rows.append(row)
    told = {
        name: [[getattr(step, name) for step in row] for row in rows]
        for name in ("obs", "action", "reward", "terminated", "truncated", "valid", "first")
    }
    last = [stream.shown for stream in streams]
    final = [
        [step.following if step.terminated or step.truncated else -1.0 for step in row]
        for row in rows
    ]

    def pictures(numbers):
        wide = np.asarray(numbers, dtype).reshape(*np.shape(numbers), *(1 for _ in shape))
        return np.broadcast_to(wide, (*np.shape(numbers), *shape))

    return ArrayDict(
        {
            "obs": array(pictures([*told["obs"], last]), dtype, 1),
            "action": array(told["action"], np.int64),
            "reward": array(told["reward"], np.float32),
            "terminated": array(told["terminated"], bool),
            "truncated": array(told["truncated"], bool),
            "final_obs": array(pictures(final), dtype),
            "first": array([*told["first"], [stream.first for stream in streams]], bool, 1),
            "valid": array(told["valid"], bool),
        }
    )
