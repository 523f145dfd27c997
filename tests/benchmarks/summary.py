"""The ratios of all benchmarks on one page, and some of them in the README.

    python tests/benchmarks/summary.py

Measures nothing: it reads the pages that the other programs have written, and is run after them.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

from table.sections import PAGES, page_of, section_text

ROOT = Path(__file__).parents[2]
_BEGIN = "<!-- begin figures: written by tests/benchmarks/summary.py -->\n"
_END = "<!-- end figures -->\n"


class Ratio(NamedTuple):
    """A ratio of the summary.

    Attributes:
        what: is compared.
        beside: what.
        section: that has it; see `PAGES`.
        row: begins the row of a table there.
        column: of the row, from 1.
        in_readme: whether the README has it, too.
    """

    what: str
    beside: str
    section: str
    row: str
    column: int
    in_readme: bool = False


def _vector(env: str, beside: str) -> str:
    return f"| {env} | ours, make_vec(...).step | {beside} |"


_CARTPOLE, _HALF_CHEETAH = "CartPole-v1, random actions x64", "HalfCheetah-v5 x64"
_PONG, _OWN = "ALE/Pong-v5, preprocessed x16", "gymnasium, own vector env"
RATIOS = (
    Ratio(
        "`make_vec(...).step`, CartPole, 64 envs",
        "EnvPool",
        "native vector envs",
        _vector(_CARTPOLE, "EnvPool"),
        4,
        True,
    ),
    Ratio(
        "the same",
        "gymnasium's own vector env",
        "native vector envs",
        _vector(_CARTPOLE, _OWN),
        4,
        True,
    ),
    Ratio(
        "`make_vec(...).step`, HalfCheetah, 64 envs",
        "EnvPool",
        "native vector envs",
        _vector(_HALF_CHEETAH, "EnvPool"),
        4,
        True,
    ),
    Ratio(
        "`make_vec(...).step`, Pong in grey, 84x84x4, 16 envs",
        "EnvPool",
        "vector envs",
        f"| {_PONG} | ours, best | EnvPool |",
        4,
        True,
    ),
    Ratio(
        "the same",
        "ale-py's own vector env",
        "vector envs",
        f"| {_PONG} | ours, best | {_OWN} |",
        4,
        True,
    ),
    Ratio(
        "from states, HalfCheetah, 64 rows", "plangym", "speed", "| HalfCheetah-v5, 64 |", 6, True
    ),
    Ratio("from states, Pong, 16 rows", "plangym", "speed", "| ALE/Pong-v5, 16 |", 6, True),
    Ratio(
        "SB3's PPO on CartPole with our 8 envs",
        "with its `SubprocVecEnv`",
        "vector envs",
        "| PPO on CartPole-v1 x8 | PPO with ours, best | PPO with SubprocVecEnv |",
        4,
    ),
    Ratio(
        "sampler, CartPole, 64 envs",
        "SB3",
        "sampling",
        "| CartPole-v1 x64 | ours, serial | SB3, DummyVecEnv |",
        4,
    ),
    Ratio(
        "sampler, Pong, 16 envs",
        "SB3",
        "sampling",
        f"| {_PONG} | ours, actors in two workers | SB3, SubprocVecEnv |",
        4,
    ),
    Ratio(
        "search of 1 tree, 200 simulations, on the processor",
        "mctx",
        "search",
        "| mctx's better policy, 1 x 200 |",
        2,
        True,
    ),
    Ratio(
        "search of 128 trees, 64 simulations, on the processor",
        "mctx",
        "search",
        "| mctx's better policy, 128 x 64 |",
        2,
        True,
    ),
    Ratio("updates of SAC, one thread", "SB3", "updates from replay", "| sac, cpu, 1 | ours |", 4),
    Ratio("updates of SAC, two threads", "SBX", "updates from replay", "| sac, cpu, 2 | ours |", 5),
)
_TOP = """# Benchmarks

Speed ratios on two processors: above 1 plangym-ext is faster. A program of `tests/benchmarks`,
which you can run, measured each with the code of the commit in its row; newer code may differ.
Accelerators have figures of updates only ([training](training_agents.md#how-fast-updates-are));
more than two processors were not measured.

"""
_PAGES = """
```{toctree}
:hidden:

benchmarks_stepping
benchmarks_planning
benchmarks_learning
benchmarks_exactness
```
"""


def table(page: Path, ratios: tuple[Ratio, ...], folder: str = "") -> str:
    """Return the table of some ratios.

    Args:
        page: `benchmarks.md`, beside which the measured pages lie.
        ratios: its rows.
        folder: that links begin with.
    """
    lines = ["| task | compared with | speed ratio | measured |", "|---|---|---:|---|"]
    for one in ratios:
        text = section_text(page, one.section)
        heading = re.search(r"^## (.*)$", text, re.M)
        measured = re.search(r"^Newest figures: commit `(.*?)`, (.*?)\.$", text, re.M)
        (row,) = (line for line in text.splitlines() if line.startswith(one.row))
        assert heading is not None
        assert measured is not None
        value = [cell.strip() for cell in row.split("|")][one.column]
        anchor = re.sub(r"[^\w\- ]", "", heading[1]).lower().replace(" ", "-")
        link = f"[{measured[2]}, {measured[1]}]({folder}{page_of(page, one.section).name}#{anchor})"
        shown = f"{float(value):.3g}"
        value = f"**{shown}**" if float(value) < 1.0 else shown
        lines.append(f"| {one.what} | {one.beside} | {value} | {link} |")
    return "\n".join(lines) + "\n"


def summary(page: Path) -> str:
    """Return the page `benchmarks.md`."""
    parts = [_TOP, table(page, RATIOS), "\n"]
    for subject in PAGES:
        texts = [section_text(page, name) for name in PAGES[subject]]
        titles = [text.splitlines()[0].removeprefix("## ") for text in texts]
        parts.append(f"- [{subject.capitalize()}](benchmarks_{subject}.md): {', '.join(titles)}.\n")
    parts.append(_PAGES)
    return "".join(parts)


def readme(page: Path, text: str) -> str:
    """Return the README with its figures."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    found = table(page, tuple(one for one in RATIOS if one.in_readme), "docs/")
    return f"{before}{_BEGIN}{found}{_END}{after}"


def main() -> None:
    """Write both."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    page = ROOT / "docs" / "benchmarks.md"
    page.write_text(summary(page))
    front = ROOT / "README.md"
    front.write_text(readme(page, front.read_text()))
    print(f"wrote {page} and the figures of {front}")


if __name__ == "__main__":
    main()
