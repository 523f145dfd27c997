"""StepOut: the `out=` arrays of a vector env's step or reset, checked once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.tree import parts
from plangym_ext.core.out_fields import check_name, check_writable, ndarray_of, part_at, view_of
from plangym_ext.core.results import REWARDS
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.vector.infos import GroupedInfos, only_named
from plangym_ext.vector.results import StepResults
from plangym_ext.vector.shown import ObsBuffer

#: Fields of `out` that a step and a reset can write.
_STEPS = ("rewards", "terminateds", "truncateds")
STEP_FIELDS = ("obs", *_STEPS, "final_obs", "infos")
RESET_FIELDS = ("obs", "infos")

_INFO = "infos:"
_FLAGS = (np.dtype(np.bool_),)
_EVERY = slice(0, None)

Places = slice | Sequence[int]


class OutArrays:
    """Target arrays for the results of some rows.

    Args:
        space: of one row's observations.
        fields: `[k, ...]` arrays by name: those of `out`, but "obs0", "obs1", ... and
            "final_obs0", ... for the leaves of observations, and "infos:NAME" for infos.
        wanted: names of the infos that are returned besides; None for all.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        fields: Mapping[str, np.ndarray],
        wanted: frozenset[str] | None = None,
    ) -> None:
        self.space, self.fields, self.wanted = space, fields, wanted
        self._obs = _leaves(fields, "obs")
        #: Of rewards, terminations and truncations those that are wanted, by number.
        self._steps = [(k, fields[name]) for k, name in enumerate(_STEPS) if name in fields]
        finals = _leaves(fields, "final_obs")
        # A buffer over the caller's arrays: it checks and casts as that of the rows does.
        self._finals = ObsBuffer(space, len(finals[0]), finals) if finals else None
        self._infos = {k.removeprefix(_INFO): v for k, v in fields.items() if k.startswith(_INFO)}

    @property
    def has_infos(self) -> bool:
        """Whether infos are among them."""
        return bool(self._infos)

    def only(self, names: Iterable[str], wanted: frozenset[str] | None = None) -> OutArrays:
        """Return some of the arrays, by the names of `fields`."""
        return OutArrays(self.space, {name: self.fields[name] for name in names}, wanted)

    def write(
        self,
        places: Places,
        shown: Sequence[np.ndarray],
        steps: Sequence[Any],
        infos: Iterable[tuple[int, dict[str, Any]]],
        finals: Iterable[tuple[int, Any, dict[str, Any]]],
    ) -> None:
        """Write the results of k rows, without the final observations of `finals`.

        Args:
            places: where the rows stand in the arrays: a slice, or a list.
            shown: their observations, `[k, ...]` for each leaf.
            steps: rewards, terminations and truncations, `[k]` each; what follows is ignored.
            infos: as of `StepResults`, by number among the k rows.
            finals: the same.

        Raises:
            InvalidOption: a value of an info does not fit its array.
        """
        for k, target in enumerate(self._obs):
            if target is not (leaf := shown[k]):  # else it was written there
                target[places] = leaf
        for number, array in self._steps:
            if array is not (values := steps[number]):
                array[places] = values
        if self._infos:
            self._write_infos(places, infos, finals)

    def write_results(self, results: StepResults, shown: Sequence[np.ndarray]) -> None:
        """Write the results of all rows of a call; `shown` as for `write`."""
        infos, finals = results.infos, results.finals
        self.write(_EVERY, shown, results, infos, finals)
        if self._finals is None:
            return
        for k, obs, _ in finals:
            self._finals.put(k, obs)
        if isinstance(infos, GroupedInfos):
            for group in infos.groups:
                if group.final_obs is not None:
                    self._finals.put_batch(group.rows, group.final_obs)

    def write_reset(
        self,
        shown: Sequence[np.ndarray],
        rows: Sequence[int],
        infos: Iterable[tuple[int, dict[str, Any]]],
    ) -> None:
        """Write the results of a reset of some rows."""
        # Not strict: `_obs` is empty where observations are not among the arrays.
        for target, leaf in zip(self._obs, shown, strict=False):
            target[...] = leaf
        if self._infos:
            for array in self._infos.values():
                array[...] = 0
            for k, info in infos:
                self._set_row(rows[k], info)

    def put_final(self, place: int, obs: Any) -> None:
        """Write the final observation of one row."""
        if self._finals is not None:
            self._finals.put(place, obs)

    def _write_infos(
        self,
        places: Places,
        infos: Iterable[tuple[int, dict[str, Any]]],
        finals: Iterable[tuple[int, Any, dict[str, Any]]],
    ) -> None:
        # First 0 in every row: arrays serve many steps, and not every one says every field.
        for array in self._infos.values():
            array[places] = 0
        if isinstance(infos, GroupedInfos):
            for group in infos.groups:
                for column, values in (*group.columns, *group.final_columns):
                    self._set_info(group.rows, column.key, values)
            return
        # Numbers of rows count within the call: `at` has where they stand in the arrays.
        at = range(places.start or 0, 1 << 62) if isinstance(places, slice) else places
        # What the step itself says goes before what the reset says that came with it.
        for k, info in (*infos, *((k, info) for k, _, info in finals)):
            self._set_row(at[k], info)

    def _set_row(self, row: int, info: dict[str, Any]) -> None:
        for key, value in info.items():
            self._set_info(row, key, value)

    def _set_info(self, rows: Any, key: str, values: Any) -> None:
        if key in self._infos:
            try:
                self._infos[key][rows] = values
            except (TypeError, ValueError) as error:
                shape = self._infos[key].shape[1:]
                raise InvalidOption(
                    f"step: out['infos'][{key!r}] has room for {shape} numbers of each sub-env; "
                    f"got {values!r}. Leave it out, or give an array of that shape."
                ) from error
        # A mask may be given without the field itself.
        if f"_{key}" in self._infos:
            self._infos[f"_{key}"][rows] = True


class OutRows(NamedTuple):
    """Targets of some rows of a call.

    Attributes:
        arrays: of all rows of the call.
        places: where these rows stand in them.
    """

    arrays: OutArrays
    places: Places

    def write(
        self,
        steps: Sequence[np.ndarray],
        shown: Sequence[np.ndarray],
        infos: list[tuple[int, dict[str, Any]]],
        finals: list[tuple[int, Any, dict[str, Any]]],
    ) -> tuple[list[tuple[int, dict[str, Any]]], list[tuple[int, Any, dict[str, Any]]]]:
        """Write the results of these rows; return requested infos and finals not written.

        Arguments are as of `OutArrays.write`.
        """
        self.arrays.write(self.places, shown, steps, infos, finals)
        wanted = self.arrays.wanted
        if wanted is None:
            return infos, finals
        # Here, where the rows are: what is not wanted does not travel.
        chosen = [(k, found) for k, info in infos if (found := only_named(info, wanted))]
        return chosen, [(k, obs, only_named(info, wanted)) for k, obs, info in finals]

    def put_final(self, k: int, obs: Any) -> None:
        """Write the final observation of row k of these."""
        place = self.places.start + k if isinstance(self.places, slice) else self.places[k]
        self.arrays.put_final(place, obs)


class StepOut:
    """The checked arrays of an `out`: `PlanVectorEnv.step_out` makes it.

    Attributes:
        given: the caller's objects by name.
        num_rows: k, how many rows they have.
        arrays: numpy views of them.
        owner: observations of the vector env that it was checked for.
        has_obs: whether observations are among them.
        wanted: names of the infos that are returned; None for all.
        layout: what the backend of that vector env keeps of them; None before it has used them.
    """

    def __init__(
        self, given: dict[str, Any], num_rows: int, arrays: OutArrays, owner: ObsBuffer
    ) -> None:
        self.given, self.num_rows, self.arrays, self.owner = given, num_rows, arrays, owner
        self.wanted: frozenset[str] | None = None
        self.has_obs = "obs" in given
        self.layout: Any = None
        #: Observations, rewards, terminations and truncations, None for those not given.
        self._first = tuple(map(given.get, STEP_FIELDS[:4]))
        self._all = all(name in given for name in STEP_FIELDS[:4])

    def in_place_of(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a step's results with the caller's objects in place of fresh arrays."""
        # The usual `out` of a sampler: nothing has to be looked up by name.
        if self._all:
            return (*self._first, results[4])
        *fresh, infos = results
        return *map(self.given.get, STEP_FIELDS, fresh), infos


def checked_out(
    out: Any, obs: ObsBuffer, num_rows: int, where: str, known: Sequence[str]
) -> StepOut:
    """Return the arrays of an `out`, checked.

    Args:
        out: mapping, `ArrayDict` or named tuple of arrays `[k, ...]`.
        obs: of the vector env.
        num_rows: k.
        where: method name, for messages.
        known: names that it may have.

    Raises:
        TypeError: it has no names.
        UnknownName: a name is not among those.
        ValueError: an array has another shape or dtype, cannot be written to, has no memory of
            its own, or shares memory with another one.
    """
    given = parts(out)
    if given is None:
        raise WrongKind(f"{where}: out must map names of results to arrays; got {out!r}")
    given = {name: value for name, value in given.items() if value is not None}
    fields: dict[str, np.ndarray] = {}
    for name, value in given.items():
        check_name(name, known, where)
        place = f"{where}: out[{name!r}]"
        if name in ("obs", "final_obs"):
            fields |= _obs_fields(name, value, obs, num_rows, place)
        elif name == "infos":
            fields |= _info_fields(value, num_rows, place)
        else:
            dtypes = REWARDS if name == "rewards" else _FLAGS
            fields[name] = _view(value, (num_rows,), dtypes, place)
    # Workers write beside each other: with shared memory the last one would win, by chance.
    _check_apart(fields, where)
    return StepOut(given, num_rows, OutArrays(obs.space, fields), obs)


def _leaves(fields: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, ...]:
    found: list[np.ndarray] = []
    while (key := f"{name}{len(found)}") in fields:
        found.append(fields[key])
    return tuple(found)


def _obs_fields(
    name: str, value: Any, obs: ObsBuffer, num_rows: int, where: str
) -> dict[str, np.ndarray]:
    layout = obs.layout
    if layout is None:
        raise InvalidOption(
            f"{where}: observations of {obs.space} have no array form, so there is no array that "
            "they could be written to. Leave the field out."
        )
    found = {}
    for k, leaf in enumerate(layout.leaves):
        place = f"{where}{leaf.name}"
        part = part_at(value, leaf.path, place)
        found[f"{name}{k}"] = _view(part, (num_rows, *leaf.shape), (leaf.dtype,), place)
    return found


def _info_fields(value: Any, num_rows: int, where: str) -> dict[str, np.ndarray]:
    named = parts(value)
    if named is None:
        raise InvalidOption(
            f"{where} must map names of infos to arrays; got {type(value).__name__}"
        )
    found = {}
    for key, part in named.items():
        place = f"{where}[{key!r}]"
        array = ndarray_of(part, place)
        if array.ndim < 1 or len(array) != num_rows or array.dtype.kind not in "biuf":
            raise InvalidOption(
                f"{place} must be an array of numbers for {num_rows} sub-envs; got "
                f"{array.shape} {array.dtype}"
            )
        # A mask, by gymnasium's naming.
        if key.startswith("_"):
            array = _view(part, (num_rows,), _FLAGS, place)
        check_writable(array, place)
        found[f"{_INFO}{key}"] = _with_memory(array, place)
    return found


def _view(
    value: Any, shape: tuple[int, ...], dtypes: Sequence[np.dtype[Any]], where: str
) -> np.ndarray:
    return _with_memory(view_of(ndarray_of(value, where), shape, dtypes, where), where)


def _with_memory(array: np.ndarray, where: str) -> np.ndarray:
    """Return an array of which every row has memory, as a broadcast one has not."""
    # A stride of 0 alone is fine: an axis of length 1 may have any.
    if 0 in array.strides and len(np.unique(_addresses(array))) < array.size:
        raise InvalidOption(f"{where} must have memory for every row; got strides {array.strides}")
    return array


def _addresses(array: np.ndarray) -> np.ndarray:
    """Return the byte at which each element lies, counted from the first."""
    # In bytes, built up axis by axis.
    found = np.zeros((), np.intp)
    for step, size in zip(array.strides, array.shape, strict=True):
        found = found[..., None] + step * np.arange(size)
    return found


def _check_apart(fields: Mapping[str, np.ndarray], where: str) -> None:
    for (one, first), (other, second) in itertools.combinations(fields.items(), 2):
        # Bounds are compared first: that is quick, and mostly settles it.
        if np.may_share_memory(first, second) and np.shares_memory(first, second):
            raise InvalidOption(
                f"{where}: the arrays of out must not overlap; {one!r} and {other!r} share memory"
            )
