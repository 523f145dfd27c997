"""RowMemory: rewards, endings and observations of the rows in shared memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.vector.memory.info_forms import INFO_BYTES, InfoForms
from plangym_ext.vector.results import IN_MEMORY, Reply
from plangym_ext.vector.shown import ObsBuffer, buffer_bytes, is_nested, layout_of

#: 64-bit words of a host's progress: the row that is moved now, and how many calls have
#: moved rows. A cache line, so that no two processes write to the same.
_PROGRESS_WORDS = 8


class StepMemory:
    """Rewards and endings of n rows: shared with the processes that the rows live in.

    Args:
        num_rows: n.
        memory: uint8 array of `nbytes(n)`, such as memory that workers write to; None for
            memory of its own.

    Attributes:
        rewards: `[n]` float64.
        terminations, truncations: `[n]` bool.
    """

    def __init__(self, num_rows: int, memory: np.ndarray | None = None) -> None:
        if memory is None:
            memory = np.zeros(self.nbytes(num_rows), np.uint8)
        # 8 bytes of rewards and two of flags for each row; floats first, so that they are aligned.
        rewards, terminations, truncations, _ = np.split(memory, num_rows * np.array([8, 9, 10]))
        self.rewards: np.ndarray = rewards.view(np.float64)
        self.terminations: np.ndarray = terminations.view(bool)
        self.truncations: np.ndarray = truncations.view(bool)

    @staticmethod
    def nbytes(num_rows: int) -> int:
        """Return the bytes of n rows, in whole cache lines."""
        return -(-10 * num_rows // 64) * 64

    def rows(self, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rewards, terminations and truncations of `rows`, an index: views for a slice."""
        return self.rewards[rows], self.terminations[rows], self.truncations[rows]

    def taken(self, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return fresh copies of the arrays; a range stands for all rows."""
        if isinstance(rows, range):
            return self.rewards.copy(), self.terminations.copy(), self.truncations.copy()
        return self.rows(rows)


class RowMemory(NamedTuple):
    """Result memory of all rows, shared by all processes of a vector env.

    Attributes:
        obs: what every row shows.
        finals: what every row showed when it ended, before it was reset in the same step.
        steps: what its last step came to.
        progress: `[hosts, 8]` int64: of each process the number in it of the row that is moved
            now, `NO_ROW` between calls, and how many calls have moved rows.
        actions: what each row is to play, where other processes read it; None if actions have
            no array form.
        infos: `[n, 2, INFO_BYTES]` uint8: what `InfoForms` keep there.
    """

    obs: ObsBuffer
    finals: ObsBuffer
    steps: StepMemory
    progress: np.ndarray
    actions: ActionMemory | None
    infos: np.ndarray

    def messages(self, first: int) -> StepMessages:
        """Return the `StepMessages` of a process, by its first row."""
        return StepMessages(self.actions, InfoForms(self.infos), first)


@dataclass(frozen=True)
class MemoryForm:
    """Layout of the shared memory of all processes of a vector env.

    Attributes:
        space: of one row's observations.
        num_rows, num_hosts: of the vector env.
        strict: as of `ObsBuffer`.
        action_space: of one row's actions.
    """

    space: gym.Space[Any]
    num_rows: int
    num_hosts: int
    strict: bool
    action_space: gym.Space[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of a shared block that holds it."""
        return sum(self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        layout = layout_of(self.space)
        obs = 1 if layout is None else buffer_bytes(layout, self.num_rows)
        actions = layout_of(self.action_space)
        acted = 0 if actions is None else ActionMemory.nbytes(actions, self.num_rows)
        # All are whole cache lines where there is anything in them, so each begins on one.
        # In the order in which `memory` cuts.
        return (
            self.num_hosts * _PROGRESS_WORDS * 8,
            StepMemory.nbytes(self.num_rows),
            acted,
            2 * INFO_BYTES * self.num_rows,
            obs,
            obs,
        )

    def memory(self, block: SharedBlock | None) -> RowMemory:
        """Return the memory over a block, or over arrays of this process alone."""
        sizes = self._sizes()
        if block is None:
            parts = [np.zeros(size, np.uint8) for size in sizes]
        else:
            whole = block.ndarray((block.nbytes,), np.uint8)
            parts = np.split(whole, np.cumsum(sizes[:-1]))
        progress, steps, acted, infos, obs, finals = parts
        actions = layout_of(self.action_space)
        return RowMemory(
            ObsBuffer(self.space, self.num_rows, obs, strict=self.strict),
            ObsBuffer(self.space, self.num_rows, finals),
            StepMemory(self.num_rows, steps),
            progress.view(np.int64).reshape(self.num_hosts, _PROGRESS_WORDS),
            None if actions is None else ActionMemory(actions, self.num_rows, acted),
            infos.reshape(self.num_rows, 2, INFO_BYTES),
        )


# StepMessages -----------------------------------------------------------------
# request: what to step and where to write, [rows], [places], [resets]
# answer:  checksum, and for each info its row, where that stands in the call, and its form


#: Flags, the type of the actions, the number of the `out` or -1, how many forms of infos the
#: sender knows, and start and stop of rows and places: with a start of -1 so many numbers follow.
_REQUEST = struct.Struct("<Bcqi4i")
_SAME_STEP, _RESETS = 1, 2
_LISTED = -1
#: Checksum, how many rows have infos, and how many have ended.
_ANSWER = struct.Struct("<Qii")
_NUMBER = np.dtype("<i4")


class StepRequest(NamedTuple):
    """A decoded step request: rows, resets, places.

    Attributes:
        rows, actions, resets, same_step: as of `EnvRows.step`.
        out: number of the arrays that results are written to, and where in them; or None.
        forms: how many forms of infos the asking process knows.
    """

    rows: Sequence[int]
    actions: Any
    resets: Sequence[bool]
    same_step: bool
    out: tuple[int, Places] | None
    forms: int


class StepMessages:
    """Encodes and decodes the step messages of one process; both ends have one.

    Args:
        actions: memory of all rows of the vector env; None if actions have no array form.
        forms: of infos that this process's rows have.
        first: number of the process's first row.
    """

    def __init__(self, actions: ActionMemory | None, forms: InfoForms, first: int) -> None:
        self._actions, self.forms, self._first = actions, forms, first

    def request(self, args: Sequence[Any], out: tuple[int, Places] | None) -> bytes | None:
        """Return the message for a step; None if the actions have no array form."""
        rows, actions, resets, same_step = args
        # Actions go into shared memory first: the message that tells of them comes after.
        code = b"" if self._actions is None else self._actions.put(self._places(rows), actions)
        if not code:
            return None
        number, places = (-1, slice(0, 0)) if out is None else out
        flags = _SAME_STEP * same_step + _RESETS * (any_reset := any(resets))
        row_ends, row_list = _packed(rows)
        place_ends, place_list = _packed(places)
        ends = (*row_ends, *place_ends)
        head = _REQUEST.pack(flags, code, number, len(self.forms), *ends)
        return b"".join((head, row_list, place_list, bytes(resets) if any_reset else b""))

    def read_request(self, data: bytes) -> StepRequest:
        """Return the request of a message; the actions are fresh."""
        flags, code, number, forms, *ends = _REQUEST.unpack_from(data)
        start = _REQUEST.size
        rows, start = _read(data, start, *ends[:2])
        places, start = _read(data, start, *ends[2:])
        num_rows = len(rows)
        assert self._actions is not None
        resets = list(map(bool, data[start:])) if flags & _RESETS else [False] * num_rows
        actions = self._actions.take(self._places(rows), code)
        at = slice(places.start, places.stop) if isinstance(places, range) else places
        out = None if number < 0 else (number, at)
        return StepRequest(rows, actions, resets, bool(flags & _SAME_STEP), out, forms)

    def answer(self, asked: StepRequest, reply: Reply) -> bytes | Reply:
        """Return the message for a reply of `EnvRows.step`, or the reply if it has no such form."""
        rows, known = asked.rows, asked.forms
        infos, finals, obs, _, _, states, shown, checksum, *_ = reply
        # Triples: k, the row in the vector env, and the number of the form.
        numbers: list[int] = []
        plain = obs is None and states is None and shown is None
        for k, info in infos:
            row = self._first + rows[k]
            # Written even if a later one does not fit: unread bytes do no harm.
            numbers += (k, row, self.forms.write(row, 0, info, known))
        for k, final, info in finals:
            plain = plain and final is IN_MEMORY
            row = self._first + rows[k]
            numbers += (k, row, self.forms.write(row, 1, info, known))
        # -1: an info that cannot be written to memory.
        if not plain or -1 in numbers[2::3]:
            return reply._replace(forms=(known, tuple(self.forms.since(known))))
        assert checksum is not None
        head = _ANSWER.pack(checksum, len(infos), len(finals))
        return head + np.array(numbers, _NUMBER).tobytes() if numbers else head

    def read_answer(self, data: Any) -> Any:
        """Return the reply of a message; anything else is returned as it is."""
        if type(data) is not bytes:
            if type(data) is Reply and data.forms is not None:
                self.forms.learn(*data.forms)
            return data
        checksum, num_infos, num_finals = _ANSWER.unpack_from(data)
        # The usual answer: a checksum, and everything else in memory.
        if not num_infos and not num_finals:
            return Reply(checksum=checksum)
        numbers = np.frombuffer(data, _NUMBER, offset=_ANSWER.size).reshape(-1, 3).tolist()
        read = self.forms.read
        infos = [(k, read(row, 0, form)) for k, row, form in numbers[:num_infos]]
        finals = [(k, IN_MEMORY, read(row, 1, form)) for k, row, form in numbers[num_infos:]]
        return Reply(infos, finals, checksum=checksum)

    def _places(self, rows: Sequence[int]) -> Places:
        """Return where rows of this process are among all."""
        if isinstance(rows, range):
            return slice(self._first + rows.start, self._first + rows.stop)
        return [self._first + row for row in rows]


def _packed(numbers: Any) -> tuple[tuple[int, int], bytes]:
    if isinstance(numbers, slice | range):
        return (numbers.start, numbers.stop), b""
    return (_LISTED, len(numbers)), np.array(numbers, _NUMBER).tobytes()


def _read(data: bytes, offset: int, start: int, stop: int) -> tuple[Any, int]:
    """Return numbers that `_packed` wrote, and where the next ones begin."""
    if start != _LISTED:
        return range(start, stop), offset
    found = np.frombuffer(data, _NUMBER, stop, offset).tolist()
    return found, offset + stop * _NUMBER.itemsize


# ActionMemory: the rows' actions in shared memory -----------------------------


#: Bytes of the widest number. A slot has as many for each number of an action.
_WIDEST = 8
_LINE = 64
#: What `put` says of actions that are nested; of others it says the type of their numbers.
_NESTED = b"*"

Places = slice | Sequence[int]


class ActionMemory:
    """One action of each of n rows.

    Args:
        layout: of the actions.
        num_rows: n.
        memory: uint8 array of at least `nbytes(layout, n)`.
    """

    def __init__(self, layout: SpaceLayout, num_rows: int, memory: np.ndarray) -> None:
        self._layout = layout
        self._shape = (num_rows, *layout.leaves[0].shape) if layout.leaves else (num_rows,)
        self._memory = memory
        #: The same memory as arrays of numbers of each type.
        self._views: dict[bytes, np.ndarray] = {}
        self._leaves: list[np.ndarray] = []
        start = 0
        for leaf in () if layout.is_flat else layout.leaves:
            shape = (num_rows, *leaf.shape)
            self._leaves.append(np.ndarray(shape, leaf.dtype, memory, start))
            start += _size(shape)

    @staticmethod
    def nbytes(layout: SpaceLayout, num_rows: int) -> int:
        """Return the bytes of n actions."""
        return max(_LINE, sum(_size((num_rows, *leaf.shape)) for leaf in layout.leaves))

    def put(self, places: Places, actions: Sequence[Any] | np.ndarray) -> bytes:
        """Keep the actions of some rows.

        Returns:
            One byte that `take` reads them by; empty if they do not fit, so that `take` could not
            return equal ones.
        """
        if isinstance(actions, np.ndarray):
            return self._put_array(places, actions)
        if self._layout.is_flat or not self._layout.leaves:
            return b""
        numbers = range(places.start, places.stop) if isinstance(places, slice) else places
        for row, action in zip(numbers, actions, strict=True):
            if not is_nested(self._layout.space, action, _is_leaf):
                return b""
            for array, part in zip(self._leaves, self._layout.split(action), strict=True):
                array[row] = part
        return _NESTED

    def _put_array(self, places: Places, actions: np.ndarray) -> bytes:
        dtype = actions.dtype
        code = dtype.char.encode()
        if dtype.kind not in "biuf" or dtype.itemsize > _WIDEST or not dtype.isnative:
            return b""
        if not self._layout.is_flat or actions.shape[1:] != self._shape[1:]:
            return b""
        view = self._views.get(code)
        if view is None:
            view = self._view(code)
        view[places] = actions
        return code

    def take(self, places: Places, code: bytes) -> Sequence[Any] | np.ndarray:
        """Return the actions of some rows, fresh, in the types in which they were given."""
        if code != _NESTED:
            found = self._view(code)[places]
            # An index list has made a copy already.
            return found.copy() if isinstance(places, slice) else found
        numbers = range(places.start, places.stop) if isinstance(places, slice) else places
        join = self._layout.join
        return [join(tuple(leaf[row].copy() for leaf in self._leaves)) for row in numbers]

    def _view(self, code: bytes) -> np.ndarray:
        if code not in self._views:
            self._views[code] = np.ndarray(self._shape, np.dtype(code.decode()), self._memory)
        return self._views[code]


def _size(shape: tuple[int, ...]) -> int:
    # For the widest type, whatever the space's: actions are kept in that in which they came.
    return -(-int(np.prod(shape)) * _WIDEST // _LINE) * _LINE


def _is_leaf(space: spaces.Space[Any], action: Any) -> bool:
    # A number of an array is read again as a scalar of its type.
    kind = np.ndarray if space.shape else np.dtype(space.dtype).type
    return type(action) is kind and action.shape == space.shape and action.dtype == space.dtype
