"""Run the fences of one page as one script: `python -P run_fences.py PAGE < FENCES`.

FENCES is a JSON list of `[tag, first line, code]`. The python fences share one
namespace, top to bottom, and line numbers in tracebacks are those of the page. What
a fence prints must be the text of the output fence after it, if there is one.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys


def run_fences(page: str, fences: list[tuple[str, int, str]]) -> None:
    """Execute the fences of `page`.

    Raises:
        AssertionError: a fence printed something else than the page says.
        Exception: whatever a fence raised.
    """
    namespace = {"__name__": "__main__"}
    printed = ""
    for tag, line, code in fences:
        if tag == "python":
            program = compile("\n" * (line - 1) + code, page, "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(program, namespace)
            printed = out.getvalue()
            print(printed, end="")
        elif tag == "output" and printed.rstrip() != code.rstrip():
            raise AssertionError(
                f'File "{page}", line {line}: the page says\n{code}\n'
                f"but the python above it prints\n{printed}"
            )


if __name__ == "__main__":
    run_fences(sys.argv[1], json.load(sys.stdin))
