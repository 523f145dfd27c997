"""Plain words: rule 16 of docs/contributing.md, as far as a program can check it.

ruff (D401) checks that docstrings begin with an imperative, as `tox -e lint` runs it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("plangym_ext", "planners", "envs")
FOLDERS = (*PACKAGES, "tests", "docs")
FILES = ("README.md", "CHANGELOG.md", "pyproject.toml", "tox.ini")
SUFFIXES = {".py", ".md", ".html", ".svg"}
#: Pattern -> what to write instead.
BANNED = {
    r"\b(no|some|every|any)body\b": "the process, the caller or the user that is meant",
    r"\bwho(so)?ever\b": "the one that is meant: the caller, the creator, the first worker",
    # Processes may leave something behind.
    r"^(?!.*\b(left|leaves?|leaving)\b.*\bbehind\b).*\bbehind\b": "after, past or beyond",
}


#: A first line that begins so describes a thing by a question instead of a noun.
RIDDLE = re.compile(r"(What|How|Which|Who|Whose|Where|Whether|Why|When)\b")


def riddles_in(source: str) -> list[str]:
    """Return the first lines of the module and of its classes that begin with a question."""
    tree = ast.parse(source)
    named = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    return [text for node in named if RIDDLE.match(text := ast.get_docstring(node) or "")]


def texts():
    """Every source file and page, this one and what was built left out."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and "_build" not in path.parts and path != Path(__file__):
                yield path
    yield from (ROOT / name for name in FILES)


def found_in(text: str, pattern: str) -> list[int]:
    """Return the lines that have a match, identifiers and words alike."""
    # Parts of identifiers are words too.
    lines = text.replace("_", " ").splitlines()
    return [i for i, line in enumerate(lines, 1) if re.search(pattern, line, re.IGNORECASE)]


@pytest.mark.parametrize("pattern", BANNED)
def test_plain_words(pattern):
    found = {
        str(path.relative_to(ROOT)): lines
        for path in texts()
        if (lines := found_in(path.read_text(encoding="utf-8"), pattern))
    }
    assert not found, f"instead of {pattern} write {BANNED[pattern]}"


def test_modules_and_classes_are_named_by_nouns():
    sources = (path for folder in PACKAGES for path in sorted((ROOT / folder).rglob("*.py")))
    found = {
        str(path.relative_to(ROOT)): riddles
        for path in sources
        if (riddles := riddles_in(path.read_text(encoding="utf-8")))
    }
    assert not found, "name the thing by a noun of the field"
    assert riddles_in('"""What is kept of rows."""\nclass A:\n    """How it goes."""\n') == [
        "What is kept of rows.",
        "How it goes.",
    ]


def test_words_inside_names_are_found_and_longer_words_are_not():
    behind, nobody = list(BANNED)[2], next(iter(BANNED))
    assert found_in("x = 1\nvalue_behind(x)\nBehind it\n", behind) == [2, 3]
    assert found_in("left behind: a pipe\ndef test_kills_leave_nothing_behind\n", behind) == []
    assert found_in("the body of a walker, embodying it\n", nobody) == []
