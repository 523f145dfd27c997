"""InfoForms: numeric infos as bytes in shared memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Bytes that the infos of one row have: of its step, and of an episode that ended in it.
INFO_BYTES = 512
#: Forms that a process remembers; infos that have others travel by pickle.
MAX_FORMS = 256

_SCALARS: dict[type, str] = {bool: "?", int: "q", float: "d"}


class InfoForm(NamedTuple):
    """Keys, types and array shapes of infos with one byte layout.

    Attributes:
        keys: in their order.
        kinds: type of each value.
        arrays: dtype and shape of each value that is an array, None for others.
    """

    keys: tuple[str, ...]
    kinds: tuple[type, ...]
    arrays: tuple[tuple[str, tuple[int, ...]] | None, ...]

    @classmethod
    def of(cls, info: dict[str, Any]) -> InfoForm | None:
        """Return the form of an info; None if a value is not a number or an array of numbers."""
        arrays: list[tuple[str, tuple[int, ...]] | None] = []
        for key, value in info.items():
            kind = type(value)
            if type(key) is not str:
                return None
            if kind is np.ndarray and _plain(value):
                arrays.append((value.dtype.str, value.shape))
            elif kind in _SCALARS or _is_scalar(value):
                arrays.append(None)
            else:
                return None
        return cls(tuple(info), tuple(map(type, info.values())), tuple(arrays))


def _is_scalar(value: Any) -> bool:
    own = type(value).__module__ != "numpy"  # a class of someone else's, to be kept as it is
    return isinstance(value, np.generic) and not own and _plain(value)


def _plain(value: Any) -> bool:
    return value.dtype.kind in "biuf" and value.dtype.isnative and value.dtype.itemsize <= 8


class _Codec:
    """Writes and reads infos of one form."""

    def __init__(self, form: InfoForm) -> None:
        self._form = form
        parts, self._into, self._back = [], [], []
        for number, (kind, array) in enumerate(zip(form.kinds, form.arrays, strict=True)):
            if array is not None:
                dtype, shape = np.dtype(array[0]), array[1]
                parts.append(f"{int(np.prod(shape)) * dtype.itemsize}s")
                self._into.append((number, np.ndarray.tobytes))
                self._back.append((number, _array_reader(dtype, shape)))
            elif kind in _SCALARS:
                parts.append(_SCALARS[kind])
            else:
                size = np.dtype(kind).itemsize
                parts.append(f"{size}s")
                self._into.append((number, np.generic.tobytes))
                self._back.append((number, _scalar_reader(np.dtype(kind))))
        self._struct = struct.Struct("<" + "".join(parts))
        self.nbytes = self._struct.size

    def write(self, memory: memoryview, start: int, info: dict[str, Any]) -> bool:
        """Write an info; return whether it has this form and fits."""
        form = self._form
        values: Any = info.values()
        if (
            # The order of keys counts, too: the dict that is read has that of its form.
            type(info) is not dict
            or tuple(info) != form.keys
            or tuple(map(type, values)) != form.kinds
        ):
            return False
        if self._into:
            values = list(values)
            for number, bytes_of in self._into:
                array = form.arrays[number]
                value = values[number]
                if array is not None and (value.dtype.str, value.shape) != array:
                    return False
                values[number] = bytes_of(value)
        try:
            self._struct.pack_into(memory, start, *values)
        except struct.error:  # an int of more than 64 bits
            return False
        return True

    def read(self, memory: memoryview, start: int) -> dict[str, Any]:
        """Return the info that was written, of equal values and types."""
        values: Any = self._struct.unpack_from(memory, start)
        if self._back:
            values = list(values)
            for number, value_of in self._back:
                values[number] = value_of(values[number])
        return dict(zip(self._form.keys, values, strict=True))


def _array_reader(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[bytes], Any]:
    # A copy: bytes are read-only, and infos are the caller's.
    return lambda data: np.frombuffer(data, dtype).reshape(shape).copy()


def _scalar_reader(dtype: np.dtype[Any]) -> Callable[[bytes], Any]:
    return lambda data: np.frombuffer(data, dtype)[0]


class InfoForms:
    """Numbered info forms known to both of two processes.

    The one that reads tells with every call how many it knows; the writer uses those, and sends new
    ones with its answer. So it does not matter which answers are never read.

    Args:
        memory: `[n, 2, INFO_BYTES]` uint8: of each row the info of its step, and of an ending.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory.reshape(-1).data
        self._forms: list[InfoForm] = []
        self._codecs: list[_Codec] = []
        self._numbers: dict[InfoForm, int] = {}
        self._last = 0
        self._add(InfoForm((), (), ()))  # both know it from the beginning

    def __len__(self) -> int:
        return len(self._forms)

    def since(self, known: int) -> Sequence[InfoForm]:
        """Return the forms from a number on."""
        return self._forms[known:]

    def learn(self, first: int, forms: Sequence[InfoForm]) -> None:
        """Record forms that the other process has numbered from `first` on."""
        for number, form in enumerate(forms, first):
            # Else two calls were begun with the same `known`, and both answers have brought it.
            if number == len(self._forms):
                self._add(form)
            assert self._forms[number] == form

    def _add(self, form: InfoForm) -> None:
        self._codecs.append(_Codec(form))
        self._numbers[form] = len(self._forms)
        self._forms.append(form)

    def write(self, row: int, place: int, info: dict[str, Any], known: int) -> int:
        """Write an info.

        Args:
            row: whose.
            place: 0 for that of the step, 1 for that of an ending.
            info: the info.
            known: how many forms the other process knows.

        Returns:
            The number of its form; -1 if the info has to travel otherwise.
        """
        start = (2 * row + place) * INFO_BYTES
        last = self._last
        # Mostly all have the same one.
        if last < known and self._codecs[last].write(self._memory, start, info):
            return last
        form = InfoForm.of(info)
        number = -1 if form is None else self._number(form)
        # A form that just got its number serves from the next call on: it has yet to be learned.
        if not 0 <= number < known or not self._codecs[number].write(self._memory, start, info):
            return -1
        self._last = number
        return number

    def _number(self, form: InfoForm) -> int:
        """Return the number of a form, which gets one if there is room."""
        if form not in self._numbers:
            if len(self._forms) >= MAX_FORMS or _Codec(form).nbytes > INFO_BYTES:
                return -1
            self._add(form)
        return self._numbers[form]

    def read(self, row: int, place: int, number: int) -> dict[str, Any]:
        """Return the info that the other process has written; arguments as for `write`."""
        start = (2 * row + place) * INFO_BYTES
        return self._codecs[number].read(self._memory, start)
