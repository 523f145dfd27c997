"""Inputs of agents: observation, previous action and reward, masks, noise. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.items import empty_items, itemized
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.distributions.noise import Noise


class StepNoise(Noise, Protocol):
    """The random numbers of one step."""

    #: `[B]` int, which rows of all envs of the sampler these are.
    rows: Any


class Inputs(NamedTuple):
    """The inputs of an agent: one step of B rows, or `[T, B]` of them in learning.

    They may be views of a sampler's memory: an agent copies what it keeps.

    Attributes:
        obs: `[B, *obs]`, nested as the observation space; of a Sequence a `JaggedArray` `[B]`,
            of a Graph a dict of them.
        action: `[B, *act]`, the previous action, nested as the action space; zeros where
            `first`.
        reward: `[B]` float32, the previous reward; 0 where `first`.
        first: `[B]` bool, the first step of an episode: the carry is reset there.
        noise: random numbers of this step and these rows; None where nothing is drawn.
        legal: `[B, A]` bool, which actions of a Discrete space may be played; None: all.
    """

    obs: Any
    action: Any
    reward: Any
    first: Any
    noise: StepNoise | None = None
    legal: Any = None


def first_inputs(obs: Any, action_space: spaces.Space[Any], num_rows: int, **more: Any) -> Inputs:
    """Return the inputs after a reset: zero action and reward, `first` everywhere.

    Args:
        obs: `[B, *obs]`.
        action_space: of one row.
        num_rows: B.
        **more: `noise` and `legal` of `Inputs`.
    """
    return Inputs(
        obs=obs,
        action=zeros_of(action_space, num_rows),
        reward=np.zeros(num_rows, np.float32),
        first=np.ones(num_rows, np.bool_),
        **more,
    )


def zeros_of(space: spaces.Space[Any], num_rows: int) -> Any:
    """Return `[B, ...]` zeros, nested as a space; it may not contain them."""
    layout = SpaceLayout(itemized(space), items=True)
    rows = [
        empty_items(leaf.space, (num_rows,))
        if isinstance(leaf.space, spaces.Sequence)
        else np.zeros((num_rows, *leaf.shape), leaf.dtype)
        for leaf in layout.leaves
    ]
    return layout.join(tuple(rows))


def example_inputs(
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    num_rows: int,
    noise: StepNoise | None = None,
) -> Inputs:
    """Return first inputs with an observation that the space contains, made without an env."""
    layout = SpaceLayout(itemized(observation_space), items=True)
    rows: list[Any] = []
    for leaf in layout.leaves:
        if isinstance(leaf.space, spaces.Sequence):
            rows.append(empty_items(leaf.space, (num_rows,)))
            continue
        low, high = (np.asarray(bound) for bound in leaf.bounds)
        # 0, or what the bounds allow next to it.
        least = np.clip(np.zeros(leaf.shape), low, high).astype(leaf.dtype)
        rows.append(np.repeat(least[None], num_rows, axis=0))
    return first_inputs(layout.join(tuple(rows)), action_space, num_rows, noise=noise)


def needed_noise(inputs: Inputs, agent: str) -> StepNoise:
    """Return the random numbers of a step; raise if there are none.

    Raises:
        InvalidOption: there are none.
    """
    if inputs.noise is None:
        raise InvalidOption(
            f"{agent}.step: inputs.noise must be the random numbers of the step, as samplers "
            f"give them; got None. Pass a RowNoise or a GeneratorNoise, or use mode 'eval'."
        )
    return inputs.noise


Mode = Literal["train", "sample", "eval"]
MODES: tuple[Mode, ...] = get_args(Mode)


def checked_mode(mode: str, where: str) -> Mode:
    """Return a mode after a check of its name."""
    for known in MODES:
        if mode == known:
            return known
    raise InvalidOption(
        f"{where}: mode must be one of {', '.join(MODES)}; got {mode!r}{suggestion(mode, MODES)}."
    )
