"""Errors for options that a constructor does not take, plangym's words among them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from plangym_ext.errors import UnknownName, suggestion

#: Options that have another place here, and what to write; those of plangym but for the first.
_ELSEWHERE = {
    "threads": "It is for the kernel and the mujoco backend: leave it out, or choose "
    "backend='kernel' or 'mujoco'.",
    "clone_seeds": "Leave it out: states hold all random generators.",
    "delay_setup": "Leave it out: make builds the env at once. "
    "ParallelEnv(gymnasium.make, name, delay_setup=True) does not.",
    "domain_name": "Leave it out: the id says it, such as 'dm_control/cheetah-run-v0'.",
    "obs_type": "Atari alone has it. For pictures make(lambda: AddRenderObservation("
    "gymnasium.make(name, render_mode='rgb_array'))), of gymnasium.wrappers.",
    "remove_time_limit": "Write max_episode_steps=-1.",
    "return_image": "Write render_mode='rgb_array', and call env.render().",
    "wrappers": "Write make(lambda: Wrapper(gymnasium.make(name))); make_vec takes wrappers.",
}


def raise_if_unknown(
    error: TypeError, called: Any, given: Iterable[str], spec: Any, options: Iterable[str] = ()
) -> None:
    """Raise, for the error of an env's constructor, one that says what to write instead.

    Args:
        error: of the constructor.
        called: the function or class that was given the options.
        given: their names.
        spec: of the env.
        options: of its family.

    Raises:
        UnknownName: the constructor does not take one of them.
    """
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if found is None or found[1] not in given:
        return
    name = found[1]
    text = f"{called.__name__}: {spec.id} has no option {name!r}"
    if name in _ELSEWHERE:
        raise UnknownName(f"{text}. {_ELSEWHERE[name]}") from error
    entry = spec.entry_point
    constructor = load_env_creator(entry) if isinstance(entry, str) else entry
    # The first argument of a call is the env's name, which was given.
    known = [*_named(called)[1:], *options, *_named(constructor), *_named(gym.make)[1:]]
    raise UnknownName(f"{text}{suggestion(name, known)}") from error


def _named(function: Any) -> list[str]:
    """Return the arguments that a function can be given by name."""
    parameters = inspect.signature(function).parameters.values()
    return [
        one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
