"""Translation of variables, branches and loops into the lines of a function's text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from plangym_ext.native.translate.expressions import Expressions
from plangym_ext.native.translate.values import (
    Info,
    Mixed,
    Num,
    Seq,
    built,
    cast,
    form,
    joined,
    mark_named,
    parts_in,
)

_RESULT = "$"


class Loop:
    """A loop being written: the forms of its variables, and those at each way out."""

    def __init__(self) -> None:
        self.forms: dict[str, Any] | None = None
        self.outs: list[dict[str, Any]] = []


class Flow(Expressions):
    """Translation of variables, branches and loops."""

    program: Any
    lines: list[str]
    vars: dict[str, Any]
    depth: int
    alive: bool
    _temps: int
    _loops: list[Loop]

    # Text -----------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def fresh(self) -> str:
        """Return a new name."""
        self._temps += 1
        return f"t{self._temps}"

    def let(self, kind: str, text: str) -> Num:
        """Return a number that is computed here, once."""
        name = self.fresh()
        self.emit(f"{name} = {text}")
        return Num(kind, name)

    @contextlib.contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Write to other lines in a block."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], depth + 1
        try:
            yield self.lines
        finally:
            self.lines, self.depth = lines, depth

    def convert(self, value: Any, wanted: Any, name: str) -> Any:
        """Write a value to the variables of a form; return it as these, with what is known."""
        pairs: list[tuple[str, str]] = []
        found = self._paired(value, wanted, name, pairs)
        pairs = [(to, text) for to, text in pairs if to != text]
        texts = {text for _, text in pairs}
        if any(to in text for to, _ in pairs for text in texts):  # a swap, say
            pairs = [(to, self.let("", text).text) for to, text in pairs]
        for to, text in pairs:
            self.emit(f"{to} = {text}")
        return found

    def _paired(self, value: Any, wanted: Any, name: str, pairs: list[tuple[str, str]]) -> Any:
        target, tag = built(wanted, name), wanted[0]
        if tag == "mixed":
            return self._paired_mixed(value, wanted, target, name, pairs)
        if tag == "num":
            pairs.append((name, cast(value, target.dtype)))
            return Num(wanted[1], name, value.const if value.kind == wanted[1] else target.const)
        if tag in ("seq", "info"):
            parts = value.items if tag == "seq" else list(value.items.values())
            forms = wanted[2] if tag == "seq" else [one for _, one in wanted[1]]
            found = [
                self._paired(part, one, f"{name}_{k}", pairs)
                for k, (part, one) in enumerate(zip(parts, forms, strict=True))
            ]
            return (
                Seq(found, wanted[1])
                if tag == "seq"
                else Info(dict(zip(value.items, found, strict=True)))
            )
        if tag == "arr" and target.items is None:
            if value.items is not None or value.base != name:
                pairs.append((name, self.memory(value, copy=bool(value.owner)).base))
        elif tag == "arr":
            pairs += [(f"{name}_{k}", self.element(value, k).text) for k in range(target.size)]
        elif tag == "choice":
            pairs.append((name, value.index))
        return target

    def _paired_mixed(
        self, value: Any, wanted: Any, target: Any, name: str, pairs: list[tuple[str, str]]
    ) -> Any:
        if isinstance(value, Mixed):
            places = [self._option(form(one), wanted[1]) for one in value.options]
            tag = str(places[-1])
            for k in range(len(places) - 2, -1, -1):
                tag = f"({places[k]} if {value.tag} == {k} else {tag})"
            pairs.append((target.tag, tag))
            for one, place in zip(value.options, places, strict=True):
                self._paired(one, wanted[1][place], f"{name}_m{place}", pairs)
            given = set(places)
        else:
            place = self._option(form(value), wanted[1])
            pairs.append((target.tag, str(place)))
            self._paired(value, wanted[1][place], f"{name}_m{place}", pairs)
            given = {place}
        for k, one in enumerate(wanted[1]):
            if k not in given:
                pairs += self.program.zeros(one, f"{name}_m{k}")
        return target

    @staticmethod
    def _option(one: Any, options: Any) -> int:
        return next(k for k, other in enumerate(options) if joined(one, other) == other)

    def has_name(self, value: Any) -> bool:
        """Return whether a variable is, or holds, a value itself."""
        return any(one is value for other in self.vars.values() for one in parts_in(other))

    # Flow -----------------------------------------------------------------------

    def fork(self, branches: list[tuple[str, Callable[[], Any]]]) -> Any:
        """Write `if`, `elif`, `else` of branches; return their joined value."""
        before, outcomes, has_name = self.vars, [], False
        for _, branch in branches:
            self.vars, self.alive = dict(before), True
            with self.aside() as lines:
                value = self.plain(branch())
            if value is not None:
                has_name = has_name or self.has_name(value)
                self.vars[_RESULT] = value
            outcomes.append((lines, self.vars, self.alive))
        living = [found for _, found, alive in outcomes if alive]
        self.alive = bool(living)
        merged = self._merged(living) if living else {}
        name = self.fresh()
        for k, ((test, _), (lines, found, alive)) in enumerate(
            zip(branches, outcomes, strict=True)
        ):
            head = "else:" if k == len(branches) - 1 else f"{'el' * (k > 0)}if {test}:"
            self.emit(head if len(branches) > 1 else "if True:")
            with self.aside() as more:
                self.vars = found
                for key, wanted in merged.items():
                    if alive and wanted is not None and not key.startswith("self."):
                        self.convert(found[key], wanted, self._name(key, name))
            self.lines += lines + more or ["    " * (self.depth + 1) + "pass"]
        self.vars = {}
        for key, wanted in merged.items():
            if wanted is None:
                self.vars[key] = living[0][key]
            elif key.startswith("self."):
                self.vars[key] = wanted
            else:
                self.vars[key] = built(wanted, self._name(key, name))
        result = self.vars.pop(_RESULT, None)
        if has_name:
            mark_named(result)
        return result

    @staticmethod
    def _name(key: str, result: str) -> str:
        return result if key == _RESULT else f"v_{key}"

    def _merged(self, living: list[dict[str, Any]]) -> dict[str, Any]:
        """Return forms of the variables that all branches have; None for unchanged ones."""
        found: dict[str, Any] = {}
        for key in living[0]:
            values = [one[key] for one in living if key in one]
            if len(values) < len(living):
                continue
            if all(one is values[0] for one in values):
                found[key] = None
            elif key.startswith("self."):
                found[key] = frozenset().union(*values)
            else:
                wanted = form(values[0])
                for one in values[1:]:
                    wanted = joined(wanted, form(one))
                found[key] = wanted
        return found

    def loop(self, head: str, body: Callable[[], None]) -> None:
        """Write a loop whose body may be run any number of times."""
        entry, loop = dict(self.vars), Loop()
        forms: dict[str, Any] = {}
        while True:
            loop.outs, temps = [], self._temps
            self.vars = self._entered(entry, forms)
            start = dict(self.vars)
            self._loops.append(loop)
            with self.aside():
                body()
            self._loops.pop()
            outs = loop.outs + ([self.vars] if self.alive else [])
            self.alive = True
            changed = False
            for key, value in start.items():
                for out in outs:
                    if key in out and out[key] is not value:
                        one = out[key] if key.startswith("self.") else form(out[key])
                        old = value if key.startswith("self.") else form(value)
                        new = one | old if key.startswith("self.") else joined(old, one)
                        if forms.get(key) != new and (key not in forms or new != old):
                            forms[key], changed = new, True
            if not changed:
                break
            self._temps = temps
        self._write_loop(head, body, entry, forms)

    def _entered(self, entry: dict[str, Any], forms: dict[str, Any]) -> dict[str, Any]:
        fields = {key: one for key, one in forms.items() if key.startswith("self.")}
        names = {key: built(one, f"v_{key}") for key, one in forms.items() if key not in fields}
        return {**entry, **fields, **names}

    def _write_loop(
        self, head: str, body: Callable[[], None], entry: dict[str, Any], forms: dict[str, Any]
    ) -> None:
        self.vars = entry
        self.settle(forms)
        loop = Loop()
        loop.forms = forms
        self.vars = self._entered(entry, forms)
        self.emit(head)
        self._loops.append(loop)
        with self.aside() as lines:
            body()
            if self.alive:
                self.settle(forms)
        self._loops.pop()
        self.lines += lines or ["    " * (self.depth + 1) + "pass"]
        self.alive = True
        self.vars = self._entered(entry, forms)

    def settle(self, forms: dict[str, Any]) -> None:
        """Write the variables of a loop in its forms."""
        for key, wanted in forms.items():
            if not key.startswith("self."):
                self.convert(self.vars[key], wanted, f"v_{key}")
