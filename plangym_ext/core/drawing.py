"""Rendering of an env to RGB frames, with and without a display."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import CannotDraw, MissingExtra, installing
from plangym_ext.states.families import Family, family_of

if TYPE_CHECKING:
    import gymnasium as gym


class Film(Protocol):
    """Interface for taking pictures of an env within a step.

    Attributes:
        on: whether it is played now: what a search plays in the same env is not filmed.
    """

    on: bool

    def after_step(self) -> None:
        """Take a picture after an env step, if one is due."""


def picture(env: gym.Env[Any, Any], name: str) -> Any:
    """Return `env.render()`, drawn without a display where there is none.

    Raises:
        MissingExtra: a package that it draws with is not installed.
        CannotDraw: the renderer failed.
    """
    # Here: help of commands does without.
    from gymnasium.error import DependencyNotInstalled

    family = family_of(env.unwrapped)
    chosen = {} if family is None else without_display(family, env.render_mode)
    try:
        return env.render()
    except (DependencyNotInstalled, ModuleNotFoundError) as error:
        if family is None or family.extra is None:
            raise
        raise MissingExtra(
            f"{name}: drawing needs a package that is not installed ({error}). "
            f"{installing(family.extra)}"
        ) from error
    except Exception as error:  # a renderer's errors have no class in common
        if not chosen:
            raise
        settings = " ".join(f"{key}={value}" for key, value in chosen.items())
        raise CannotDraw(
            f"{name}: drawing failed without a display, with {settings}: "
            f"{type(error).__name__}: {error}. The page 'MuJoCo' of the documentation says "
            "what has to be installed."
        ) from error


def without_display(family: Family, render_mode: str | None) -> dict[str, str]:
    """Set the environment variables for rendering a family without a display.

    Those that are set already are left as they are.

    Args:
        family: of the env.
        render_mode: of the env; "human" needs a display, and nothing is set for it.

    Returns:
        The variables and the values that hold now; empty where there is a display.
    """
    if "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ:
        return {}
    if render_mode in (None, "human"):
        return {}
    return {key: os.environ.setdefault(key, value) for key, value in family.headless}


def rgb_frame(picture: Any, where: str) -> npt.NDArray[np.uint8]:
    """Return a result of `render` as `[H, W, 3]` uint8, without a copy if possible.

    Args:
        picture: `[H, W]`, `[H, W, 1]` grey, `[H, W, 3]` colours or `[H, W, 4]` with their
            opacity, which is left out. Whole numbers are 0 to 255, fractions and bools 0 to 1.
            Of a list of pictures (`render_mode="rgb_array_list"`) the last one counts.
        where: for messages.

    Raises:
        CannotDraw: it is no such picture.
    """
    # Of arrays: the rows of one picture may be lists, too.
    is_list = isinstance(picture, list | tuple) and bool(picture)
    is_list = is_list and getattr(picture[-1], "ndim", 0) > 1
    found = np.asarray(picture[-1] if is_list else picture)
    if found.ndim == 2:
        found = found[:, :, None]
    if found.ndim != 3 or found.shape[2] not in (1, 3, 4) or not found.size:
        raise _no_picture(where, picture, f"shape {found.shape}, {found.dtype}")
    kind, opaque = found.dtype.kind, found[:, :, :3]
    if kind not in "biuf":
        raise _no_picture(where, picture, f"dtype {found.dtype}")
    most = 1 if kind in "bf" else 255
    if found.dtype != np.uint8:
        low, high = opaque.min(), opaque.max()
        # NaN is in no range.
        if not (low >= 0 and high <= most):
            raise _no_picture(where, picture, f"{found.dtype} from {low} to {high}")
        opaque = np.rint(opaque * (255.0 / most)).astype(np.uint8)
    return opaque if opaque.shape[2] == 3 else np.repeat(opaque, 3, axis=2)


def _no_picture(where: str, picture: Any, found: str) -> CannotDraw:
    got = found if hasattr(picture, "shape") else f"{type(picture).__name__}, {found}"
    return CannotDraw(
        f"{where}: render must return a picture [H, W, 3] uint8, or grey, with opacity, or of "
        f"fractions in [0, 1]; got {got}. Make the env with render_mode='rgb_array', or correct "
        f"its render."
    )
