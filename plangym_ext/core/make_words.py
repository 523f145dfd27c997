"""Arguments of `make` taken over from plangym: pictures, wrappers, time limits, task names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core.drawing import picture, rgb_frame
from plangym_ext.core.inherited_options import raise_if_unknown
from plangym_ext.errors import InvalidOption, UnknownName, WrongKind
from plangym_ext.states.trials.fresh import tried
from plangym_ext.states.trials.trial import sendable

_PICTURES = ("rgb", "grayscale")
#: Values of the keyword that was `state` before `capture` was its name.
_WAYS = ("auto", "codec", "own", "simulator", "snapshot", "replay", "approximate", "off")


class Pictures(gym.Wrapper[Any, Any, Any, Any]):
    """Pictures of an env as its observations, or beside them in the infos as "rgb".

    Args:
        env: draws with `render_mode="rgb_array"`.
        obs_type: "rgb", `[H, W, 3]` uint8, or "grayscale", `[H, W]` uint8; None for the env's own.
        in_infos: whether infos have the coloured picture.
        make: constructor of the env, for a new process that draws where no copy of this one can.

    Raises:
        ForkFailed: no copy of the env has drawn a picture, whose shape is the space's.
    """

    def __init__(
        self, env: Any, obs_type: str | None, in_infos: bool, make: Callable[[], Any] | None = None
    ) -> None:
        super().__init__(env)
        self._obs_type, self._in_infos = obs_type, in_infos
        if obs_type is not None:
            # Of a copy: some envs draw after a reset alone, and this one stays as it was made.
            drawn = functools.partial(_shape, obs_type=obs_type)
            shape, _ = tried(env, lambda _: drawn(env), make, drawn)
            if isinstance(shape, BaseException):
                raise shape
            self.observation_space = gym.spaces.Box(0, 255, tuple(shape), np.uint8)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `gymnasium.Env.reset`."""
        return self._told(*self.env.reset(**options))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; see `gymnasium.Env.step`."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        obs, info = self._told(obs, info)
        return obs, reward, terminated, truncated, info

    def _told(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        name = type(self.unwrapped).__name__
        frame = np.array(rgb_frame(picture(self.env, name), name))
        if self._obs_type is not None:
            obs = frame if self._obs_type == "rgb" else luma(frame)
        return obs, {**info, "rgb": frame} if self._in_infos else info


def _shape(env: Any, obs_type: str) -> list[int] | BaseException:
    """Return the shape of an env's pictures, or the error that came instead; it is reset."""
    try:
        env.reset()
        name = type(env.unwrapped).__name__
        shape = rgb_frame(picture(env, name), name).shape
    except Exception as error:  # of the env, for the process that asks
        return sendable(error)
    return [*shape] if obs_type == "rgb" else [*shape[:2]]


def luma(frame: np.ndarray) -> np.ndarray:
    """Return a picture `[H, W, 3]` in grey, fresh `[H, W]` uint8: ITU-R 601, as Pillow's."""
    weights = np.array([19595, 38470, 7471], np.uint32)
    return ((frame[..., :3].astype(np.uint32) @ weights + 0x8000) >> 16).astype(np.uint8)


def wrapped(env: Any, item: Any) -> Any:
    """Return an env in a wrapper: `wrap`, or `(wrap, dict)`, `(wrap, list)`, `(wrap, argument)`."""
    if not isinstance(item, tuple):
        return item(env)
    wrap, arguments = item
    if isinstance(arguments, dict):
        return wrap(env, **arguments)
    return wrap(env, *(arguments if isinstance(arguments, list | tuple) else (arguments,)))


def name_of(called: str, name: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the env's id or constructor, and its arguments without those that name the env.

    The callable of an `EnvSpec` makes the env as `gymnasium.make` does, with the spec's wrappers
    and arguments.

    Raises:
        UnknownName: `state` is a way of capture.
        InvalidOption: two envs are named, or half of one.
    """
    way = kwargs.get("state")
    if isinstance(way, str) and way in _WAYS:
        raise UnknownName(
            f"{called}: the capture method is the option capture; state is the start of a console "
            f"game; got state={way!r}. Write capture={way!r}."
        )
    if isinstance(name, gym.envs.registration.EnvSpec):
        kwargs, wrappers = wrappers_of(called, kwargs, name.entry_point)
        return with_wrappers(functools.partial(_make_spec, name, **kwargs), wrappers), {}
    kwargs = dict(kwargs)
    task = [kwargs.pop(key, None) for key in ("domain_name", "task_name")]
    if task == [None, None]:
        return name, kwargs
    if name is not None or None in task:
        raise InvalidOption(
            f"{called}: domain_name and task_name are given together, in place of a name; got "
            f"name={name!r}, domain_name={task[0]!r}, task_name={task[1]!r}"
        )
    return f"dm_control/{task[0]}-{task[1]}-v0", kwargs


def _make_spec(spec: Any, **kwargs: Any) -> gym.Env[Any, Any]:
    """Return the env of a spec; raise `UnknownName` for options that it does not take."""
    try:
        return gym.make(spec, **kwargs)
    except TypeError as error:
        raise_if_unknown(error, gym.make, kwargs, spec)
        raise


def wrappers_of(
    called: str, kwargs: dict[str, Any], constructor: Any
) -> tuple[dict[str, Any], list[Any]]:
    """Return the arguments of the env's constructor, and the wrappers of its envs.

    Args:
        called: `make` or `make_vec`, for messages.
        kwargs: as given.
        constructor: of a named env, or its import path: one may take `obs_type` itself; else None.

    Raises:
        WrongKind: `wrappers` is no sequence of them.
        InvalidOption: what is asked of the env cannot be had.
    """
    kwargs, found = dict(kwargs), []
    wrappers = checked_wrappers(called, kwargs.pop("wrappers", None) or ())
    if kwargs.pop("remove_time_limit", False):
        kwargs["max_episode_steps"] = -1
    if not kwargs.pop("clone_seeds", True):
        raise InvalidOption(
            f"{called}: states hold all random generators; got clone_seeds=False. Leave it out; "
            "env.reseeded(states, rng) draws the future of states anew."
        )
    in_infos, obs_type = bool(kwargs.pop("return_image", False)), kwargs.get("obs_type")
    drawn = obs_type in ("coords", *_PICTURES) and not _takes(constructor, "obs_type")
    obs_type = kwargs.pop("obs_type") if drawn else None
    obs_type = None if obs_type == "coords" else obs_type
    if in_infos or obs_type:
        # A callable chooses by itself how its env draws.
        if constructor and kwargs.setdefault("render_mode", "rgb_array") != "rgb_array":
            raise InvalidOption(
                f"{called}: pictures need render_mode='rgb_array'; got {kwargs['render_mode']!r}"
            )
        found.append(functools.partial(Pictures, obs_type=obs_type, in_infos=in_infos))
    return kwargs, [*found, *wrappers]


def checked_wrappers(called: str, wrappers: Any) -> tuple[Any, ...]:
    """Return wrappers as a tuple; refuse wrappers that `wrapped` could not apply."""
    is_single = callable(wrappers) or not isinstance(wrappers, Iterable)
    found = () if is_single else tuple(wrappers)
    if is_single or not all(
        callable(one[0] if isinstance(one, tuple) and len(one) == 2 else one) for one in found
    ):
        raise WrongKind(
            f"{called}: wrappers must be a sequence of callables, or of (callable, arguments); got "
            f"{wrappers!r}. Write it in brackets."
        )
    return found


def _takes(constructor: Any, name: str) -> bool:
    if isinstance(constructor, str):
        constructor = gym.envs.registration.load_env_creator(constructor)
    return constructor is not None and name in inspect.signature(constructor).parameters


def with_wrappers(build: Callable[[], Any], wrappers: Iterable[Any]) -> Callable[[], Any]:
    """Return a constructor of wrapped envs, the first wrapper innermost; `build` if none."""
    found = tuple(
        functools.partial(one, make=build) if getattr(one, "func", None) is Pictures else one
        for one in wrappers
    )
    return functools.partial(_made, build, found) if found else build


def _made(build: Callable[[], Any], wrappers: tuple[Any, ...]) -> Any:
    return functools.reduce(wrapped, wrappers, build())
