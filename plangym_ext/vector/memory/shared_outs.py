"""SharedOuts: `out=` arrays of the caller that worker processes write directly."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import NamedTuple

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.invalid import MARKS
from plangym_ext.vector.memory.step_out import OutArrays, Places, StepOut
from plangym_ext.workers.batch_layout import Place
from plangym_ext.workers.protocol import ForgetBlock, ForgetLayout

#: Number that workers know the vector env's own memory by.
OWN_BLOCK = 0
#: Layouts that workers are to remember.
_MAX_LAYOUTS = 4096
#: Set by this process when all have answered, for it looks at the values: marks of invalid ones.
_SET_HERE = (f"infos:{MARKS.key}", f"infos:_{MARKS.key}")


class OutLayout(NamedTuple):
    """Places of the arrays of an `out` that workers write to.

    Attributes:
        number: that workers know it by.
        places: of the arrays.
        blocks: by number, in which these lie.
        hosted: the arrays that the processes of the rows write to.
        rest: the others, which this process writes to.
        wanted: names of the infos that the processes of the rows return; None for all.
    """

    number: int
    places: tuple[Place, ...]
    blocks: dict[int, SharedBlock]
    hosted: OutArrays
    rest: OutArrays
    wanted: frozenset[str] | None

    @property
    def usable(self) -> bool:
        """Whether a worker without this memory could still map it."""
        return not any(block.closed for block in self.blocks.values())


class OutShare(NamedTuple):
    """Places for the rows of one process in one call.

    Attributes:
        layout: of the whole call.
        places: where these rows stand in it.
    """

    layout: OutLayout
    places: Places


class SharedOuts:
    """Numbers the arrays of `out` and their memory, so that workers learn of each once.

    Args:
        expire: takes `ForgetBlock` and `ForgetLayout` for all workers that know of it.
        in_workers: whether the rows live in workers; else they write to every array.
    """

    def __init__(
        self, expire: Callable[[ForgetBlock | ForgetLayout], object], *, in_workers: bool
    ) -> None:
        self._expire, self._in_workers = expire, in_workers
        self._next = itertools.count(OWN_BLOCK + 1)
        self._numbers: weakref.WeakKeyDictionary[SharedBlock, int] = weakref.WeakKeyDictionary()
        self._layouts: dict[tuple[tuple[Place, ...], frozenset[str] | None], int] = {}
        #: Numbers of blocks that were collected.
        self._gone: list[int] = []

    def layout(self, out: StepOut) -> OutLayout:
        """Return the places of the arrays of an `out`."""
        found: OutLayout | None = out.layout
        if found is None or not found.usable:
            found = out.layout = self._layout(out)
        while self._gone:
            number = self._gone.pop()
            self._expire(ForgetBlock(number))
            for known in [k for k in self._layouts if any(p.block == number for p in k[0])]:
                self._expire(ForgetLayout(self._layouts.pop(known)))
        return found

    def _layout(self, out: StepOut) -> OutLayout:
        arrays = out.arrays
        hosted, places, blocks = [], [], {}
        for name, array in arrays.fields.items():
            if name in _SET_HERE:
                continue
            if not self._in_workers:
                hosted.append(name)
            elif (lies := SharedBlock.of(array)) is not None:
                block, offset = lies
                number = self._number(block)
                blocks[number] = block
                shape, dtype = array.shape, array.dtype.str
                places.append(Place(name, number, offset, shape, dtype, array.strides))
                hosted.append(name)
        rest = arrays.only(name for name in arrays.fields if name not in hosted)
        # Workers need the layout to write into it.
        wanted = None if rest.has_infos else out.wanted
        known = tuple(places)
        written = arrays.only(hosted, wanted)
        return OutLayout(self._known(known, wanted), known, blocks, written, rest, wanted)

    def _number(self, block: SharedBlock) -> int:
        known = self._numbers.get(block)
        if known is None:
            known = self._numbers[block] = next(self._next)
            # A finalizer may run in the midst of anything, so it only notes the number. Workers
            # are told with the next `out`.
            weakref.finalize(block, self._gone.append, known)
        return known

    def _known(self, places: tuple[Place, ...], wanted: frozenset[str] | None) -> int:
        """Return the number that workers know a layout by."""
        known = places, wanted
        if known not in self._layouts:
            if len(self._layouts) >= _MAX_LAYOUTS:
                # The oldest. Hosts strike it off, and introduce it anew for an `out` that has it.
                self._expire(ForgetLayout(self._layouts.pop(next(iter(self._layouts)))))
            self._layouts[known] = next(self._next)
        return self._layouts[known]
