"""The commands that are published: on the pages, in the programs' docstrings and in tox.ini."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs_fences import Fence, pages, read_fences

ROOT = Path(__file__).parents[1]
#: What a command begins with, where it stands in a docstring or between backticks.
_PROGRAMS = r"(?:python tests/benchmarks/|tox -e |plangym-ext |pip install )"


class Command(NamedTuple):
    """One command: where it is published, and its words."""

    place: str
    words: list[str]


def console_commands(fence: Fence) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line, words)` of every command in a console fence; `&&` separates commands."""
    number, text = fence.line, ""
    for offset, line in enumerate(fence.code.splitlines()):
        if not text:
            number = fence.line + offset
            if not line.startswith("$ "):
                continue  # what a command printed
            line = line.removeprefix("$ ")
        text += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        words = shlex.split(text, comments=True)
        text = ""
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            yield number, words[:end]
            words = words[end + 1 :]


def shell_commands(fence: Fence) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line, words)` of the library's own commands in a fence without prompts.

    Those of benchmarks are in the programs' docstrings too, and are taken from there.
    """
    for offset, line in enumerate(fence.code.splitlines()):
        if line.startswith(("plangym-ext ", "pip install ")):
            yield fence.line + offset, shlex.split(line)


#: By the tag of a fence, what reads it.
_READERS = {"console": console_commands, "sh": shell_commands}


def _on_pages() -> Iterator[Command]:
    for page in pages():
        place = str(page.relative_to(ROOT))
        for fence in read_fences(page):
            if fence.tag in _READERS:
                for line, words in _READERS[fence.tag](fence):
                    yield Command(f"{place}:{line}", words)
        for line, text in enumerate(page.read_text().splitlines(), start=1):
            for found in re.findall(rf"`({_PROGRAMS}[^`]+)`", text):
                yield Command(f"{place}:{line}", shlex.split(found))


def _in_docstrings() -> Iterator[Command]:
    folders = (ROOT / "tests" / "benchmarks", ROOT / "docs" / "examples", ROOT / "docs" / "recipes")
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        lines = re.findall(rf"^    ({_PROGRAMS}.+)$", text, re.M)
        inline = re.findall(rf"`({_PROGRAMS}[^`]+)`", text.replace("\n", " "))
        for found in [*lines, *inline]:
            yield Command(str(path.relative_to(ROOT)), shlex.split(found))


def _in_tox() -> Iterator[Command]:
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "tox.ini")
    for section in settings.sections():
        for line in settings.get(section, "commands", fallback="").splitlines():
            # What has {tox_root} in it is no command to copy: its environment runs it whole.
            if line.startswith("python ") and "{tox_root}" not in line:
                words = [word for word in shlex.split(line) if not word.startswith("{posargs")]
                yield Command(f"tox.ini [{section}]", words)


def published() -> list[Command]:
    """Return every command that a reader may copy, in the order of the files."""
    return [*_on_pages(), *_in_docstrings(), *_in_tox()]


def environments_without_skips() -> set[str]:
    """Return the tox environments in which a skipped test fails."""
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "tox.ini")
    first = "PYTEST_NO_SKIPS = 1"
    return {
        section.partition(":")[2]
        for section in settings.sections()
        if first in (given := settings.get(section, "set_env", fallback=""))
        or "{[testenv:extras]set_env}" in given
    }


def tox_environments() -> set[str]:
    """Return the names of tox.ini's environments."""
    names = set()
    for name in re.findall(r"^\[testenv:(.+)\]$", (ROOT / "tox.ini").read_text(), re.M):
        stem, braces, rest = name.partition("{")
        endings = rest.rstrip("}").split(",") if braces else [""]
        names |= {stem + ending for ending in endings}
    return names | {"py311"}
