"""The tables of the page on other libraries: what is typed here runs."""

from __future__ import annotations

import ast
import re

import gymnasium as gym
import pytest

pytest.importorskip("torch")

from plangym_ext.errors import MissingExtra
from plangym_ext.run.cli import build_parser

SEEDS = ("plangym", "Alpacka", "rlpyt", "parllel", "rlplay")


def table(root, seed):
    """Return the rows of a seed's table: what is typed there, and here."""
    text = (root / "docs/coming_from.md").read_text().partition(f"\n## {seed}\n")[2]
    lines = text.partition(f"| {seed} | here |\n|---|---|\n")[2].partition("\n\n")[0]
    return [re.split(r" ?\| ?", line)[1:-1] for line in lines.splitlines()]


def run(cell, names):
    """Run the code of a cell; return how much there was."""
    found = re.findall("`([^`]+)`", cell)
    for code in found:
        if code.startswith("plangym-ext "):
            words = code.split()[1:]
            assert build_parser(words).parse_args(words).run
            continue
        assert isinstance(ast.parse(code).body[0], ast.Expr), code
        if "ray=" in code:  # `tests/contract/test_ray_backend.py` has a cluster
            continue
        try:
            value = eval(code, names)
        except MissingExtra:
            assert re.search("cheetah|Airstriker|Pong|Lander", code), code
            continue
        if not isinstance(value, type) and hasattr(value, "close"):
            value.close()
    return len(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_typed_here_runs(seed, root, tmp_path):
    names = {"folder": tmp_path}
    page = (root / "docs/coming_from.md").read_text()
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    rows = table(root, seed)
    assert len(rows) >= 8
    try:
        for there, here in rows:
            assert "`" in there
            assert run(here, names) > 0, here
    finally:
        for name in ("env", "venv"):
            names[name].close()


@pytest.mark.slow
def test_what_is_typed_in_plangym_runs_on_its_names(root):
    from plangym_ext.compat import plangym
    from plangym_ext.compat.plangym import control, videogames
    from plangym_ext.compat.plangym.vectorization.parallel import ParallelEnv

    names = {"plangym": plangym, "gym": gym, "ParallelEnv": ParallelEnv, **vars(control)}
    names |= {name: getattr(videogames, name) for name in ("AtariEnv", "PlangymEnv")}
    with control.ClassicControl("CartPole-v1") as env:
        state, *_ = env.reset()
        names |= {"env": env, "state": state, "PlanEnv": plangym.PlanEnv}
        for there, _ in table(root, "plangym"):
            if "_*" not in there:
                assert run(there, names) > 0
