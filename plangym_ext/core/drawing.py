"""Drawing an env: without a display, and what to say when it cannot be done."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym

from plangym_ext.errors import CannotDraw, MissingExtra, installing
from plangym_ext.states.families import Family, family_of


def picture(env: gym.Env[Any, Any], name: str) -> Any:
    """Return `env.render()`, drawn without a display where there is none.

    Args:
        env: the whole stack.
        name: of the env, for messages.

    Raises:
        MissingExtra: a package that it draws with is not installed.
        CannotDraw: the renderer failed.
    """
    family = family_of(env.unwrapped)
    chosen = {} if family is None else without_display(family, env.render_mode)
    try:
        return env.render()
    except (gym.error.DependencyNotInstalled, ModuleNotFoundError) as error:
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
    """Set the environment variables with which a family draws where there is no display.

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
