"""Translation of the arguments of an env's functions: their types and known values."""

from __future__ import annotations

from typing import Any

from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Choice,
    Const,
    Me,
    Method,
    Mixed,
    Num,
    Rng,
    Seq,
    Untranslatable,
    form,
)


def passed(walk: Any, value: Any, name: str, texts: list[str]) -> tuple[Any, Any]:
    """Return an argument as its function sees it, and what is known of it."""
    if isinstance(value, Num):
        if value.const is not VARIES:
            return value, ("known", value.kind, repr(value.const))
        texts.append(value.text)
        return Num(value.kind, name), ("num", value.kind)
    if isinstance(value, Seq):
        parts = [passed(walk, one, f"{name}_{k}", texts) for k, one in enumerate(value.items)]
        return Seq([p for p, _ in parts], value.is_list, held=True), (
            "seq",
            value.is_list,
            *(k for _, k in parts),
        )
    if isinstance(value, Arr):
        return _passed_array(walk, value, name, texts)
    if isinstance(value, Choice):
        texts.append(value.index)
        return Choice(value.options, name), form(value)
    if isinstance(value, Mixed):
        parts = [passed(walk, one, f"{name}_{k}", texts) for k, one in enumerate(value.options)]
        texts.append(value.tag)
        return Mixed([p for p, _ in parts], f"{name}_t"), ("mixed", *(k for _, k in parts))
    if isinstance(value, Const):
        return value, form(value)
    if isinstance(value, Me | Rng):
        return value, type(value)
    if isinstance(value, Method):
        owner, key = passed(walk, value.owner, name, texts)
        return Method(owner, value.function), ("method", key, value.function)
    raise Untranslatable("an argument of this kind")


def _passed_array(walk: Any, value: Arr, name: str, texts: list[str]) -> tuple[Any, Any]:
    if value.items is None and not value.offset and (value.owner and value.owner not in "·?"):
        return value, form(value)
    if value.items is None and not value.offset:
        texts.append(value.base)
        return Arr(value.kind, value.shape, None, name, "", value.index, "?"), (
            "base",
            value.kind,
            value.shape,
            value.index,
        )
    if value.size > 64:
        raise Untranslatable("a part of a large array as an argument")
    parts = [passed(walk, walk.element(value, k), f"{name}_{k}", texts) for k in range(value.size)]
    return Arr(value.kind, value.shape, [p for p, _ in parts]), (
        "arr",
        value.kind,
        value.shape,
        *(k for _, k in parts),
    )


def parameters_of(values: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the names of a function's parameters, in the order of `passed`."""
    found: list[tuple[str, Any]] = []

    def visit(value: Any) -> None:
        if isinstance(value, Num):
            if value.const is VARIES:
                found.append((value.text, value))
        elif isinstance(value, Seq):
            for one in value.items:
                visit(one)
        elif isinstance(value, Arr):
            if value.items is not None:
                for one in value.items:
                    visit(one)
            elif value.owner == "?":
                found.append((value.base, value))
        elif isinstance(value, Choice):
            found.append((value.index, value))
        elif isinstance(value, Mixed):
            for one in value.options:
                visit(one)
            found.append((value.tag, value))
        elif isinstance(value, Method):
            visit(value.owner)

    for value in values.values():
        visit(value)
    return found
