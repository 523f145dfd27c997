"""Notebooks of the documentation: run them, and keep what they print and draw.

    python tests/notebooks.py docs/notebooks/*.ipynb

runs each in a fresh interpreter and writes its outputs into it. Needs matplotlib. No Jupyter is
needed: a notebook is JSON, and its cells are run one after the other.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_PICTURE, _VIEW = "image/png", "text/html"


def outputs_of(path: Path) -> list[list[dict[str, Any]]]:
    """Return what each code cell prints and draws, run in an interpreter and a folder of its own.

    Raises:
        AssertionError: a cell raised; with its traceback.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", __file__, "--run", str(path.resolve())],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, f"{path.name}:\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def text_of(outputs: list[dict[str, Any]]) -> str:
    """Return what a cell printed."""
    return "".join("".join(one["text"]) for one in outputs if one["output_type"] == "stream")


def pictures_of(outputs: list[dict[str, Any]]) -> int:
    """Return how many pictures a cell drew."""
    return sum(_PICTURE in one.get("data", {}) for one in outputs)


def views_of(outputs: list[dict[str, Any]]) -> int:
    """Return how many values a cell ended with that a notebook shows as a page."""
    return sum(_VIEW in one.get("data", {}) for one in outputs)


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that hold code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(path: Path) -> list[list[dict[str, Any]]]:
    """Run the cells in one namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for number, cell in enumerate(code_cells(json.loads(path.read_text())), start=1):
        body, name = ast.parse("".join(cell["source"])), f"{path.name}, cell {number}"
        # As in Jupyter: an expression at the end of a cell is shown.
        last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(body, name, "exec"), namespace)
            value = last and eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        outputs: list[dict[str, Any]] = []
        if out.getvalue():
            lines = out.getvalue().splitlines(keepends=True)
            outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
        found.append(outputs + _viewed(value) + _drawn())
    return found


def _viewed(value: Any) -> list[dict[str, Any]]:
    """Return a value as a notebook shows it, if it has a view of its own."""
    if not hasattr(value, "_repr_html_"):
        return []
    data = {_VIEW: value._repr_html_(), "text/plain": repr(value)}
    return [{"data": data, "metadata": {}, "output_type": "display_data"}]


def _drawn() -> list[dict[str, Any]]:
    """Return the figures that are open as pictures, and close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", dpi=70, bbox_inches="tight")
        picture = base64.b64encode(file.getvalue()).decode("ascii")
        data = {_PICTURE: picture, "text/plain": ["<Figure>"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    pyplot.close("all")
    return found


def main() -> None:
    if sys.argv[1] == "--run":
        print(json.dumps(_run(Path(sys.argv[2]))))
        return
    for name in sys.argv[1:]:
        path = Path(name)
        notebook = json.loads(path.read_text())
        all_outputs = outputs_of(path)
        for number, (cell, outputs) in enumerate(
            zip(code_cells(notebook), all_outputs, strict=True), start=1
        ):
            cell["outputs"], cell["execution_count"] = outputs, number
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
