"""`plangym-ext new KIND NAME`: write a template of an env, planner or algorithm with tests.

`plangym-ext new planner Shallow` writes `shallow.py` and `test_shallow.py` into the current
folder. The tests pass as they are: `python -m pytest test_shallow.py`. The first lines of
`shallow.py` show the commands that take it.
"""

from __future__ import annotations

import argparse
import ast
import importlib.resources
import importlib.util
import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.core.options import OneOf
from plangym_ext.errors import InvalidOption
from plangym_ext.run.arguments import Argument, Option, as_typed
from plangym_ext.run.files import OutputFiles

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


def run(options: argparse.Namespace) -> int:
    """Write the two files and print what to do next; no file is written over."""
    templates = [f"{options.kind}.txt", f"test_{options.kind}.txt"]
    texts = [
        (importlib.resources.files(_HOME) / "file-templates" / one).read_text() for one in templates
    ]
    words = re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", options.name)
    module = "_".join(words).lower()
    cls = "".join(word[0].upper() + word[1:] for word in words)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", options.name) or keyword.iskeyword(module):
        raise InvalidOption(
            f"name: expected a name of a class, such as Lookahead; got {options.name!r}"
        )
    if keyword.iskeyword(cls) or any(cls in _names(text) for text in texts):
        raise InvalidOption(f"name: the template uses the name {cls}; choose another one")
    if module == "conftest" or importlib.util.find_spec(module):
        raise InvalidOption(
            f"name: {module}.py would hide the Python module {module} from other files in its "
            "folder; choose another name"
        )
    paths = [options.out / f"{module}.py", options.out / f"test_{module}.py"]
    with OutputFiles(paths, replace=False, otherwise="choose another name"):
        for path, text in zip(paths, texts, strict=True):
            with replacing(path) as file:
                file.write(Template(text).substitute(cls=cls, module=module))
            print(f"wrote {as_typed(path)}")
    print(f"next: python -m pytest {as_typed(paths[1])}")
    return 0


def _names(text: str) -> set[str]:
    """Return the names that the code of a template binds and reads, but for its class."""
    nodes = list(ast.walk(ast.parse(Template(text).substitute(cls="_", module="_"))))
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    return found | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
