"""Comparison of a translated env with its class, step by step and bit for bit.

The class is played, and each of its steps and resets is one row of a batch: it begins in the state
that the class was in, and has to end in the state that the class came to.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import KernelDiffers, NoKernel
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.kernel_env import KernelEnv
from plangym_ext.native.translate.record import put_shown, whole_record

_BATCH = 1000
#: Kinds of rows.
_STEP, _RESET, _SEEDED = 0, 1, 2
_KINDS = ("a step", "a reset", "a reset by a seed")


class _Played:
    """Steps of the class itself, as rows of a batch."""

    def __init__(self, env: KernelEnv, program: Any) -> None:
        kernel, (dtype, shape) = env.kernel, program.obs
        action = env.layout.action.leaves[0]
        self.actions = np.zeros((_BATCH, *action.shape), action.dtype)
        self.kinds = np.zeros(_BATCH, np.int64)
        self.before = np.zeros(_BATCH, kernel.state)
        self.after = np.zeros(_BATCH, kernel.state)
        self.obs = np.zeros((_BATCH, *shape), dtype)
        self.rewards = np.zeros(_BATCH)
        self.over = np.zeros((_BATCH, 2), np.bool_)
        self.infos: list[dict[str, Any]] = [{}] * _BATCH


class _Reference:
    """An env of the class itself, and a random player of it."""

    def __init__(self, cls: type, kwargs: dict[str, Any], program: Any, dtype: Any) -> None:
        self.env: Any = cls(**kwargs)
        self._program = program
        self._space = copy.deepcopy(self.env.action_space)
        self._space.seed(1)
        self._random = np.random.default_rng(1)
        self._over, self._seeds = False, 0
        self._row = np.zeros(1, dtype)
        self._show(*self.env.reset(seed=0))

    def _show(self, obs: Any, info: Any = None) -> None:
        if info is not None:
            self._row = np.zeros(1, self._row.dtype)
        put_shown(self._program, self._row[0], obs, info)
        self._row = whole_record(self._program, self.env, self._row)

    def play(self, k: int, played: _Played) -> None:
        """Take a step or a reset, which becomes row k."""
        action = played.actions[k] = self._space.sample()
        played.before[k] = self._row[0]
        # Steps past an episode's end are compared too.
        if (self._over and self._random.random() < 0.9) or self._random.random() < 0.005:
            obs, info = self._reset(k, played)
            self._over = False
            self._show(obs, info)
        else:
            if self._space.shape == () and k % 2:
                action = int(action)  # it may be numpy's number, or Python's
            obs, reward, terminated, truncated, info = self.env.step(action)
            played.kinds[k], played.rewards[k] = _STEP, reward
            played.over[k] = terminated, truncated
            self._over = terminated or truncated
            self._show(obs)
        played.after[k], played.obs[k], played.infos[k] = self._row[0], obs, info

    def _reset(self, k: int, played: _Played) -> Any:
        played.kinds[k] = _RESET
        played.rewards[k], played.over[k] = 0.0, False
        if not self._program.draws or self._random.random() < 0.5:
            return self.env.reset()
        self._seeds += 1
        played.kinds[k] = _SEEDED
        played.before["rng"][k] = pcg64.record_of(np.random.default_rng(self._seeds))
        return self.env.reset(seed=self._seeds)


def compared(made: type, cls: type, kwargs: dict[str, Any], steps: int) -> None:
    """Compare a class with what was compiled of it, in so many steps and resets at least.

    Raises:
        KernelDiffers: they are not equal; the message says where.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of steps past an episode's end
        with KernelEnv(GymEnv(lambda: made(**kwargs), check=False)) as env:
            try:
                env.warm_up()
            except Exception as error:
                if not type(error).__module__.startswith("numba."):
                    raise
                text = str(error).strip().partition("\n")[0]
                raise NoKernel(f"{cls.__qualname__}: the compiler refuses it: {text}") from error
            if env.reset_columns is None:
                raise KernelDiffers(f"{cls.__qualname__}: a compiled reset is not the env's.")
            program: Any = env.plan_env.gym_env.unwrapped._program  # type: ignore[attr-defined]
            reference = _Reference(cls, kwargs, program, env.kernel.state)
            for done in range(0, steps, _BATCH):
                played = _Played(env, program)
                for k in range(_BATCH):
                    reference.play(k, played)
                difference = _difference(env, played)
                if difference:
                    raise KernelDiffers(f"{cls.__qualname__}: {difference} (steps from {done})")


def _difference(env: KernelEnv, played: _Played) -> str:
    """Return the first difference of a batch; "" without any."""
    memory = env._memory
    rows = np.zeros((_BATCH, memory.width), np.uint8)
    memory.views(rows)[1][...] = played.before
    found = env.step_live(played.actions, env.sealed(rows), played.kinds > 0, whole=False)
    if found is None:
        return (
            "the translation gives up where the env goes on: at an int beyond 2**53, an index out "
            "of range, a division by zero or a number that is infinite or not one"
        )
    pairs = [
        ("observation", played.obs.reshape(_BATCH, -1), found.obs[0].reshape(_BATCH, -1)),
        ("reward", played.rewards, found.rewards),
        ("flags", played.over, np.stack([found.terminated, found.truncated], axis=1)),
    ]
    states = memory.views(found.states)[1]
    pairs += [(name, played.after[name], states[name]) for name in states.dtype.names or ()]
    pairs += _info_pairs(env, played, found.infos)
    return min(filter(None, (_first(played, *pair) for pair in pairs)), default=(0, ""))[1]


def _info_pairs(env: KernelEnv, played: _Played, infos: Any) -> list[Any]:
    """Return names and columns of infos, the env's and the translation's."""
    info, pairs = env.kernel.info, []
    for name in (info.names or ()) if info is not None else ():
        mine = np.zeros(_BATCH, info[name])  # type: ignore[index]
        theirs = np.array(infos[name])
        for k, said in enumerate(played.infos):
            if name in said:
                mine[k] = said[name]
            else:
                theirs[k] = 0
        pairs.append((f"info {name}", mine, theirs))
    return pairs


def _first(played: _Played, name: str, want: Any, got: Any) -> tuple[int, str] | None:
    """Return the first row in which two columns differ, and a text; None: none does."""
    a, b = (np.ascontiguousarray(one).view(np.uint8).reshape(_BATCH, -1) for one in (want, got))
    places = np.flatnonzero((a != b).any(axis=1)) if a.shape == b.shape else np.zeros(1, int)
    if not places.size:
        return None
    k = int(places[0])
    return k, (
        f"{name} differs after {_KINDS[played.kinds[k]]} with the action {played.actions[k]}: "
        f"the env has {want[k]!r}, its translation {got[k]!r}"
    )
