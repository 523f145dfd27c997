"""How and when the states of the rows of one process are captured, found without touching them.

What is to be learned of an env is learned from a twin: one more env from the same constructor,
which is reset, stepped and closed. The rows' own envs are left as their constructors made them.
"""

from __future__ import annotations

import contextlib
import gc
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.gym_env import made_env
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.states.codec import layers
from plangym_ext.states.late_state import Binding, LateState, binding_of

RowState = LateState | IncompleteState


class ProvedRow(NamedTuple):
    """What was learned of a row's env, as plain data: it serves the next process, too.

    Attributes:
        kind: id and classes of the env, by name.
        found: how its state is captured, or why it cannot be.
    """

    kind: tuple[str, ...]
    found: Binding | str

    def state_of(self, env: gym.Env[Any, Any], *, trust: bool) -> RowState:
        """Return how the state of an env of that kind is captured, or why it cannot be."""
        if isinstance(self.found, str):
            return IncompleteState(self.found)
        return LateState(env, self.found, trusted=trust)


#: Calls after which states are captured, and bytes of states that one call more may cost:
#: large states are captured less often.
_CALLS, _BYTES_PER_CALL = 64, 1024
#: Seconds of env time that may have to be played again: at least, and at most.
_LEAST, _MOST = 0.1, 1.0
#: Of the time that envs take, capturing takes at most a fiftieth, if that bound allows it;
#: at most a tenth in any case.
_CHEAP, _DEAR = 50, 10


def proved_rows(
    makes: Sequence[Callable[[], Any]],
    envs: Sequence[gym.Env[Any, Any]],
    *,
    state: str,
    check: bool,
    trust: bool,
    earlier: Sequence[ProvedRow] = (),
) -> list[ProvedRow]:
    """Return how each row's state is captured, or why it cannot be.

    One twin is made for all envs of one kind: of the same spec and classes.

    Args:
        makes: constructor of each row's env.
        envs: what they have made, all of it.
        state: as for `GymEnv`.
        check: as for `GymEnv`.
        trust: as for `GymEnv`.
        earlier: what a process before this one has learned of each row: of such an env it holds.
    """
    known: dict[Any, Binding | IncompleteState] = {}
    found: list[ProvedRow] = []
    for row, (make, env) in enumerate(zip(makes, envs, strict=True)):
        by_name = _kind_by_name(env)
        # To prove it anew may take longer than the call for which a process was replaced.
        if earlier and earlier[row].kind == by_name:
            found.append(earlier[row])
            continue
        # Constructors that differ in what they enclose mostly make envs of one kind.
        kind = (str(env.spec), *(type(layer) for layer in layers(env)))
        if kind not in known:
            with _unseen():
                known[kind] = _binding(make, envs, state, check, trust)
        binding = known[kind]
        found.append(ProvedRow(by_name, binding if isinstance(binding, Binding) else str(binding)))
    return found


def _kind_by_name(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    classes = (f"{type(layer).__module__}.{type(layer).__qualname__}" for layer in layers(env))
    return (env.spec.id if env.spec else "", *classes)


def _binding(
    make: Callable[[], Any],
    envs: Sequence[gym.Env[Any, Any]],
    state: str,
    check: bool,
    trust: bool,
) -> Binding | IncompleteState:
    """Return what a twin shows; whatever it raises, its kind is played without states."""
    try:
        twin, is_new = _twin(make)
        if not is_new or _shares_a_layer(twin, envs):
            return IncompleteState(
                "its state cannot be captured: its constructor returns an env that existed "
                "before, so there is no twin to try it on. Let the constructor make a new env."
            )
        try:
            return _proved(twin, state, check, trust)
        finally:
            twin.close()
    except IncompleteState as error:
        return error
    except (Exception, SystemExit) as error:  # whatever a constructor or a probed env raises
        return IncompleteState(
            f"its state cannot be captured: a twin that was made to try it raised "
            f"{type(error).__name__}: {error}"
        )


def _proved(twin: gym.Env[Any, Any], state: str, check: bool, trust: bool) -> Binding:
    try:
        SpaceLayout(twin.observation_space, objects=True)  # what the proof compares
    except TypeError as error:
        raise IncompleteState(f"its state cannot be captured: {error}") from error
    return binding_of(twin, state, check=check, trusted=trust)


def _twin(make: Callable[[], Any]) -> tuple[gym.Env[Any, Any], bool]:
    """Return one more env, and whether all of it was made now."""
    # What is made while nothing is collected is among the youngest objects.
    collects = gc.isenabled()
    gc.collect(0)
    gc.disable()
    try:
        twin = made_env(make)
        young = set(map(id, gc.get_objects(generation=0)))
    finally:
        if collects:
            gc.enable()
    return twin, all(id(layer) in young for layer in layers(twin))


def _shares_a_layer(twin: gym.Env[Any, Any], envs: Sequence[gym.Env[Any, Any]]) -> bool:
    known = {id(layer) for env in envs for layer in layers(env)}
    return any(id(layer) in known for layer in layers(twin))


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Leave the process's random generators as they were: a twin may draw from them."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - envs use it
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def check_distinct(envs: Sequence[gym.Env[Any, Any]], first: int) -> None:
    """Refuse rows whose envs are, or wrap, one and the same instance.

    Args:
        envs: of the rows.
        first: number of the first row, for messages.

    Raises:
        InvalidOption: two rows share an instance.
    """
    owners: dict[int, int] = {}
    for row, env in enumerate(envs, first):
        for layer in layers(env):
            owner = owners.setdefault(id(layer), row)
            if owner != row:
                raise InvalidOption(
                    f"make_vec: the constructors of sub-envs {owner} and {row} return the same "
                    f"{type(layer).__qualname__} instance, so that each would step the other's "
                    "env. Let each constructor make an env of its own: `lambda: MyEnv()`."
                )


class CapturePace:
    """Measures what steps and captures cost."""

    def __init__(self) -> None:
        self._calls, self._seconds = 0.0, 0.0
        self._longest, self._bound = _CALLS, _LEAST

    def note(self, seconds: float, share: float) -> bool:
        """Note a call of a share of the rows; whether states should be captured now."""
        self._calls += share
        self._seconds += seconds
        return self._calls >= self._longest or self._seconds >= self._bound

    def captured(self, seconds: float, nbytes: int) -> None:
        """Note that states of some bytes were captured, which took some seconds."""
        self._calls, self._seconds = 0.0, 0.0
        self._longest = max(_CALLS, nbytes // _BYTES_PER_CALL)
        self._bound = max(_LEAST, min(_MOST, _CHEAP * seconds), _DEAR * seconds)
