"""The API page names all that is public."""

from __future__ import annotations

import importlib
import re

import pytest

PACKAGES = (
    "plangym_ext",
    "plangym_ext.compat.plangym",
    "plangym_ext.planners",
    "plangym_ext.learn",
    "plangym_ext.explore",
    "plangym_ext.run",
    "plangym_ext.testing",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package, root):
    text = (root / "docs" / "api.md").read_text()
    shown = set(re.findall(r"auto(?:class|function|data):: \S+\.(\w+)", text))
    for module in re.findall(r"automodule:: (\S+)\n   :members:\n", text):
        if "learn.algorithms" not in module:  # imports torch
            shown |= set(vars(importlib.import_module(module)))
    # Tables of names are in the text.
    shown |= set(re.findall(r"`([A-Z_]+)`", text))
    public = {name for name in importlib.import_module(package).__all__ if name[0] != "_"}
    assert public - shown == set()


def test_every_name_is_imported_from_where_it_is_shown(root):
    pytest.importorskip("torch")
    text = (root / "docs" / "api.md").read_text()
    shown = re.findall(r"auto(?:class|function|data):: (\S+)\.(\w+)", text)
    # Of other packages, which the adapters derive from.
    own = [(module, name) for module, name in shown if not re.search("baselines|tianshou", module)]
    assert len(own) > 200
    for module, name in own:
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
    named = set(re.findall(r"`(plangym_ext[\w.]*)`", text.partition("## ")[0]))
    assert named == {*PACKAGES, "plangym_ext.errors"}
