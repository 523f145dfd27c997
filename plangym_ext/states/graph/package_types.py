"""Value types of torch, pandas and PIL in object graphs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.states.plain import NotPlain


def types_of(package: str) -> dict[Any, DataType]:
    """Return the types of a package that is loaded, by their classes."""
    return {"torch": _torch, "pandas": _pandas, "PIL": _pil}[package]()


# torch ------------------------------------------------------------------------------


@functools.cache
def _torch() -> dict[Any, DataType]:
    torch: Any = sys.modules["torch"]
    dtypes = {str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype)}

    def parts(value: Any) -> tuple[Any, ...]:
        if value.device.type != "cpu" or value.layout != torch.strided or value.is_quantized:
            raise NotPlain(f"a tensor on {value.device}, {value.layout}")
        storage = value.untyped_storage()
        # Others may see what is written to it, and are not known here.
        whole = value.is_contiguous() and storage.nbytes() == value.numel() * value.element_size()
        if value.grad_fn is not None or value.grad is not None or value._is_view():
            raise NotPlain("a tensor that is a part of others or has a gradient")
        if not (whole and (storage.resizable() or not value.numel())):
            raise NotPlain("a tensor over memory that is not its own")
        # Of a copy: what numpy has seen of a tensor is not its own any more.
        data = value.detach().clone().reshape(-1).view(torch.uint8).numpy().tobytes()
        return str(value.dtype), tuple(value.shape), value.requires_grad, data

    def memory(value: Any) -> int:
        return int(value.untyped_storage().data_ptr())

    def made(dtype: str, shape: tuple[int, ...], requires_grad: bool, data: bytes) -> Any:
        kind = dtypes[dtype]
        if type(data) is not bytes:  # of a number they would be that many zeros
            raise TypeError("a tensor of no bytes")
        flat = torch.frombuffer(bytearray(data), dtype=kind) if data else torch.empty(0, dtype=kind)
        return flat.reshape(shape).clone().requires_grad_(bool(requires_grad))

    def parameter(dtype: str, shape: Any, requires_grad: bool, data: bytes) -> Any:
        tensor = made(dtype, shape, False, data)
        return torch.nn.Parameter(tensor, requires_grad=bool(requires_grad))

    def generator_parts(value: Any) -> tuple[Any, ...]:
        if value.device.type != "cpu":
            raise NotPlain(f"a torch.Generator on {value.device}")
        return (value.get_state().numpy().tobytes(),)

    def generator(data: bytes) -> Any:
        found = torch.Generator()
        if type(data) is not bytes or len(data) != found.get_state().numel():
            raise ValueError(f"a torch.Generator of {len(data)} bytes")
        found.set_state(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return found

    return {
        torch.Tensor: DataType("torch.Tensor", parts, made, True, memory=memory),
        torch.nn.Parameter: DataType("torch.Parameter", parts, parameter, True, memory=memory),
        torch.Generator: DataType("torch.Generator", generator_parts, generator, True),
        torch.Size: DataType("torch.Size", tuple, lambda *sizes: torch.Size(sizes)),
        torch.device: DataType("torch.device", lambda value: (str(value),), torch.device),
        torch.dtype: DataType("torch.dtype", lambda value: (str(value),), dtypes.__getitem__),
    }


# pandas -----------------------------------------------------------------------------


@functools.cache
def _pandas() -> dict[Any, DataType]:
    pd: Any = sys.modules["pandas"]
    if int(pd.__version__.partition(".")[0]) < 3:
        return {}  # whose columns may be views of one another

    def values_of(column: Any) -> Any:
        dtype = column.dtype
        if isinstance(dtype, np.dtype):
            return column.to_numpy().tolist() if dtype.hasobject else column.to_numpy()
        if str(dtype) == "str":
            return column.tolist()
        raise NotPlain(f"a column of {dtype}")

    def named(value: Any) -> Any:
        if getattr(value, "attrs", None):
            raise NotPlain(f"a {type(value).__qualname__} with attrs")
        return value.name

    def index_parts(value: Any) -> tuple[Any, ...]:
        return str(value.dtype), values_of(value), named(value)

    def index(dtype: str, values: Any, name: Any) -> Any:
        return pd.Index(values, dtype=dtype, name=name)

    def range_parts(value: Any) -> tuple[Any, ...]:
        return value.start, value.stop, value.step, value.name

    def series_parts(value: Any) -> tuple[Any, ...]:
        return value.index, str(value.dtype), values_of(value), named(value)

    def series(rows: Any, dtype: str, values: Any, name: Any) -> Any:
        return pd.Series(values, index=rows, dtype=dtype, name=name)

    def frame_parts(value: Any) -> tuple[Any, ...]:
        if value.attrs:
            raise NotPlain("a DataFrame with attrs")
        columns = [value.iloc[:, i] for i in range(value.shape[1])]
        contents = [(str(column.dtype), values_of(column)) for column in columns]
        return value.index, value.columns, contents

    def frame(rows: Any, columns: Any, contents: list[tuple[str, Any]]) -> Any:
        held = {i: pd.Series(v, index=rows, dtype=d) for i, (d, v) in enumerate(contents)}
        made = pd.DataFrame(held, index=rows)
        made.columns = columns
        return made

    return {
        pd.RangeIndex: DataType(
            "pandas.RangeIndex",
            range_parts,
            lambda a, b, c, name: pd.RangeIndex(a, b, c, name=name),
        ),
        pd.Index: DataType("pandas.Index", index_parts, index),
        pd.Series: DataType("pandas.Series", series_parts, series, True),
        pd.DataFrame: DataType("pandas.DataFrame", frame_parts, frame, True),
    }


# PIL --------------------------------------------------------------------------------


@functools.cache
def _pil() -> dict[Any, DataType]:
    image: Any = sys.modules["PIL.Image"]
    #: Bytes of a pixel.
    modes = {"1": 0, "L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "I": 4, "F": 4, "CMYK": 4, "HSV": 3}

    def parts(value: Any) -> tuple[Any, ...]:
        if value.mode not in modes or value.info:
            raise NotPlain(f"an image of mode {value.mode}, with {len(value.info)} notes")
        return value.mode, value.size, value.tobytes()

    def made(mode: str, size: tuple[int, int], data: bytes) -> Any:
        # Before PIL makes room for it.
        width, height = size
        row = -(-width // 8) if mode == "1" else width * modes[mode]
        if width < 0 or height < 0 or type(data) is not bytes or len(data) != row * height:
            raise ValueError(f"an image of {size} and {len(data)} bytes")
        return image.frombytes(mode, size, data).copy()

    return {image.Image: DataType("PIL.Image", parts, made, True)}


# DataType ---------------------------------------------------------------------


Parts = tuple[Any, ...]


class DataType(NamedTuple):
    """Rules for one type: disassembly into parts and construction from them.

    Attributes:
        name: what graphs call it.
        parts: from a value to what it is made of; raises `NotPlain` if that is not all.
        made: the inverse; raises one of `plain.MALFORMED` for what `parts` did not return.
        in_place: whether values change in place, so that it matters who else holds one.
        empty: for types whose values may hold themselves: makes the first argument of `made`.
        memory: the address of the memory that a value is a view of; two views of one memory are
            no plain data.
        holds_any: whether parts may be any objects of a graph. Of other types they are plain
            values, as `made` could call the methods of anything else.
    """

    name: str
    parts: Callable[[Any], Parts]
    made: Callable[..., Any]
    in_place: bool = False
    empty: Callable[[], Any] | None = None
    memory: Callable[[Any], int] | None = None
    holds_any: bool = False
