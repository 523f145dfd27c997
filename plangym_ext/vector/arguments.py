"""Argument checks of a vector env's methods: seeds, masks, actions, states."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_differing_spaces, batch_space, iterate

from plangym_ext.arrays.actions import check_actions
from plangym_ext.arrays.nested import as_array
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import (
    InvalidAction,
    InvalidOption,
    NoSuchIndex,
    StateError,
    UnequalEnvs,
    UnknownName,
    WrongKind,
    suggestion,
)

if TYPE_CHECKING:
    from plangym_ext.vector.backend import RowsDescription


#: Names that `call` refuses: the vector env has to know of these calls.
OWN_CALLS = ("reset", "step", "close", "_setattr", "_check_spaces")

#: Names that begin so are those of attributes of the env under all wrappers.
UNWRAPPED = "unwrapped."


def checked_autoreset(mode: str | AutoresetMode) -> AutoresetMode:
    """Return the mode by gymnasium's enum, its value ("NextStep") or its name ("next_step").

    Raises:
        UnknownName: there is no such mode.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    # Both spellings: gymnasium's values, and the names that `make_vec` documents.
    known = {name: one for one in AutoresetMode for name in (one.value, one.name.lower())}
    if not isinstance(mode, str) or mode not in known:
        names = [one.name.lower() for one in AutoresetMode]
        raise UnknownName(
            f"autoreset_mode must be one of {', '.join(names)}; got {mode!r}"
            f"{suggestion(str(mode), names)}"
        )
    return known[mode]


def checked_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """Return the seed of each row.

    Raises:
        TypeError: a seed is neither None nor an int.
        ValueError: another number of seeds.
    """
    if seed is None:
        return [None] * num_envs
    # A bool is an int to Python, and a mistake here.
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0:
        return [int(seed) + row for row in range(num_envs)]
    try:
        if isinstance(seed, Set | Mapping):  # in which no seed belongs to a sub-env
            raise TypeError
        seeds = list(seed)
    except TypeError:
        raise WrongKind(
            f"reset: seed must be None, an int >= 0 or one of them for each sub-env; got {seed!r}"
        ) from None
    if len(seeds) != num_envs:
        raise InvalidOption(f"reset: seed must have {num_envs} entries; got {len(seeds)}")
    for row, one in enumerate(seeds):
        if isinstance(one, bool) or not isinstance(one, int | np.integer | None):
            raise WrongKind(f"reset: seed[{row}] must be None or an int; got {one!r}")
        if one is not None and one < 0:
            raise InvalidOption(f"reset: seed[{row}] must be from 0 on; got {one}")
    return [None if one is None else int(one) for one in seeds]


def checked_options(
    options: dict[str, Any] | None, num_envs: int
) -> tuple[np.ndarray | None, dict[str, Any] | None]:
    """Return the mask of reset options, `[n]` bool or None, and the options without it."""
    if not isinstance(options, Mapping | None):
        raise WrongKind(f"reset: options must be a dict or None; got {options!r}")
    if options is None or "reset_mask" not in options:
        return None, options
    # The words in backticks are gymnasium's, which tests of others may look for.
    mask = checked_mask(options["reset_mask"], num_envs, "`options['reset_mask']`")
    return mask, {key: value for key, value in options.items() if key != "reset_mask"}


def checked_mask(mask: Any, num_envs: int, what: str, *, some: bool = True) -> np.ndarray:
    """Return an `[n]` bool array.

    Raises:
        TypeError: it is no array of bools.
        ValueError: another shape, or nothing is True although there should be `some`.
    """
    if not isinstance(mask, np.ndarray):
        raise WrongKind(f"{what} must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise InvalidOption(f"{what} must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise WrongKind(f"{what} must have `dtype=np.bool_`, got {mask.dtype}")
    if some and not mask.any():
        raise InvalidOption(
            f"{what} must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    return mask


def checked_rows(env_ids: Any, num_envs: int, where: str = "step: env_ids") -> range | list[int]:
    """Return the numbers of sub-envs: a range if None, for all, else a list.

    Raises:
        TypeError: they are no ints.
        IndexError: there is no such sub-env, or one is named twice.
    """
    if env_ids is None:
        return range(num_envs)
    rows = as_array(env_ids, where, WrongKind)
    # An empty list has numpy's default type, float64.
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise WrongKind(f"{where} must be [k] ints; got {rows.shape} {rows.dtype}")
    # Python ints: they are compared, hashed and sent one by one.
    found: list[int] = rows.tolist()
    for row in found:
        if not 0 <= row < num_envs:
            raise NoSuchIndex(f"{where} must lie in 0..{num_envs - 1}; got {row}")
    if len(set(found)) < len(found):
        raise NoSuchIndex(f"{where} must be distinct; got {found}")
    return found


def checked_actions(
    actions: Any, space: spaces.Space[Any], num_rows: int, layout: SpaceLayout | None
) -> Any:
    """Return actions that an env can be stepped with, row by row.

    Args:
        actions: for k sub-envs.
        space: of all of them together.
        num_rows: k.
        layout: of a single action; None if it has no form of arrays.

    Returns:
        A `[k, *act]` array where a single action is one: the caller's own, if it is one. Else the
        actions one by one, as gymnasium hands them out.

    Raises:
        WrongKind: they are not several.
        InvalidAction: another number, shape, nesting or dtype, or they cannot be told apart.
            Whether they are in the space is for the env to say.
    """
    if layout is not None and layout.is_flat:
        leaf = layout.leaves[0]
        # Arrays of the space's own form are what a training loop gives.
        shape = (num_rows, *leaf.shape)
        if type(actions) is np.ndarray and actions.dtype == leaf.dtype and actions.shape == shape:
            return actions
    return _unusual_actions(actions, space, num_rows, layout)


def _unusual_actions(
    actions: Any, space: spaces.Space[Any], num_rows: int, layout: SpaceLayout | None
) -> Any:
    """Return what `checked_actions` returns, for actions that need a look at each part."""
    wanted = f"step: actions must hold one action for each of {num_rows} sub-envs"
    if layout is None or layout.is_flat:  # else a mapping or tuple of parts
        try:
            count = len(actions)
        except TypeError:
            raise WrongKind(f"{wanted}, as {space}; got {type(actions).__name__}") from None
        # Without a layout they may come one by one, or as parts without an array form.
        if count != num_rows and layout is not None:
            raise InvalidAction(f"{wanted}; got {count}")
    if layout is not None:
        leaves = check_actions(layout, actions, (num_rows,), "step", as_given=True)
        if layout.is_flat:
            # A list may be written to while its actions are kept to be played again.
            return leaves[0] if isinstance(actions, np.ndarray) else leaves[0].copy()
        actions = layout.join(leaves)
    try:
        # A copy: what is cut out of it may be played again when the caller has written to its own.
        actions = list(iterate(space, copy.deepcopy(actions)))
    except Exception as error:  # of a space, or of an object of the caller's
        raise InvalidAction(f"{wanted}, as {space}; got {type(actions).__name__}") from error
    if len(actions) != num_rows:
        raise InvalidAction(f"{wanted}; got {len(actions)}")
    return actions


def check_call(name: Any) -> None:
    """Refuse names and functions that cannot be called on sub-envs.

    Raises:
        WrongKind: it is neither.
        InvalidOption: it is one of `OWN_CALLS`.
    """
    if not isinstance(name, str) and not callable(name):
        raise WrongKind(f"call: name must be a str or a function of a sub-env; got {name!r:.80}")
    if name in OWN_CALLS:
        raise InvalidOption(
            f"call: {name!r} of single sub-envs would be hidden from the vector env. Use its own "
            "method of that name."
        )


def checked_name(name: Any) -> str:
    """Return the name of an attribute of sub-envs, or of the envs under their wrappers.

    Raises:
        WrongKind: it is none.
    """
    if not isinstance(name, str) or not name.removeprefix(UNWRAPPED).isidentifier():
        raise WrongKind(
            f"set_attr: name must be that of an attribute, or {UNWRAPPED}NAME; got {name!r:.80}"
        )
    return name


def per_row(values: Any, num_rows: int) -> Sequence[Any]:
    """Return one value for each of some sub-envs: a list or tuple as it is, anything else for all.

    Raises:
        ValueError: another number of values.
    """
    if not isinstance(values, list | tuple):
        return [values] * num_rows
    if len(values) != num_rows:
        raise InvalidOption(
            "Values must be a list or tuple with length equal to the number of environments. "
            f"Got `{len(values)}` values for {num_rows} environments."
        )
    return values


def checked_states(states: Any, num_envs: int) -> np.ndarray:
    """Return states as `[n, S]` uint8.

    Raises:
        ValueError: they are another array.
    """
    found = as_array(states, "set_states: states", StateError)
    if found.ndim != 2 or len(found) != num_envs or found.dtype != np.uint8:
        raise StateError(
            f"set_states: states must be ({num_envs}, S) uint8 from get_states; "
            f"got {found.shape} {found.dtype}"
        )
    return found


# Batched spaces of a vector env from the spaces of its sub-envs ---------------


#: "same", "different", or (batched space, single space).
ObservationMode = str | tuple[spaces.Space[Any], spaces.Space[Any]]


def observation_spaces(
    found: RowsDescription, mode: ObservationMode
) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the batched and the single observation space.

    Args:
        found: what the sub-envs say.
        mode: "same" for equal spaces, "different" for spaces of the same shapes and dtypes
            whose bounds may differ, or the two spaces themselves.

    Raises:
        UnequalEnvs: a sub-env's space does not fit.
        ValueError, TypeError: no such mode.
    """
    singles = found.observation_spaces
    single = singles[0]
    if mode == "different" and isinstance(single, UnknownSpace):
        mode = "same"  # they have no bounds, and gymnasium cannot compare them
    if isinstance(mode, tuple) and len(mode) == 2:
        if not all(isinstance(space, spaces.Space) for space in mode):
            raise WrongKind(
                "Expected both elements of observation_mode to be Spaces, "
                f"got {type(mode[0])} and {type(mode[1])}"
            )
        batched, single = mode
    elif mode == "same":
        batched = batch_space(single, len(singles))
    elif mode == "different":
        batched = batch_differing_spaces(singles)
    else:
        raise InvalidOption(
            "observation_mode must be 'same', 'different' or a tuple of batched and single "
            f"space; got {mode!r}"
        )
    for row, space in enumerate(singles):
        if mode == "same" and space != single:
            raise UnequalEnvs(
                f"sub-env {row}: its observation space is {space}; sub-env 0 has {single}. If "
                "that is intended, use observation_mode='different'."
            )
        # Of spaces that are equal nothing more is asked: gymnasium cannot compare custom ones.
        if mode != "same" and not is_space_dtype_shape_equiv(space, single):
            raise UnequalEnvs(
                f"sub-env {row}: its observation space {space} must have the shapes and dtypes "
                f"of {single}"
            )
    for row, space in enumerate(found.action_spaces):
        if space != found.action_spaces[0]:
            raise UnequalEnvs(
                f"sub-env {row}: its action space is {space}; sub-env 0 has "
                f"{found.action_spaces[0]}"
            )
    return batched, single


class UnknownSpace(gym.Space[Any]):
    """A space that contains everything and equals any other one."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Refuse: there is nothing to sample from."""
        raise NotImplementedError(
            "sample: this env declares no observation_space or no action_space. Give it one."
        )

    def contains(self, x: Any) -> bool:  # noqa: ARG002 - whatever it is
        """Return True."""
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownSpace)

    def __hash__(self) -> int:
        return hash(UnknownSpace)

    def __repr__(self) -> str:
        return "UnknownSpace()"


def space_of(env: gym.Env[Any, Any], name: str) -> gym.Space[Any]:
    """Return the env's `observation_space` or `action_space`; an `UnknownSpace` if it has none."""
    try:
        found: gym.Space[Any] = getattr(env, name)
    except AttributeError:
        return UnknownSpace()
    return found
