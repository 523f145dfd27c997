"""StateSet: stored start states with their observations, in memory and on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, rows_of
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.files.state_file import checked_file, read_arrays, write_arrays
from plangym_ext.core.row_stepper import RowStepper
from plangym_ext.errors import DamagedState, InvalidOption


@dataclass(frozen=True, eq=False)
class StateSet:
    """N states of an env with their observations, from which episodes may begin.

    A state alone does not tell what is observed there: that came of the step before it.

    Args:
        states: `[N, S]` uint8, of episodes that go on.
        obs: `[N, *obs]`, nested as the observation space.
        legal: `[N, A]` bool, the actions that may be played; None: the env does not say.
        to_go: `[N]` float64, the rewards that were earned from there on when the states were
            visited, undiscounted; None: not known.

    Raises:
        ValueError: the arrays are not of one length.
    """

    states: npt.NDArray[np.uint8]
    obs: Any
    legal: npt.NDArray[np.bool_] | None = None
    to_go: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        more = (one for one in (self.legal, self.to_go) if one is not None)
        shapes = [_shape(one) for one in (self.states, *leaves(self.obs), *more)]
        lengths = {shape[:1] for shape in shapes}
        # One set for all: the message shows every length that occurs.
        if len(lengths) > 1 or len(shapes[0]) != 2:
            raise InvalidOption(
                f"StateSet: states must be [N, S] with N observations and masks; got states of "
                f"shape {shapes[0]} and arrays of lengths {sorted(sum(lengths, ()))}."
            )

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows: Any) -> StateSet:
        """Return some of the states: a slice, or `[n]` indices, which may repeat."""
        legal = None if self.legal is None else self.legal[rows]
        to_go = None if self.to_go is None else self.to_go[rows]
        return StateSet(self.states[rows], rows_of(self.obs, rows), legal, to_go)

    def save(self, path: str | os.PathLike[str], env: RowStepper) -> None:
        """Write a file; an existing one is replaced as a whole.

        It is a file of `save_states` with the observations beside the states, so `load_states`
        reads it too. Nothing in it is a pickle.

        Args:
            path: of the file; ".npz" is added if it has no suffix.
            env: that the states belong to.

        Raises:
            StateError: a state is damaged or belongs to another env. Nothing is written.
            TypeError: observations of this env have no array form.
            ValueError: they are of another shape than this env's. Nothing is written.
        """
        layout = SpaceLayout(env.observation_space)
        for leaf, part in zip(layout.leaves, layout.split(self.obs), strict=True):
            if np.shape(part) != (len(self), *leaf.shape):
                raise InvalidOption(
                    f"StateSet.save: observations must be {(len(self), *leaf.shape)} here; got "
                    f"{np.shape(part)}."
                )
        arrays = {
            f"obs{i}": np.asarray(part, leaf.dtype)
            for i, (leaf, part) in enumerate(
                zip(layout.leaves, layout.split(self.obs), strict=True)
            )
        }
        if self.legal is not None:
            arrays["legal"] = np.asarray(self.legal, np.bool_)
        if self.to_go is not None:
            arrays["to_go"] = np.asarray(self.to_go, np.float64)
        write_arrays(path, self.states, arrays, env, "StateSet.save")

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: RowStepper) -> Self:
        """Read a file that `save` wrote.

        Args:
            path: of the file.
            env: that the states must belong to: same id, arguments and simulator version.

        Raises:
            DamagedState: the file or a state in it is damaged, or it has no observations, as one
                of `save_states`.
            ForeignState: the states belong to another env; the message has both.
            NoSuchFile: there is none.
        """
        layout = SpaceLayout(env.observation_space)
        names = [f"obs{i}" for i in range(len(layout.leaves))]
        found = read_arrays(path, names, ["legal", "to_go"], "StateSet.load")
        states = checked_file(path, found, env, "StateSet.load")
        leaves_of = dict(zip(names, layout.leaves, strict=True))
        wanted = {name: (leaf.shape, leaf.dtype) for name, leaf in leaves_of.items()}
        if "legal" in found:
            # Of other spaces than a Discrete the env alone knows how many actions there are.
            num = getattr(env.action_space, "n", found["legal"].shape[-1:] or 0)
            wanted["legal"] = (np.ravel(num).tolist(), np.dtype(bool))
        if "to_go" in found:
            wanted["to_go"] = ((), np.dtype(float))
        for name, (shape, dtype) in wanted.items():
            if found[name].shape != (len(states), *shape) or found[name].dtype != dtype:
                raise DamagedState(
                    f"StateSet.load: {Path(path).name}: {name} must be {(len(states), *shape)} "
                    f"{dtype}, one for every state; got {found[name].shape} {found[name].dtype}."
                )
        if np.isnan(found.get("to_go", 0.0)).any():
            raise DamagedState(f"StateSet.load: {Path(path).name}: to_go must be numbers; got NaN.")
        obs = layout.join(tuple(found[name] for name in names))
        try:
            return cls(states, obs, found.get("legal"), found.get("to_go"))
        except ValueError as error:
            raise DamagedState(f"StateSet.load: {Path(path).name}: {error}") from error


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of an array; () of what is none."""
    try:
        return np.shape(value)
    except ValueError:  # rows of several lengths
        return ()
