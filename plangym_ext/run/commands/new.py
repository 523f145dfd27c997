"""`plangym-ext new KIND NAME`: write a file of your own to begin from, and its tests.

`plangym-ext new planner Shallow` writes `shallow.py` and `test_shallow.py` into the current
folder. The tests pass as they are: `python -m pytest test_shallow.py`. The first lines of
`shallow.py` show the commands that take it.
"""

from __future__ import annotations

import argparse
import importlib.resources
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Annotated

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.core.options import OneOf
from plangym_ext.errors import FolderTaken, InvalidOption
from plangym_ext.run.arguments import Argument, Option, add_options

_HOME = "plangym_ext.run"
KINDS = ("algorithm", "env", "planner")


class Options:
    """Options of the command.

    Args:
        name: of the class, such as Lookahead or my_walk; of the files in lower case
        out: folder of the two files
    """

    kind: Annotated[str, OneOf(KINDS), Argument("KIND", f"one of: {', '.join(KINDS)}")]
    name: Annotated[str, Argument("NAME")]
    out: Annotated[Path, Option("DIR")] = Path()


def add_arguments(parser: argparse.ArgumentParser, _given: Sequence[str] = ()) -> None:
    """Add the options of the command."""
    add_options(parser, Options)


def run(options: argparse.Namespace) -> int:
    """Write the two files and print what to do next; no file is written over."""
    words = re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", options.name)
    module = "_".join(words).lower()
    if not re.fullmatch(r"[A-Za-z]\w*", options.name) or not words or keyword.iskeyword(module):
        raise InvalidOption(
            f"name: expected a name of a class, such as Lookahead; got {options.name!r}"
        )
    cls = "".join(word[0].upper() + word[1:] for word in words)
    files = {
        options.out / f"{module}.py": f"{options.kind}.txt",
        options.out / f"test_{module}.py": f"test_{options.kind}.txt",
    }
    for path in files:
        if path.exists():
            raise FolderTaken(f"{path} exists: choose another name, or another folder with --out")
    options.out.mkdir(parents=True, exist_ok=True)
    for path, template in files.items():
        text = (
            importlib.resources.files("plangym_ext.run").joinpath("templates", template).read_text()
        )
        with replacing(path) as file:
            file.write(Template(text).substitute(cls=cls, module=module))
        print(f"wrote {path}")
    print(f"next: python -m pytest {options.out / f'test_{module}.py'}")
    return 0
