"""PlanEnv: plangym's step as a sequence of hooks, and its batches as lists."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.errors import InvalidOption, ResetNeeded

#: Steps rows: actions, states and dts to `(states, obs, rewards, terminals, truncateds, infos)`.
RunRows = Callable[[list[Any], list[Any], list[int]], tuple[list[Any], ...]]


class PlanEnv(Closing, ABC):
    """Base class with plangym's step as a sequence of hooks; subclasses define the env.

    A subclass defines `get_state`, `set_state`, `apply_action` and `apply_reset`, and may
    override any `process_*`. Pickled, an env takes its settings and its state along, and is built
    again at first use.

    Args:
        name: of the env.
        frameskip: times that `apply_action` is called for one `dt`.
        autoreset: whether an env that ended is reset, unless the step was given a state.
        delay_setup: leave `setup` to the first use, or to the process that the env is sent to.
        return_image: put a picture into every info, as "rgb".
    """

    STATE_IS_ARRAY = True
    OBS_IS_ARRAY = True
    SINGLETON = False

    _given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note the arguments, for `clone`."""
        self = super().__new__(cls)
        self._given = args, kwargs
        return self

    def __init__(
        self,
        name: str,
        frameskip: int = 1,
        autoreset: bool = True,
        delay_setup: bool = False,
        return_image: bool = False,
    ) -> None:
        self._name, self.frameskip, self.autoreset = name, frameskip, autoreset
        self.delay_setup, self._return_image = delay_setup, return_image
        #: Where rows without states go on, and which of them have ended.
        self._rows: list[tuple[Any, bool]] = []
        self.begin_step()
        if not delay_setup:
            self.setup()

    # What a subclass defines --------------------------------------------------------

    @abstractmethod
    def get_state(self) -> Any:
        """Return the complete state."""

    @abstractmethod
    def set_state(self, state: Any) -> None:
        """Bring the env to a state."""

    @abstractmethod
    def apply_action(self, action: Any) -> tuple[Any, ...]:
        """Take one env step: `(obs, reward, terminal, truncated, info)`."""

    @abstractmethod
    def apply_reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: `(obs, info)`; `seed` is given if the caller gave one."""

    def setup(self) -> None:
        """Build what cannot be pickled."""

    def close(self) -> None:
        """Release what `setup` built."""

    def get_image(self) -> Any:
        """Return a picture, `[H, W, 3]` uint8."""
        raise NotImplementedError

    def sample_action(self) -> Any:
        """Return a valid action."""

    # Properties ---------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the env."""
        return self._name

    @property
    def unwrapped(self) -> PlanEnv:
        """The env itself."""
        return self

    @property
    def return_image(self) -> bool:
        """Whether infos have a picture, as "rgb"."""
        return self._return_image

    @property
    def obs_shape(self) -> tuple[int, ...] | None:
        """Shape of an observation."""
        raise NotImplementedError

    @property
    def action_shape(self) -> tuple[int, ...] | None:
        """Shape of an action."""
        raise NotImplementedError

    @property
    def img_shape(self) -> tuple[int, ...] | None:
        """Shape of `get_image`; None if nothing can be drawn."""
        try:
            return tuple(self.get_image().shape)
        except Exception:  # renderers' errors have no class in common
            return None

    # Steps --------------------------------------------------------------------------

    def reset(self, return_state: bool = True, seed: int | None = None) -> tuple[Any, ...]:
        """Begin an episode; `(state, obs, info)`, or `(obs, info)` without `return_state`."""
        self._rows = []
        obs, info = self.apply_reset(**({} if seed is None else {"seed": seed}))
        obs = self.process_obs(obs)
        info = self.process_info(info=info or {}, obs=obs, reward=0, terminal=False)
        return (self.get_state(), obs, info) if return_state else (obs, info)

    def step(
        self, action: Any, state: Any = None, dt: int = 1, return_state: bool | None = None
    ) -> tuple[Any, ...]:
        """Step the env, from a state if one is given.

        Args:
            action: held for `dt * frameskip` calls of `apply_action`.
            state: to begin from. Nothing is reset then, whatever `autoreset` says.
            dt: at least 1.
            return_state: None for "if a state was given".

        Returns:
            `([state,] obs, reward, terminal, truncated, info)`, of the ending if there was one.
        """
        self.begin_step(action=action, dt=dt, state=state, return_state=return_state)
        if state is not None:
            self.set_state(state)
        found = self.get_step_tuple(*self.process_step(*self.step_with_dt(action, dt)))
        if state is None:
            self.run_autoreset(found)
        return found

    def step_batch(
        self, actions: Any, states: Any = None, dt: Any = 1, return_state: bool | None = True
    ) -> tuple[list[Any], ...]:
        """Step rows, which leaves the env itself where it is.

        Args:
            actions: B of them.
            states: B of them; None, or None in the place of one, goes on where that row is: rows
                begin where the env is, and anew after `reset` and `set_state`.
            dt: one for all rows, or B.
            return_state: None for "if states were given".

        Returns:
            `([states,] observs, rewards, terminals, truncateds, infos)`, lists of B.
        """
        return self.stepped_rows(self._run_rows, actions, states, dt, return_state)

    def stepped_rows(
        self, run: RunRows, actions: Any, states: Any, dt: Any, return_state: bool | None
    ) -> tuple[list[Any], ...]:
        """Run `step_batch` by `run`, which steps rows from states here or elsewhere."""
        actions, count = list(actions), len(actions)
        given = [None] * count if states is None else list(states)
        if len(given) != count:
            raise InvalidOption(
                f"step_batch: states must be one for each of {count} actions; got {len(given)}"
            )
        dts = np.broadcast_to(np.asarray(dt), (count,)).tolist()
        rows, starts = self._rows, given
        if goes_on := any(state is None for state in given):
            if len(rows) != count:
                rows = [(self.get_state(), False)] * count
            pairs = list(zip(given, rows, strict=True))
            starts = [self._begun(*row) if state is None else state for state, row in pairs]
        found = run(actions, starts, dts)
        if goes_on:
            news = zip(found[0], map(any, zip(found[3], found[4], strict=True)), strict=True)
            both = zip(pairs, news, strict=True)
            rows = [new if state is None else old for (state, old), new in both]
        # Last: what runs the rows may have used `set_state`, which drops them.
        self._rows = rows
        shown = any(state is not None for state in given) if return_state is None else return_state
        return found if shown else found[1:]

    def _begun(self, state: Any, has_ended: bool) -> Any:
        """Return where a row goes on: at the reset that follows its ending."""
        if not (has_ended and self.autoreset):
            return state
        here = self.get_state()
        self.set_state(state)
        self.reset(return_state=False)
        begun = self.get_state()
        self.set_state(here)
        return begun

    def _run_rows(
        self, actions: list[Any], states: list[Any], dts: list[int]
    ) -> tuple[list[Any], ...]:
        try:
            here = self.get_state()
        except ResetNeeded:
            here = None
        rows = zip(actions, states, dts, strict=True)
        found = [self.step(a, s, dt=dt, return_state=True) for a, s, dt in rows]
        if here is not None:
            self.set_state(here)
        return tuple(map(list, zip(*found, strict=True))) if found else ([],) * 6

    # Hooks --------------------------------------------------------------------------

    def begin_step(
        self,
        action: Any = None,
        dt: int | None = None,
        state: Any = None,
        return_state: bool | None = None,
    ) -> None:
        """Forget the step before."""
        self._n_step, self._reward_step = 0, 0.0
        self._terminal_step = self._truncated_step = False
        self._action_step, self._dt_step = action, dt
        self._state_step, self._return_state_step = state, return_state

    def step_with_dt(self, action: Any, dt: int = 1) -> tuple[Any, ...]:
        """Call `apply_action` until `dt * frameskip` or an ending; the reward is their sum."""
        self._n_step, self._reward_step = 0, 0.0
        self._terminal_step = self._truncated_step = False
        data: tuple[Any, ...] = ()
        for _ in range(self._repeats(int(dt))):
            self._n_step += 1
            obs, reward, terminal, *truncated, info = self.apply_action(action)
            data = self.process_apply_action(obs, reward, terminal, any(truncated), info)
            _, self._reward_step, self._terminal_step, self._truncated_step, _ = data
            if self._terminal_step or self._truncated_step:
                break
        if not data:
            raise InvalidOption(f"step: dt must be at least 1; got {dt}")
        return data

    def _repeats(self, dt: int) -> int:
        return dt * self.frameskip

    def process_apply_action(
        self, obs: Any, reward: Any, terminal: Any, truncated: Any, info: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Change what one `apply_action` returned; adds the rewards up."""
        info["n_step"] = self._n_step
        return obs, self._reward_step + reward, terminal or self._terminal_step, truncated, info

    def process_step(
        self, obs: Any, reward: Any, terminal: Any, truncated: Any, info: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Change what all of them returned; adds "dt" and the picture."""
        info["dt"] = self._dt_step
        if self.return_image:
            info["rgb"] = self.get_image()
        return obs, reward, terminal, truncated, info

    def get_step_tuple(
        self, obs: Any, reward: Any, terminal: Any, truncated: Any, info: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return what `step` returns, each part changed by its hook."""
        obs = self.process_obs(obs=obs, reward=reward, terminal=terminal, info=info)
        reward = self.process_reward(obs=obs, reward=reward, terminal=terminal, info=info)
        terminal = self.process_terminal(obs=obs, reward=reward, terminal=terminal, info=info)
        info = self.process_info(obs=obs, reward=reward, terminal=terminal, info=info)
        data = obs, reward, bool(terminal), bool(truncated), info
        is_given, wanted = self._state_step is not None, self._return_state_step
        return (self.get_state(), *data) if wanted or (wanted is None and is_given) else data

    def run_autoreset(self, step_data: tuple[Any, ...]) -> None:
        """Reset the env if the step ended it and `autoreset` is on."""
        *_, terminal, truncated, _ = step_data
        if (terminal or truncated) and self.autoreset:
            rows = self._rows
            self.reset(return_state=False)
            self._rows = rows

    def process_obs(self, obs: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Change the observation of a step or reset."""
        return obs

    def process_reward(self, reward: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Change the reward of a step."""
        return reward

    def process_terminal(self, terminal: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Change whether a step ended the episode."""
        return terminal

    def process_info(self, info: dict[str, Any], **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        """Change the info of a step or reset."""
        return info

    # Copies -------------------------------------------------------------------------

    def clone(self, **kwargs: Any) -> Self:
        """Return a new env with the same arguments, of which some may change; not its state."""
        args, given = self._given
        bound = inspect.signature(type(self).__init__).bind(self, *args, **given)
        known = {name for name in kwargs if name in bound.signature.parameters}
        bound.arguments.update({name: kwargs.pop(name) for name in known})
        return type(self)(*bound.args[1:], **{**bound.kwargs, **kwargs})
