"""Code generator: specialised write and read functions for graphs of one structure.

What `writer` and `reader` decide node by node is the same for all graphs whose nodes have the
same types, names, lengths and ties; only numbers and the bytes of arrays differ. So once a graph
was written or read by them, its structure becomes two Python functions without decisions: one
compares the objects with the structure and gathers the values, the other unpacks the values and
sets them in the objects. Both give up where anything differs. Their text has whole numbers and
quoted attribute names of the graph; everything else of it is passed as a constant.
"""

from __future__ import annotations

import itertools
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from plangym_ext.states import plain
from plangym_ext.states.graph import plan_text
from plangym_ext.states.graph.array_views import owner_of, place_of
from plangym_ext.states.graph.data_types import named_data_type
from plangym_ext.states.graph.kinds import COLUMNS, Kind, taker
from plangym_ext.states.graph.plan_text import NoPlan, PlanText, items, pairs

#: Nodes of the largest structure that gets functions of its own: a line or two each.
_MOST_NODES = 4096


class PlanSource:
    """Both functions of a structure.

    Args:
        levels: the nodes of a graph, level by level.
        kinds: of all nodes, in that order.
        ints: the block of whole numbers of that graph.
        table: its first block.

    Raises:
        NoPlan: it holds what is left to `writer` and `reader`.
    """

    def __init__(
        self, levels: Sequence[list[Any]], kinds: bytes, ints: list[int], table: bytes
    ) -> None:
        self._names_in, *_, self._names = json.loads(table)
        if len(kinds) > _MOST_NODES or isinstance(self._names, int):
            raise NoPlan
        self._text = PlanText(ints)
        self._kinds: list[bytes] = []
        #: What reading calls the nodes of each level.
        self._expressions: list[list[str]] = []
        #: By level and place of a node: where its children are in the level below.
        self._spans: dict[tuple[int, int], tuple[int, int]] = {}
        self._data_names: dict[tuple[int, int], str] = {}
        #: What nodes refer to that were met before.
        self._targets: set[str] = set()
        at = 0
        for depth, level in enumerate(levels):
            self._kinds.append(kinds[at : at + len(level)])
            at += len(level)
            self._put_level(depth, level)
        for depth in reversed(range(len(levels))):
            self._fill_level(depth, levels[depth])

    def writer(self, head: bytes, first: tuple[int, int]) -> Callable[..., Any]:
        """Return the function that writes; see `PlanText.writer`."""
        return self._text.writer(head, first)

    def reader(self) -> Callable[..., Any]:
        """Return the function that reads; see `PlanText.reader`."""
        return self._text.reader(self._names, self._expressions[0] if self._expressions else [])

    def _put_level(self, depth: int, level: list[Any]) -> None:
        kinds, here = self._kinds[depth], f"L{depth}"
        if depth:
            self._text.unless(
                f"[*map(type, {here})] != {self._text.constant(list(map(type, level)))}"
            )
        self._expressions.append([""] * len(level))
        self._num_children, self._children = 0, [""][:0]
        for column in COLUMNS:
            places = [i for i, own in enumerate(kinds) if own == column]
            if places:
                take = f"{self._text.constant(taker(places))}({here})"
                _COLUMNS[column](self, depth, places, take, [level[i] for i in places])
        for place, kind in enumerate(kinds):
            if kind == Kind.NONE:
                if level[place] is not None:
                    raise NoPlan
                self._expressions[depth][place] = "None"
            elif kind > COLUMNS[-1]:
                write = _OTHERS.get(kind)
                if write is None:
                    raise NoPlan
                source = f"v{depth}_{place}"
                self._text.writing.append(f"{source} = {here}[{place}]")
                found = write(self, depth, place, source, level[place])
                self._expressions[depth][place] = found or f"n{depth}_{place}"
        if self._children:
            self._text.writing.append(f"L{depth + 1} = [{', '.join(self._children)}]")

    def _hold(self, depth: int, place: int, count: int, *sources: str) -> None:
        """Note that a node holds the next `count` nodes of the level below."""
        first = self._num_children
        self._num_children += count
        self._spans[depth, place] = first, first + count
        self._children += sources

    def _put_numbers(self, depth: int, places: list[int], take: str, values: list[Any]) -> None:
        is_float = type(values[0]) is float
        names = (self._text.float_names if is_float else self._text.int_names)(
            len(places), f"*{take}"
        )
        for place, name in zip(places, names, strict=True):
            is_bool = type(values[0]) is bool
            self._expressions[depth][place] = f"({name} != 0)" if is_bool else name

    def _put_texts(self, depth: int, places: list[int], take: str, values: list[Any]) -> None:
        self._text.unless(f"[*{take}] != {self._text.constant(values)}")
        self._text.structural(len(values))
        for place, value in zip(places, values, strict=True):
            self._expressions[depth][place] = self._text.constant(value)

    def _put_simple(self, depth: int, places: list[int], take: str, values: list[Any]) -> None:
        names = [tuple(vars(value)) for value in values]
        self._text.writing.append(f"S{depth} = {take}")
        self._text.writing.append(f"A{depth} = [*map(vars, S{depth})]")
        self._text.unless(f"[*map(tuple, A{depth})] != {self._text.constant(names)}")
        self._text.structural(len(values))
        self._text.marks.append(f"*S{depth}")
        self._children.append(f"*chain(map(values, A{depth}))")
        for k, (place, value, own) in enumerate(zip(places, values, names, strict=True)):
            name = f"n{depth}_{place}"
            self._text.seen.append((f"S{depth}[{k}]", name))
            self._text.made.append(f"{name} = new({self._text.constant(type(value))})")
            self._expressions[depth][place] = name
            self._hold(depth, place, len(own))

    def _put_tuples(self, depth: int, places: list[int], take: str, values: list[Any]) -> None:
        lengths, kind = list(map(len, values)), type(next(itertools.chain(*values)))
        rows, numbers = f"R{depth}{kind.__name__}", f"N{depth}{kind.__name__}"
        self._text.writing += [f"{rows} = {take}", f"{numbers} = [*chain({rows})]"]
        self._text.unless(f"[*map(len, {rows})] != {self._text.constant(lengths)}")
        self._text.unless(f"{{*map(type, {numbers})}} != {self._text.constant({kind})}")
        self._text.structural(len(values))
        take_names = self._text.int_names if kind is int else self._text.float_names
        names = iter(take_names(sum(lengths), f"*{numbers}"))
        for place, length in zip(places, lengths, strict=True):
            own = "".join(f"{name}, " for name in itertools.islice(names, length))
            self._expressions[depth][place] = f"({own})"

    def _put_held(self, depth: int, place: int, source: str, value: Any) -> str:
        kind, count = type(value), len(value)
        of_deque = f" or {source}.maxlen != {value.maxlen}" if kind is deque else ""
        self._text.unless(f"len({source}) != {count}{of_deque}")
        self._text.structural(2 if kind is deque else 1)
        if kind not in (tuple, frozenset):
            self._text.number(source, f"n{depth}_{place}")
        if kind in (set, frozenset):
            self._hold(depth, place, count, f"*sorted_elements({source})")
        elif kind in (dict, OrderedDict):
            self._hold(depth, place, 2 * count, f"*{source}", f"*{source}.values()")
        else:
            self._hold(depth, place, count, f"*{source}")
        return ""

    def _put_run(self, depth: int, place: int, source: str, value: Any) -> str:  # noqa: ARG002
        kind = type(value[0])
        self._text.unless(f"{{*map(type, {source})}} != {self._text.constant({kind})}")
        (count,) = self._text.int_names(1, f"len({source})")
        name = self._text.run(source, kind, count)
        self._text.number(source, name)
        return name

    def _put_rows(self, depth: int, place: int, source: str, value: Any) -> str:
        row, length, kind = type(value[0]), len(value[0]), type(value[0][0])
        self._text.unless(
            f"{{*map(type, {source})}} != {self._text.constant({row})} or "
            f"{{*map(len, {source})}} != {self._text.constant({length})}"
        )
        numbers = f"w{depth}_{place}"
        self._text.writing.append(f"{numbers} = [*chain({source})]")
        self._text.unless(f"{{*map(type, {numbers})}} != {self._text.constant({kind})}")
        name = f"n{depth}_{place}"
        self._text.number(source, name)
        if row is tuple:
            (count,) = self._text.int_names(1, f"len({source})")
            self._text.structural()
            found = self._text.run(numbers, kind, f"({count} * {length})")
            self._text.reading.append(f"{name} = rows_of({found}, {count}, {length})")
            return name
        self._text.unless(f"len({source}) != {len(value)}")
        self._text.structural(2)
        found = self._text.blob(
            f"array({plan_text.CODES[kind]!r}, {numbers}).tobytes()", 8 * len(value) * length
        )
        self._text.made.append(
            f"{name} = [*map(list, "
            f"rows_of(array({plan_text.CODES[kind]!r}, {found}), {len(value)}, {length}))]"
        )
        self._text.marks.append(f"*{source}")
        self._text.seen += [(f"{source}[{k}]", f"{name}[{k}]") for k in range(len(value))]
        return name

    def _put_array(self, depth: int, place: int, source: str, value: Any) -> str:
        dtype, columns_first = value.dtype, value.flags.fnc
        if not (plain.is_plain(dtype) and value.flags.writeable):
            raise NoPlan
        kept = self._text.constant(dtype)
        shape = self._text.constant(value.shape)
        self._text.unless(f"{source}.dtype != {kept} or {source}.shape != {shape}")
        flags = (1026,) if columns_first else (1024, 1025, 1027)  # writeable, and the axes' order
        self._text.unless(f"{source}.flags.num & 1027 not in {flags}")
        self._text.writing.append(
            f"if {source}.base is not None and owner_of({source}) is not {source}: "
            f"owners.append(id(owner_of({source})))"
        )
        self._text.structural()
        order = "F" if columns_first else "C"
        found = self._text.blob(f"{source}.tobytes({order!r})", value.nbytes)
        name = f"n{depth}_{place}"
        self._text.made.append(f"{name} = array_from({found}, {kept}, {shape}, {order!r})")
        self._text.number(source, name)
        return name

    def _put_scalar(self, depth: int, place: int, source: str, value: Any) -> str:
        kind = type(value)
        if kind not in plan_text.SCALARS:
            raise NoPlan
        self._text.structural()
        letter = "" if self._text.dynamic else plan_text.UNPACKED.get(kind, "")
        found = self._text.blob(f"{source}.tobytes()", value.nbytes, letter)
        name = f"n{depth}_{place}"
        if letter:
            how = f"{self._text.constant(kind)}({found})"
        else:
            how = f"scalar_from({found}, {self._text.constant(value.dtype)})"
        self._text.made.append(f"{name} = {how}")
        return name

    def _put_bytes(self, depth: int, place: int, source: str, value: Any) -> str:  # noqa: ARG002
        self._text.unless(f"len({source}) != {len(value)}")
        self._text.structural()
        return self._text.blob(source, len(value))

    def _put_random(self, depth: int, place: int, source: str, value: Any) -> str:  # noqa: ARG002
        layer, text, size = self._text.structural(3)
        named = self._text.constant((layer, self._names_in[text]))
        data = f"w{depth}_{place}"
        self._text.writing.append(f"{data} = random_bytes({source})")
        self._text.unless(f"len({data}) != {size} or named.get(id({source}), NOWHERE) != {named}")
        name = f"n{depth}_{place}"
        found = self._text.blob(data, size)
        self._text.made.append(f"{name}, state = generator_of(find, *{named}, {found})")
        self._text.made.append(f"generators.append(({name}, state))")
        self._text.seen.append((source, name))
        self._text.generators.append(source)
        return name

    def _put_known(self, depth: int, place: int, source: str, value: Any) -> str:
        is_member = self._kinds[depth][place] == Kind.ENUM
        kept = self._text.constant(value)
        self._text.unless(f"{source} is not {kept}")
        self._text.structural(1 + is_member)
        return kept

    def _put_named(self, depth: int, place: int, source: str, value: Any) -> str:  # noqa: ARG002
        layer, text = self._text.structural(2)
        named = self._text.constant((layer, self._names_in[text]))
        self._text.unless(f"named.get(id({source})) != {named}")
        name = f"n{depth}_{place}"
        self._text.made.append(f"{name} = find(*{named})")
        self._text.made.append(
            f"if {name} is None or isinstance({name}, RANDOM): raise ValueError('no such name')"
        )
        return name

    def _put_again(self, depth: int, place: int, source: str, value: Any) -> str:  # noqa: ARG002
        (number,) = self._text.structural()
        first, name = self._text.seen[number]
        self._text.unless(f"{source} is not {first}")
        self._targets.add(name)
        return name

    def _put_method(self, depth: int, place: int, source: str, value: Any) -> str:
        kept = self._text.constant(value.__func__)
        self._text.unless(f"{source}.__func__ is not {kept}")
        self._text.structural()
        self._hold(depth, place, 1, f"{source}.__self__")
        return ""

    def _put_view(self, depth: int, place: int, source: str, value: Any) -> str:
        found = self._text.constant((value.dtype, place_of(value, owner_of(value))))
        self._text.writing.append(f"w{depth}_{place} = owner_of({source})")
        self._text.unless(f"({source}.dtype, place_of({source}, w{depth}_{place})) != {found}")
        self._text.structural()
        self._text.number(source, f"n{depth}_{place}")
        self._hold(depth, place, 1, f"w{depth}_{place}")
        return ""

    def _put_data(self, depth: int, place: int, source: str, value: Any) -> str:  # noqa: ARG002
        (text,) = self._text.structural()
        self._data_names[depth, place] = self._names_in[text]
        found = named_data_type(self._names_in[text])
        if found.empty is not None or found.memory is not None:
            raise NoPlan
        parts = f"w{depth}_{place}"
        self._text.writing.append(f"{parts} = {self._text.constant(found.parts)}({source})")
        if found.in_place:
            self._text.number(source, f"n{depth}_{place}")
        self._hold(depth, place, 1, parts)
        return ""

    def _fill_level(self, depth: int, level: list[Any]) -> None:
        for place, kind in enumerate(self._kinds[depth]):
            if (depth, place) not in self._spans:
                continue
            first, stop = self._spans[depth, place]
            below = self._expressions[depth + 1] if stop > first else []
            held = below[first:stop]
            name = f"n{depth}_{place}"
            if kind == Kind.SIMPLE:
                content = pairs(map(str.__repr__, vars(level[place])), held)
                self._text.fills.append(f"vars({name}).update({content})")
            elif kind in (Kind.DICT, Kind.ORDERED):
                half = len(held) // 2
                self._check_keys(depth, first, half)
                empty = "{}" if kind == Kind.DICT else "OrderedDict()"
                self._fill(name, empty, "update", pairs(held[:half], held[half:]))
            elif kind in (Kind.SET, Kind.FROZENSET):
                self._check_keys(depth, first, len(held))
                if kind == Kind.SET:
                    self._fill(name, "set()", "update", f"({items(held)})")
                else:
                    self._text.fills.append(f"{name} = frozenset(({items(held)}))")
            elif kind == Kind.DEQUE:
                empty = f"deque((), {level[place].maxlen})"
                self._fill(name, empty, "extend", f"({items(held)})")
            elif kind == Kind.LIST:
                self._fill(name, "[]", "extend", f"[{items(held)}]")
            elif name in self._targets:
                raise NoPlan
            elif kind == Kind.TUPLE:
                self._text.fills.append(f"{name} = ({items(held)})")
            elif kind == Kind.VIEW:
                found = self._text.constant(place_of(level[place], owner_of(level[place])))
                dtype = self._text.constant(level[place].dtype)
                self._text.fills.append(f"{name} = view_at({held[0]}, {dtype}, {found})")
            elif kind == Kind.METHOD:
                kept = self._text.constant(level[place].__func__)
                self._text.fills.append(f"{name} = MethodType({kept}, {held[0]})")
            else:
                found = self._text.constant(named_data_type(self._data_names[depth, place]))
                self._text.fills.append(f"{name} = made({found}, [{held[0]}])")

    def _fill(self, name: str, empty: str, how: str, content: str) -> None:
        """Make a container with its content; empty at first where others may refer to it."""
        if name not in self._targets and empty in ("[]", "{}"):
            self._text.fills.append(f"{name} = {content}")
        else:
            self._text.made.append(f"{name} = {empty}")
            self._text.fills.append(f"{name}.{how}({content})")

    def _check_keys(self, depth: int, first: int, count: int) -> None:
        """Leave keys to the reader that run code when they are hashed, or may collide."""
        if count > plain.FEW:
            raise NoPlan
        for place in range(first, first + count):
            kind = self._kinds[depth + 1][place]
            if kind == Kind.TUPLE:
                start, stop = self._spans[depth + 1, place]
                self._check_keys(depth + 1, start, stop - start)
            elif kind not in plan_text.HASHED_IN_C:
                raise NoPlan


_COLUMNS: dict[int, Callable[..., None]] = {
    **dict.fromkeys((Kind.FLOAT, Kind.INT, Kind.BOOL), PlanSource._put_numbers),
    **dict.fromkeys((Kind.INT_TUPLE, Kind.FLOAT_TUPLE), PlanSource._put_tuples),
    Kind.TEXT: PlanSource._put_texts,
    Kind.SIMPLE: PlanSource._put_simple,
}
_HOLDERS = (Kind.TUPLE, Kind.FROZENSET, Kind.LIST, Kind.SET, Kind.DEQUE, Kind.DICT, Kind.ORDERED)
_ROWS = (Kind.INT_TUPLES, Kind.FLOAT_TUPLES, Kind.INT_LISTS, Kind.FLOAT_LISTS)
_OTHERS: dict[int, Callable[..., str]] = {
    **dict.fromkeys(_HOLDERS, PlanSource._put_held),
    **dict.fromkeys(_ROWS, PlanSource._put_rows),
    **dict.fromkeys((Kind.INT_LIST, Kind.FLOAT_LIST), PlanSource._put_run),
    **dict.fromkeys((Kind.ENUM, Kind.REFERENCE), PlanSource._put_known),
    **dict.fromkeys((Kind.VALUE, Kind.DATA), PlanSource._put_data),
    Kind.BYTES: PlanSource._put_bytes,
    Kind.SCALAR: PlanSource._put_scalar,
    Kind.METHOD: PlanSource._put_method,
    Kind.NAMED: PlanSource._put_named,
    Kind.SEEN: PlanSource._put_again,
    Kind.VIEW: PlanSource._put_view,
    Kind.ARRAY: PlanSource._put_array,
    Kind.RANDOM: PlanSource._put_random,
}
