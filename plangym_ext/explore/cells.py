"""Cell functions of Go-Explore: from observations or infos to cell keys.

A cell function takes a batch, `obs` nested `[B, *obs]` and `infos` with columns `[B]`, and
returns `[B, K]` whole numbers. Rows are in the same cell if all K numbers are equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, num_rows
from plangym_ext.core.compiling.jit import allocating_kernel
from plangym_ext.core.infos import info_values
from plangym_ext.core.numbers import at_least, check_kind, finite_between
from plangym_ext.errors import InvalidOption

Cells = Callable[[Any, Any], npt.NDArray[Any]]

# Weights of the three colours in a grey level, as ITU-R BT.601 has them, in 1/256.
_RED, _GREEN, _BLUE = 77, 150, 29
_GREY = 8  # bits that the weights add


@dataclass(frozen=True)
class InfoCells:
    """Cells by fields of the infos, such as room and inventory.

    Args:
        fields: names of numeric fields, each with the width of its intervals; 1 for whole
            numbers that are taken as they are.
    """

    fields: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, *names: str, **widths: float) -> InfoCells:
        """Return cells of exact fields, and of other fields in intervals of some width."""
        return cls((*((name, 1.0) for name in names), *widths.items()))

    def __post_init__(self) -> None:
        pairs: Any = self.fields
        if not isinstance(pairs, tuple) or not all(
            isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in pairs
        ):
            raise InvalidOption(
                f"InfoCells: fields must be pairs of a name and a width; got {pairs!r:.80}. "
                f"InfoCells.of('room', x=0.5) makes them."
            )
        for name, width in self.fields:
            finite_between(f"InfoCells: width of {name!r}", width, 1e-9, np.inf)

    def __call__(self, obs: Any, infos: Any) -> npt.NDArray[np.int64]:
        """Return `[B, K]` int64, fresh.

        Raises:
            InvalidOption: the infos have no such field.
        """
        found = [
            np.floor(_field(infos, name, num_rows(obs)) / width) for name, width in self.fields
        ]
        return np.stack(found, axis=1).astype(np.int64)


@dataclass(frozen=True)
class FrameCells:
    """Cells by screens reduced to few pixels and grey levels.

    Args:
        height: rows of the small screen.
        width: its columns.
        levels: of grey.

    Source: Ecoffet et al. 2021, "First return, then explore": 11 by 8 pixels of 8 levels in the
    earlier version of the method; the paper adapts the three numbers while it explores, which
    is not done here.
    """

    height: int = 8
    width: int = 11
    levels: int = 8

    def __post_init__(self) -> None:
        at_least("FrameCells: height", self.height, 1)
        at_least("FrameCells: width", self.width, 1)
        finite_between("FrameCells: levels", at_least("FrameCells: levels", self.levels, 1), 1, 256)

    def __call__(self, obs: Any, infos: Any) -> npt.NDArray[np.uint8]:  # noqa: ARG002
        """Return `[B, height * width]` uint8, fresh.

        Raises:
            InvalidOption: observations are no screens `[B, H, W(, 3)]` uint8 of that size.
        """
        screens = np.asarray(obs) if not isinstance(obs, dict | tuple) else np.empty(0)
        shape: tuple[int, ...] = screens.shape[1:]
        if (
            screens.dtype != np.uint8
            or shape[2:] not in ((), (1,), (3,))
            or len(shape) < 2
            or shape[0] < self.height
            or shape[1] < self.width
        ):
            raise InvalidOption(
                f"FrameCells: observations must be screens [B, H, W] or [B, H, W, 3] uint8 of at "
                f"least {self.height} by {self.width} pixels; got {list(screens.shape)} "
                f"{screens.dtype}. Choose other cells, such as 'obs' or 'info:NAME,...'."
            )
        # [B, H, W, 1 or 3]
        grey = screens.reshape(*screens.shape[:3], -1)
        small = np.empty((len(grey), self.height, self.width), np.uint8)
        shrink(grey, self.levels, small)
        return small.reshape(len(grey), -1)


@dataclass(frozen=True)
class ObsCells:
    """Cells by all numbers of an observation; texts are left out.

    Args:
        resolution: width of the intervals into which numbers are put.
    """

    resolution: float = 1.0

    def __post_init__(self) -> None:
        finite_between("ObsCells: resolution", self.resolution, 1e-9, np.inf)

    def __call__(self, obs: Any, infos: Any) -> npt.NDArray[Any]:  # noqa: ARG002
        """Return `[B, K]` whole numbers, fresh.

        Raises:
            InvalidOption: observations hold no numbers.
        """
        parts = [part for part in map(np.asarray, leaves(obs)) if part.dtype.kind in "biuf"]
        if not parts:
            raise InvalidOption(
                "ObsCells: observations hold no numbers. Choose other cells, such as "
                "'info:NAME,...', or give a function."
            )
        flat = [self._whole(part.reshape(len(part), -1)) for part in parts]
        return np.concatenate(flat, axis=1)

    def _whole(self, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.resolution == 1.0 and part.dtype.kind in "biu":
            return part.astype(np.uint8) if part.dtype.kind == "b" else part
        return np.floor(part / self.resolution).astype(np.int64)


def cells_named(text: str) -> Cells:
    """Return the cell function of a name.

    Args:
        text: "frames" or "frames:HEIGHTxWIDTHxLEVELS"; "obs" or "obs:RESOLUTION";
            "info:NAME,NAME/WIDTH,...".

    Raises:
        InvalidOption: it names none.
    """
    check_kind("cells", text, str, "a name such as 'frames', 'obs:0.5' or 'info:room'")
    kind, _, rest = text.partition(":")
    size = re.fullmatch(r"(\d+)x(\d+)x(\d+)", rest)
    if kind == "frames" and not rest:
        return FrameCells()
    if kind == "frames" and size:
        return FrameCells(*map(int, size.groups()))
    if kind == "obs":
        return ObsCells(_number(rest, text) if rest else 1.0)
    if kind == "info" and rest:
        fields = [field.partition("/") for field in rest.split(",")]
        return InfoCells(tuple((name, _number(w, text) if w else 1.0) for name, _, w in fields))
    raise _unknown(text)


def cells_for(space: Any) -> Cells:
    """Return the default cell function of an observation space.

    Screens are made small; of other observations all numbers count, those that are not whole in
    intervals of 0.25.
    """
    coarse = FrameCells()
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    is_screen = space.dtype == np.uint8 and len(shape) > 1 and shape[2:] in ((), (1,), (3,))
    if is_screen and shape[0] > coarse.height and shape[1] > coarse.width:
        return coarse
    parts = [space]
    while parts and hasattr(parts[0], "spaces"):
        inner = parts.pop(0).spaces
        parts = [*(inner.values() if hasattr(inner, "values") else inner), *parts]
    kinds = [np.dtype(part.dtype).kind for part in parts if part.dtype is not None]
    return ObsCells(0.25 if "f" in kinds else 1.0)


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _unknown(whole) from None


def _unknown(text: str) -> InvalidOption:
    return InvalidOption(
        f"cells must be 'frames', 'frames:8x11x8', 'obs', 'obs:RESOLUTION' or "
        f"'info:NAME,NAME/WIDTH,...'; got {text!r}."
    )


def _field(infos: Any, name: str, count: int) -> npt.NDArray[Any]:
    """Return a field of all rows, `[B]`."""
    found, known = info_values(infos, name, count)
    if not known.all() or found.ndim != 1 or found.dtype.kind not in "biuf":
        told = ", ".join(infos.keys()) or "none"
        some = f" in {int((~known).sum())} of {len(known)} rows" if known.any() else ""
        raise InvalidOption(
            f"InfoCells: the infos have no numeric field {name!r}{some}; they have {told}. Name "
            f"one that every step tells, or choose other cells."
        )
    return found


@allocating_kernel
def shrink(screens: Any, levels: int, small: Any) -> None:
    """Write the mean grey of each tile of screens, in `levels` steps.

    Args:
        screens: `[B, H, W, 1 or 3]` uint8.
        levels: steps from black to white.
        small: `[B, h, w]` uint8, written. Tile i of h rows is made of those from i * H // h to
            (i + 1) * H // h.
    """
    batch, height, width, colours = screens.shape
    _, rows, columns = small.shape
    sums = np.empty(columns, np.int64)
    for b in range(batch):
        for i in range(rows):
            top, bottom = i * height // rows, (i + 1) * height // rows
            sums[:] = 0
            for y in range(top, bottom):
                for j in range(columns):
                    # int64 throughout: weighted uint8 would wrap.
                    total = np.int64(0)
                    for x in range(j * width // columns, (j + 1) * width // columns):
                        if colours == 3:
                            red = _RED * np.int64(screens[b, y, x, 0])
                            green = _GREEN * np.int64(screens[b, y, x, 1])
                            blue = _BLUE * np.int64(screens[b, y, x, 2])
                            total += (red + green + blue) >> _GREY
                        else:
                            total += np.int64(screens[b, y, x, 0])
                    sums[j] += total
            for j in range(columns):
                # Columns of this tile: tiles differ by one where the sizes do not divide.
                across = (j + 1) * width // columns - j * width // columns
                # Less than `levels`, as a mean of uint8 is less than 256.
                small[b, i, j] = sums[j] * levels // (256 * across * (bottom - top))
