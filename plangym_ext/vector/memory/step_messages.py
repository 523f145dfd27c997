"""StepMessages: compact step messages between the vector env and its processes.

request: what to step and where to write, [rows], [places], [resets]
answer:  checksum, and for each info its row, where that stands in the call, and its form
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.vector.memory.action_memory import ActionMemory, Places
from plangym_ext.vector.memory.info_forms import InfoForms
from plangym_ext.vector.results import IN_MEMORY, Reply

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
        """Return the message for a step; None if the actions have no array form.

        Args:
            args: of `EnvRows.step`.
            out: as of `StepRequest`.
        """
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
        """Return the message for a reply of `EnvRows.step`; or a reply, to be sent otherwise."""
        rows, known = asked.rows, asked.forms
        infos, finals, obs, _, _, states, shown, checksum, *_ = reply
        # Triples: k, the row in the vector env, and the number of the form.
        numbers: list[int] = []
        plain = obs is None and states is None and shown is None
        for k, info in infos:
            row = self._first + rows[k]
            # Written even if a later one does not fit: what is not read does no harm.
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
