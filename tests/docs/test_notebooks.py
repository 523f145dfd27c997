"""Notebooks run, and print what they are published with."""

from __future__ import annotations

import json

import pytest
from docs_fences import ROOT
from notebooks import code_cells, outputs_of, pictures_of, text_of, views_of

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks_and_the_site_names_them():
    page = (ROOT / "docs" / "tutorials.md").read_text()
    assert len(NOTEBOOKS) == 3
    for notebook in NOTEBOOKS:
        assert f"notebooks/{notebook.name}" in page


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_and_draws_what_it_is_published_with(path):
    """If not: `python tests/notebooks.py docs/notebooks/*.ipynb`."""
    pytest.importorskip("matplotlib")
    cells = code_cells(json.loads(path.read_text()))
    found = outputs_of(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert [text_of(cell["outputs"]) for cell in cells] == [text_of(one) for one in found]
    assert [pictures_of(cell["outputs"]) for cell in cells] == [pictures_of(one) for one in found]
    assert [views_of(cell["outputs"]) for cell in cells] == [views_of(one) for one in found]
    assert sum(map(pictures_of, found)) == 1


def test_a_notebook_shows_a_tree_and_a_film():
    published = json.loads((ROOT / "docs/notebooks/plan_on_an_env.ipynb").read_text())
    shown = [
        one["data"] for cell in code_cells(published) for one in cell["outputs"] if "data" in one
    ]
    views = [data["text/html"] for data in shown if "text/html" in data]
    assert ["id=&quot;tree&quot;" in view for view in views] == [True, False]
    assert "<iframe" in views[1]
