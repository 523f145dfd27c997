"""The flows that docs/contributing.md tells: read, looked up, measured and traced.

A flow is a fence with the tag `hops`. Its first line is the name of the flow; a line that
ends in a colon says where the hops after it run; any other line is a hop, "file:function",
and after two spaces what it does.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from docs_fences import ROOT, read_fences

PAGE = ROOT / "docs" / "contributing.md"

_HOP = re.compile(r"(?P<file>[\w/]+\.py):(?P<name>[\w.]+)(  .*)?")
#: Folder of the checkout -> import package.
_PACKAGES = {
    "plangym_ext": "plangym_ext",
    "planners": "plangym_ext.planners",
    "envs": "plangym_ext.envs",
}
#: Lines of tokens that are no code.
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


class Hop(NamedTuple):
    """One function on the way; `place` is where it runs, such as "caller"."""

    place: str
    file: str
    name: str

    @property
    def module(self) -> str:
        """Import name of the file."""
        folder, *rest = Path(self.file).with_suffix("").parts
        return ".".join([_PACKAGES[folder], *rest])


def read_flows(page: Path = PAGE) -> dict[str, list[Hop]]:
    """Return the hops of every flow on a page, by the flow's name."""
    found: dict[str, list[Hop]] = {}
    for fence in read_fences(page):
        if fence.tag != "hops":
            continue
        name, *lines = (line.strip() for line in fence.code.splitlines() if line.strip())
        place = ""
        found[name] = []
        for line in lines:
            if line.endswith(":"):
                place = line[:-1]
            elif match := _HOP.fullmatch(line):
                found[name].append(Hop(place, match["file"], match["name"]))
            else:
                raise ValueError(f"{page.name}, flow {name!r}: {line!r} is no file:function")
    return found


def source_of(hop: Hop) -> str:
    """Return the source of a hop's function, without its docstring.

    Raises:
        LookupError: there is no such file, or no such function in it.
    """
    path = ROOT / hop.file
    if not path.is_file():
        raise LookupError(f"{hop.file}: there is no such file")
    text = path.read_text()
    node: ast.AST = ast.parse(text)
    for part in hop.name.split("."):
        inner = (child for child in ast.iter_child_nodes(node) if _is_named(child, part))
        # Of overloads the last one has the body.
        node = next(reversed(list(inner)), None)  # type: ignore[assignment]
        if node is None:
            raise LookupError(f"{hop.file}: there is no {hop.name}")
    if not isinstance(node, ast.FunctionDef):
        raise LookupError(f"{hop.file}: {hop.name} is no function")
    first, last = node.lineno, node.end_lineno
    lines = text.splitlines()
    doc = node.body[0] if ast.get_docstring(node) is not None else None
    cut = range(doc.lineno, (doc.end_lineno or 0) + 1) if doc else range(0)
    kept = [lines[i - 1] for i in range(first, (last or 0) + 1) if i not in cut]
    return "\n".join(kept) + "\n"


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name


def code_lines(source: str) -> int:
    """Return the number of lines that hold code: no docstring, comment or blank line."""
    tokens = tokenize.generate_tokens(io.StringIO(_dedented(source)).readline)
    used: set[int] = set()
    for token in tokens:
        if token.type not in _NO_CODE and token.type != tokenize.ENDMARKER:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used)


def _dedented(source: str) -> str:
    indent = len(source) - len(source.lstrip())
    return "".join(line[indent:] or "\n" for line in source.splitlines(keepends=True))


class Size(NamedTuple):
    """What runs in the caller's process: functions of ours, their files, and lines of code."""

    functions: int
    files: int
    lines: int


def size_of(action: Callable[[], object]) -> Size:
    """Run something and return the size of what ran; each function is counted once.

    Closures, lambdas and comprehensions are lines of the function that holds them.
    """
    hops = {
        Hop("", _file_of(module), name.split(".<locals>")[0])
        for module, name in {call.function for call in calls_of(action)}
        if not name.startswith("<")
    }
    lines = sum(code_lines(source_of(hop)) for hop in hops if _is_written(hop))
    return Size(len(hops), len({hop.file for hop in hops}), lines)


def _file_of(module: str) -> str:
    """Return the file of the checkout that a module of an installed package is."""
    *packages, name = module.split(".")
    folders = packages[1:] if packages[1:2] in (["envs"], ["planners"]) else packages
    return "/".join((*folders, f"{name}.py"))


def _is_written(hop: Hop) -> bool:
    try:
        source_of(hop)
    except LookupError:  # made by a decorator, such as a dataclass's `__init__`
        return False
    return True


def read_bounds(page: Path = PAGE) -> dict[str, Size]:
    """Return the most that may run in each call, by its name, from the page's table."""
    rows = re.findall(
        r"^\| `(.+?)` .*?\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page.read_text(), re.M
    )
    return {name: Size(*(int(cell.replace(",", "")) for cell in cells)) for name, *cells in rows}


def words_of(hop: Hop) -> set[str]:
    """Return every name in the code of a hop, those in messages to a worker among them."""
    tree = ast.parse(_dedented(source_of(hop)) + "    pass\n")
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return found | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class Call(NamedTuple):
    """A call of one of our functions, and the function of ours that made it."""

    function: tuple[str, str]  # module, qualified name
    caller: tuple[str, str]


def calls_of(action: Callable[[], object]) -> list[Call]:
    """Run something and return the calls of this package's functions, in order."""
    found: list[Call] = []

    def seen(frame, event, _):
        # Not what a decorator has made, such as a dataclass's `__init__`.
        if event == "call" and _is_ours(frame) and frame.f_code.co_filename[0] != "<":
            found.append(Call(_key(frame), next(_callers(frame), ("", ""))))

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


def _callers(frame) -> Iterator[tuple[str, str]]:
    """Yield the functions of ours that a frame was called from, the nearest first."""
    while (frame := frame.f_back) is not None:
        # Closures and wrappers of decorators stand for the function that they are part of.
        if _is_ours(frame) and "<locals>" not in frame.f_code.co_qualname:
            yield _key(frame)


def _is_ours(frame) -> bool:
    return frame.f_globals.get("__name__", "").split(".")[0] == "plangym_ext"


def _key(frame) -> tuple[str, str]:
    return frame.f_globals["__name__"], frame.f_code.co_qualname
