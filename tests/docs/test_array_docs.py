"""What is public and takes or returns arrays says their shape, and how long a result lasts.

The public API is what docs/api.md names. A docstring may refer to another one: "see `name`".
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from docs_fences import ROOT

pytest.importorskip("torch")

_ENTRY = re.compile(r"auto(class|function|method|module):: ([\w.]+)\n((?:   :.*\n)*)")
#: Annotations that stand for arrays.
_ARRAYS = re.compile(
    r"\b(ndarray|NDArray|Ndarray|Array|ArrayDict|Params|Transitions|StateTransitions|Rollouts)\b"
)
#: A shape, or the name of what has it.
_SHAPE = re.compile(r"\[[^\]`]*\]|\bshaped?s?\b|`\(|scalar|single number|\b[Aa]s (of )?`|\bsee `")
#: Whose memory a result is.
_LIFETIME = re.compile(
    r"\bfresh\b|\bviews?\b|\bcop(y|ies)\b|\bbelongs?\b|\b[Ll]ives?\b|\bkept\b|\bread-only\b|"
    r"\b[Aa]s (of )?`|\b[Ss]ee `|\bowned?s?\b|\bsame\b"
)


class Public(NamedTuple):
    """A function of the public API."""

    name: str
    function: Any

    @property
    def doc(self) -> str:
        """The docstring, of an overridden method if it has none."""
        return inspect.getdoc(self.function) or ""

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations as they are written."""
        return {key: str(value) for key, value in self.function.__annotations__.items()}


def public_functions(page: str) -> list[Public]:
    """Return the functions and methods of the entries of a page, each once."""
    found: dict[Any, Public] = {}
    for kind, name, options in _ENTRY.findall(page):
        for public in functions_of(kind, name, options):
            found.setdefault(public.function, public)
    return list(found.values())


def functions_of(kind: str, name: str, options: str) -> Iterator[Public]:
    target = importlib.import_module(name) if kind == "module" else looked_up(name)
    if inspect.isfunction(target):
        yield Public(name, target)
        return
    members = re.search(r":members:(.*)\n", options)
    if target is None or members is None:
        return
    names = [word.strip() for word in members[1].split(",") if word.strip()]
    for member in names or [key for key in dir(target) if not key.startswith("_")]:
        value = inspect.getattr_static(target, member, None)
        value = getattr(value, "__func__", getattr(value, "fget", value))
        value = getattr(value, "py_func", value)
        value = inspect.unwrap(value) if callable(value) else value
        if inspect.isfunction(value) and value.__module__.startswith("plangym_ext"):
            yield Public(f"{name}.{member}", value)


def looked_up(name: str) -> Any:
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("plangym_ext"):
                return None  # it is for a framework that is not installed here
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return inspect.unwrap(found) if inspect.isfunction(found) else found
    raise LookupError(name)


def missing(public: Public) -> list[str]:
    """Return what the docstring leaves out."""
    annotations = public.annotations
    returned = annotations.pop("return", "")
    found = []
    if any(map(_ARRAYS.search, [returned, *annotations.values()])):
        if not _SHAPE.search(public.doc):
            found.append("shapes")
        if _ARRAYS.search(returned) and not _LIFETIME.search(public.doc):
            found.append("lifetime of the result")
    return found


PUBLIC = public_functions((ROOT / "docs" / "api.md").read_text())


def test_the_page_has_functions_with_arrays():
    taking = [one for one in PUBLIC if _ARRAYS.search(" ".join(one.annotations.values()))]
    assert len(taking) >= 50


def test_arrays_have_shape_and_lifetime():
    found = {one.name: what for one in PUBLIC if (what := missing(one))}
    assert not found, "\n".join(f"{name}: no {' and no '.join(w)}" for name, w in found.items())


def silent(rows: np.ndarray) -> np.ndarray:  # noqa: F821 - as it is written
    """Return the rows that count."""


def half(rows: np.ndarray) -> np.ndarray:  # noqa: F821
    """Return `[n]` int64, the rows that count."""


def telling(rows: np.ndarray) -> np.ndarray:  # noqa: F821
    """Return `[n]` int64, fresh: the rows that count."""


@pytest.mark.parametrize(
    ("function", "found"),
    [(silent, ["shapes", "lifetime of the result"]), (half, ["lifetime of the result"])],
)
def test_a_docstring_that_leaves_it_out_is_found(function, found):
    assert missing(Public("one", function)) == found
    assert missing(Public("other", telling)) == []
