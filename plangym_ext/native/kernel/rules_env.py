"""RulesEnv: a gymnasium env made of a kernel, so that its rules are written once."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import DamagedState, InvalidAction, InvalidOption, ResetNeeded
from plangym_ext.native.kernel.known import register_kernel
from plangym_ext.native.kernel.row_kernel import Kernel, silent
from plangym_ext.states.randomness.rng import GeneratorBytes

#: What a subclass may not replace: its kernel would then have other rules than the env.
_RULES = ("reset", "step", "get_state", "set_state")


class RulesEnv(gym.Env[Any, Any]):
    """A gymnasium env made of a kernel: `reset` and `step` call its functions as plain Python.

    `make` and `make_vec` run batches of it in the compiled kernel, without a registration. States
    are the bytes of the kernel's state. A field `rng` of type `pcg64.RNG` in it is `np_random`.

    A subclass makes the kernel and the spaces of its arguments, and may draw a text (`text`).

    Args:
        kernel: the rules. If it has a `reset_info`, that writes every field of `info`.
        observation_space: a Box, Discrete, MultiDiscrete or MultiBinary; `observe` fills an array
            of it.
        action_space: a Discrete that starts at 0, or a Box.
        render_mode: None or "ansi".

    Attributes:
        kernel: the rules.
        state: the record, or the `[n]` uint8 array, that the rules move: a view.

    Raises:
        InvalidOption: there is no such render mode, or an argument is not of its annotated type.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as in gymnasium.Env

    @checking_arguments
    def __init__(
        self,
        kernel: Kernel,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise InvalidOption(
                f"{type(self).__name__}: render_mode must be None or 'ansi'; got {render_mode!r}."
            )
        self.kernel, self.render_mode = kernel, render_mode
        self._rules = kernel.functions()
        self.observation_space, self.action_space = observation_space, action_space
        # An array, and no view of it: a copy of the env would have to share the view's memory.
        self._row = np.zeros(1, kernel.state)
        fields: Any = kernel.state.fields or {}
        self._rng_at = fields["rng"][1] if "rng" in fields else None
        self._generator = GeneratorBytes()
        self._begun = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = checking_arguments(cls.__init__)  # type: ignore[method-assign]
        if all(getattr(cls, name) is getattr(RulesEnv, name) for name in _RULES):
            register_kernel(cls, operator.attrgetter("kernel"))

    @property
    def state(self) -> Any:
        """The record, or the `[n]` uint8 array, that the rules move; a view."""
        return self._row[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode by the kernel's `reset`; no options are used.

        Returns:
            The observation, fresh, and the infos of `reset_info`.
        """
        super().reset(seed=seed, options=options)
        self._run(self._rules[1])
        self._begun = True
        return self._observe(), self.infos()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step by the kernel's `step`.

        Returns:
            Observation, reward, terminated, truncated, infos; arrays are fresh.

        Raises:
            InvalidAction: the action is not in the action space.
            ResetNeeded: before the first reset.
        """
        action = self._checked(action)
        self._check_begun("step")
        info = self._new_info()
        reward, terminated, truncated = self._run(self._rules[0], action, info)
        infos = {} if info is None else _dict_of(info)
        return self._observe(), float(reward), bool(terminated), bool(truncated), infos

    def infos(self) -> dict[str, Any]:
        """Return the infos of the state, as a reset to it would; {} without a `reset_info`."""
        reset_info = self._rules[4]
        if reset_info is silent:
            return {}
        info = self._new_info()
        reset_info(self.state, self.kernel.params, info)
        return _dict_of(info)

    def render(self) -> Any:
        """Return `text()`; None without a render mode."""
        if self.render_mode is None:
            gym.logger.warn(f"{type(self).__name__}.render: no render_mode was given.")
            return None
        self._check_begun("render")
        return self.text()

    def text(self) -> str:
        """Return the state as a text; a subclass draws it."""
        return str(self.state)

    def get_state(self) -> NDArray[np.uint8]:
        """Return the state's bytes, `[S]` uint8, fresh.

        Raises:
            ResetNeeded: before the first reset.
            IncompleteState: `np_random` was replaced by one that is not over PCG64.
        """
        self._check_begun("get_state")
        self._take_generator()
        return self._bytes().copy()

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from `state`, `[S]` uint8 from `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or no state of this env; nothing is changed.
        """
        where = f"{type(self).__name__}.set_state"
        row = check_row(where, state, self._row.nbytes)
        if self._rng_at is not None:
            self._generator.check(self.np_random, row[self._rng_at :].tobytes(), where)
        candidate = row.view(self.kernel.state).reshape(-1)[0] if self._row.dtype.names else row
        if not self._rules[3](candidate, self.kernel.params):
            raise DamagedState(
                f"{where}: the kernel's check refuses {candidate}. Pass a row from get_state of "
                "an env made with the same arguments."
            )
        self._bytes()[:] = row
        self._begun = True
        self._give_generator()

    def _run(self, rule: Any, *arguments: Any) -> Any:
        """Call a rule that moves the state, and `np_random` with it."""
        if self._rng_at is None:
            return rule(self.state, self.kernel.params, *arguments)
        self._take_generator()
        with np.errstate(over="ignore"):  # generators multiply beyond 64 bits
            result = rule(self.state, self.kernel.params, *arguments)
        self._give_generator()
        return result

    def _take_generator(self) -> None:
        if self._rng_at is not None:
            self._generator.capture(self.np_random, self._bytes().data, self._rng_at)

    def _give_generator(self) -> None:
        if self._rng_at is not None:
            self._generator.restore(self.np_random, self._bytes().data, self._rng_at)

    def _bytes(self) -> NDArray[np.uint8]:
        return self._row.reshape(-1).view(np.uint8)

    def _observe(self) -> Any:
        space = self.observation_space
        shape = space.shape or (1,)
        obs = np.zeros(shape, space.dtype)
        self._rules[2](self.state, self.kernel.params, obs)
        return int(obs[0]) if isinstance(space, spaces.Discrete) else obs

    def _new_info(self) -> Any:
        return None if self.kernel.info is None else np.zeros(1, self.kernel.info)[0]

    def _checked(self, action: Any) -> Any:
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return check_action(f"{type(self).__name__}.step", action, int(space.n))
        array = np.asarray(action, space.dtype)
        if not space.contains(array):
            raise InvalidAction(
                f"{type(self).__name__}.step: expected an action of {space}; got {action!r}."
            )
        return array

    def _check_begun(self, where: str) -> None:
        if not self._begun:
            name = type(self).__name__
            raise ResetNeeded(f"{name}.{where}: {name} has no state yet; call reset() first.")


def check_action(where: str, action: SupportsIndex, count: int) -> int:
    """Return `action` as an int in [0, count).

    Raises:
        InvalidAction: it is no integer, or out of range; `where` begins the message.
    """
    try:
        # Not `int`, which would take 1.7 for 1; numpy's integers have an index, too.
        index = operator.index(action)
    except TypeError:
        index = -1
    if not 0 <= index < count:
        raise InvalidAction(f"{where}: expected an integer action in [0, {count}); got {action!r}.")
    return index


def check_row(where: str, state: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return a copy of a `[width]` uint8 state.

    Raises:
        DamagedState: wrong shape or dtype; `where` begins the message.
    """
    row = np.asarray(state)
    if row.shape != (width,) or row.dtype != np.uint8:
        raise DamagedState(
            f"{where}: expected [{width}] uint8; got {list(row.shape)} {row.dtype}. "
            "Pass a row from get_state of an env made with the same arguments."
        )
    return row.copy()


def _dict_of(info: Any) -> dict[str, Any]:
    """Return the fields of an info record: Python's numbers, and fresh arrays."""
    values = ((name, info[name]) for name in info.dtype.names)
    return {
        name: value.copy() if value.ndim else value.item() if value.itemsize == 8 else value
        for name, value in values
    }
