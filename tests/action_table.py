"""The table of planners by kinds of action spaces in docs/planners.md: every cell is run.

python tests/action_table.py
"""

from __future__ import annotations

from pathlib import Path

from aiming_env import KINDS, Aiming

from plangym_ext import GymEnv
from plangym_ext.errors import InvalidOption
from plangym_ext.planners import PLANNERS, load_planner
from plangym_ext.planners.action_spaces import adapted

PAGE = Path(__file__).parents[1] / "docs" / "planners.md"
TOP = "<!-- written by tests/action_table.py; a test compares it with the planners -->\n"
END = "<!-- end of the table -->\n"
#: What a cell says of the model that a planner plans in.
WORDS = {
    "NoneType": "itself",
    "NumberedModel": "numbers",
    "SampledModel": "samples",
    "VectorModel": "scores",
}


def cell(name: str, env: GymEnv, start: tuple) -> str:
    """Plan once, and return how the actions were planned over, or why not."""
    planner = load_planner(name)(num_simulations=8)
    try:
        plan = planner.plan(env, start[0], rng=0, obs=start[1])
    except InvalidOption as error:
        return str(error)
    assert env.action_space.contains(plan.action), (name, plan.action)
    return WORDS[type(adapted(env, planner)).__name__]


def table() -> str:
    """Return the table, with what stands around it on the page."""
    lines = [f"| planners | {' | '.join(KINDS)} |", "|---" * (1 + len(KINDS)) + "|"]
    columns = []
    for kind in KINDS:
        with GymEnv(lambda kind=kind: Aiming(kind)) as env:
            start = env.reset(seed=0)
            columns.append([cell(name, env, start) for name in PLANNERS])
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in zip(PLANNERS, *columns, strict=True):
        alike.setdefault(tuple(cells), []).append(f"`{name}`")
    lines += [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in alike.items()]
    return TOP + "\n".join(lines) + "\n" + END


def written(page: str) -> str:
    """Return the table as it is on a page."""
    return page[page.index(TOP) : page.index(END) + len(END)]


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(text.replace(written(text), table()))
