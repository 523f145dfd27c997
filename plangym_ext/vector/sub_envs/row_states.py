"""Choice of the capture method of a process's rows, and of the steps between two captures.

Methods are tried on copies of the rows' envs (see `states.trials.choice`), so the envs stay as
their constructors made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.states.codec import layers
from plangym_ext.states.envelope import fingerprint
from plangym_ext.states.layer_attributes import Binding
from plangym_ext.states.live_state import LiveState
from plangym_ext.states.trials.choice import prove
from plangym_ext.vector.results import VectorResetNeeded

RowState = LiveState | IncompleteState


class ProvedRow(NamedTuple):
    """Proved capture method of a row's env as plain data, also for the next process.

    Attributes:
        kind: id and classes of the env, by name.
        found: how its state is captured, or why it cannot be.
        arguments: fingerprint of the arguments in the env's spec.
    """

    kind: tuple[str, ...]
    found: Binding | str
    arguments: bytes = b""

    @property
    def captures(self) -> bool:
        """Whether the states of the row can be captured."""
        return isinstance(self.found, Binding)

    @property
    def note(self) -> str:
        """Remark on the row's states for users; "" for none."""
        return self.found if isinstance(self.found, str) else self.found.note

    def state_of(self, env: gym.Env[Any, Any], *, trust: bool) -> RowState:
        """Return how the state of an env of that kind is captured, or why it cannot be."""
        if isinstance(self.found, str):
            return IncompleteState(self.found)
        return LiveState(env, self.found, trusted=trust)


#: Calls after which states are captured, and bytes of states that one call more may cost:
#: large states are captured less often.
_CALLS, _BYTES_PER_CALL = 64, 1024
#: Seconds of env time that may have to be played again: at least, and at most.
_LEAST, _MOST = 0.1, 1.0
#: Of the time that envs take, capturing takes at most a fiftieth, if that bound allows it;
#: at most a tenth in any case.
_CHEAP, _DEAR = 50, 10


def proved_rows(
    envs: Sequence[gym.Env[Any, Any]],
    *,
    capture: str,
    check: bool | float,
    trust: bool,
    earlier: Sequence[ProvedRow] = (),
) -> list[ProvedRow]:
    """Return each row's capture method, or why it has none.

    Args:
        envs: of the rows.
        capture: as for `GymEnv`.
        check: as for `GymEnv`.
        trust: as for `GymEnv`.
        earlier: what a process before this one has learned of each row: of such an env it holds.
    """
    #: One env stands for all of the same spec and classes, whatever their constructors enclose.
    known: dict[Any, Binding | IncompleteState] = {}
    found: list[ProvedRow] = []
    for row, env in enumerate(envs):
        by_name = _kind_by_name(env)
        # To prove it anew may take longer than the call for which a process was replaced.
        if earlier and earlier[row].kind == by_name:
            found.append(earlier[row])
            continue
        kind = (str(env.spec), *(type(layer) for layer in layers(env)))
        if kind not in known:
            known[kind] = _proved(env, capture, check=check, trust=trust)
        binding = known[kind]
        shown = binding if isinstance(binding, Binding) else str(binding)
        arguments = fingerprint({"arguments": env.spec.kwargs if env.spec else {}})
        found.append(ProvedRow(by_name, shown, arguments))
    return found


def agreed(told: Iterable[ProvedRow]) -> list[ProvedRow]:
    """Return all rows of a vector env; equal envs get the capture method of the first.

    Each process has chosen by times that it measured, and states of one way fit no env that takes
    another.
    """
    first: dict[Any, Binding] = {}
    found: list[ProvedRow] = []
    for row in told:
        if isinstance(row.found, Binding):
            one = first.setdefault((row.kind, row.arguments), row.found)
            if one.method != row.found.method:
                row = row._replace(found=one)
        found.append(row)
    return found


def _kind_by_name(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    classes = (f"{type(layer).__module__}.{type(layer).__qualname__}" for layer in layers(env))
    return (env.spec.id if env.spec else "", *classes)


def _proved(
    env: gym.Env[Any, Any], capture: str, *, check: bool | float, trust: bool
) -> Binding | IncompleteState:
    """Return how states are captured; whatever a trial raises, the env is played without them."""
    try:
        SpaceLayout(env.observation_space, objects=True)  # what the proof compares
        return prove(env, capture, check=check, trusted=trust)
    except IncompleteState as error:
        return error
    except TypeError as error:
        return IncompleteState(f"its state cannot be captured: {error}")
    except (Exception, SystemExit) as error:
        return IncompleteState(
            f"its state cannot be captured: the trial on a copy of the env raised "
            f"{type(error).__name__}: {error}"
        )


def check_distinct(envs: Sequence[gym.Env[Any, Any]], first: int) -> None:
    """Refuse rows that share, or wrap, one env instance.

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
    """Measures the costs of steps and captures, and decides when to capture."""

    def __init__(self) -> None:
        self._calls, self._seconds = 0.0, 0.0
        self._longest, self._bound = _CALLS, _LEAST

    def note(self, seconds: float, share: float) -> bool:
        """Note a call of a share of the rows; return whether to capture states now."""
        self._calls += share
        self._seconds += seconds
        return self._calls >= self._longest or self._seconds >= self._bound

    def captured(self, seconds: float, nbytes: int) -> None:
        """Note that states of some bytes were captured, which took some seconds."""
        self._calls, self._seconds = 0.0, 0.0
        self._longest = max(_CALLS, nbytes // _BYTES_PER_CALL)
        self._bound = max(_LEAST, min(_MOST, _CHEAP * seconds), _DEAR * seconds)


# StepsAhead -------------------------------------------------------------------
# Envs may allow that, as gymnasium's vector envs do. Where such a row is has no state to bring it
# back to: it is what the constructor made, and the steps since. So these are played again in a new
# process; in one whose envs have been stepped there is no way back.


#: Steps after which they are not kept any longer to be played again.
_MOST_STEPS = 10_000


class StepsAhead:
    """Remembers which rows were stepped though they were never reset.

    Args:
        first: number of the process's first row in the vector env.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._rows: frozenset[int] = frozenset()
        #: The same before the last call that stepped some.
        self._before = self._rows
        self._steps = 0

    def note(self, rows: Sequence[int], resets: Sequence[bool], fresh: Sequence[bool]) -> None:
        """Note rows that are about to be stepped.

        Args:
            rows: which are moved.
            resets: whether a row is reset instead.
            fresh: of all rows of the process: whether it was never reset.
        """
        moved = zip(rows, resets, strict=True)
        ahead = [row for row, reset in moved if fresh[row] and not reset]
        self._before = self._rows
        if ahead:
            self._rows = self._rows.union(ahead)
            self._steps += 1

    def note_error(
        self, error: BaseException, env: gym.Env[Any, Any], unmoved: Sequence[int]
    ) -> None:
        """Forget rows that did not move, if the error is the refusal of `OrderEnforcing`.

        Args:
            error: what the env has raised.
            env: of the first of `unmoved`.
            unmoved: rows that were not moved in this call if so.
        """
        if isinstance(error, gym.error.ResetNeeded) and any(
            isinstance(layer, gym.wrappers.OrderEnforcing) and not layer.has_reset
            for layer in layers(env)
        ):
            self._rows -= frozenset(unmoved) - self._before

    def open(self, fresh: Sequence[bool]) -> bool:
        """Return whether a row was stepped and is not reset yet; `fresh` as for `note`."""
        return any(fresh[row] for row in self._rows)

    @property
    def too_many(self) -> bool:
        """Whether there were more steps than the record holds."""
        return self._steps > _MOST_STEPS

    def check_back(self, states: Sequence[np.ndarray | None]) -> None:
        """Check that rows can be set back to states, None for never reset.

        Raises:
            ResetNeeded: such a row is not what its constructor made any more.
        """
        moved = [self._first + row for row in sorted(self._rows) if states[row] is None]
        if moved:
            raise VectorResetNeeded(
                f"sub-envs {moved} were stepped before their first reset, so they cannot be "
                "restored after a failed call. Reset all of them."
            )
