"""Pages that the build writes into `docs/generated`: one per planner, algorithm and env family.

They are made of docstrings, declared options, presets and the tables of the benchmark pages. The
API page is cut into one page per section.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import command_page

from plangym_ext.core.inherited_options import described
from plangym_ext.core.options import declarations
from plangym_ext.planners import PLANNERS, Planner, load_planner, options_of

DOCS = Path(__file__).parent
#: Planners of sequences of actions, which are shown on a pendulum.
_OF_SEQUENCES = "plangym_ext.planners.continuous"
#: Where the settings of an algorithm come from that has no small preset of its own.
_NEAREST = {
    "reinforce": "ppo_cartpole",
    "vtrace": "ppo_cartpole",
    "c51": "dqn_cartpole",
    "rainbow": "dqn_cartpole",
    "qr_dqn": "dqn_cartpole",
    "value": "narrow_path",
    "q": "narrow_path",
    "histogram": "narrow_path",
    "supervised": "narrow_path",
    "td": "narrow_path",
    "teams": "mappo_simple_spread",
    "vdn": "mappo_simple_spread",
    "qmix": "mappo_simple_spread",
}


class EnvFamily(NamedTuple):
    """A family of envs without a page of its own.

    Attributes:
        title: of its page.
        envs: pattern of the rows of the certificates that are its own.
        text: what it is.
    """

    title: str
    envs: str
    text: str


ENV_FAMILIES = {
    "classic_control": EnvFamily(
        "Classic control",
        r"^gymnasium .*`(CartPole|Pendulum|Acrobot|MountainCar)",
        "Gymnasium's small control tasks. A batch runs in one [compiled loop](../../kernels.md), "
        "bit for bit as the Python code; drawing needs the extra `classic`.",
    ),
    "toy_text": EnvFamily(
        "Toy text",
        r"^gymnasium .*`(FrozenLake|CliffWalking|Taxi|Blackjack)",
        "Gymnasium's tables of transitions. All have kernels. FrozenLake is slippery by default: "
        "a planner that steps states as they are [knows where it slips](../../trees.md#chance).",
    ),
    "minigrid": EnvFamily(
        "MiniGrid and BabyAI",
        r"^minigrid ",
        "Grid worlds with doors, keys and missions in words, extra `minigrid`. Snapshots capture "
        "them without a pickle.",
    ),
    "robotics": EnvFamily(
        "Robotics",
        r"^(gymnasium-robotics|robosuite|metaworld|myosuite|panda-gym|shimmy|dm-control) ",
        "Tasks of other packages on MuJoCo and PyBullet. An env that holds a MuJoCo simulator is "
        "restored in place.",
    ),
}


def write(folder: Path) -> None:
    """Write all pages, those alone that have changed, and remove what is none of them."""
    pages = {
        folder / group / f"{name}.md": text
        for group, found in {
            "planners": planner_pages(),
            "algorithms": algorithm_pages(),
            "envs": env_pages(),
            "api": api_pages(),
            ".": {
                "planners": _planner_index(),
                "algorithms": _algorithm_index(),
                "command_line": command_page.page(),
            },
        }.items()
        for name, text in found.items()
    }
    for path in set(folder.rglob("*.md")) - set(pages):
        path.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def planner_pages() -> dict[str, str]:
    """Return the page of every planner, by its name."""
    return {name: _planner_page(name) for name in PLANNERS}


def _planner_index() -> str:
    rows = [
        (f"[{load_planner(name).__name__}](planners/{name}.md)", f"`{name}`", entry.help)
        for name, entry in PLANNERS.items()
    ]
    return (
        "# All planners\n\n[Planners](../planners.md) has what they share; "
        "[how to choose](../questions.md#which-planner).\n\n"
        + _table(("class", "name", "method"), rows)
        + _tree("planners", PLANNERS)
    )


def _planner_page(name: str) -> str:
    cls = load_planner(name)
    # What all planners have, such as the limits of a plan, comes first.
    common = {field.name for field in dataclasses.fields(Planner)}
    options = sorted(options_of(cls), key=lambda option: option.name not in common)
    rows = [
        (
            f"`{option.name}`",
            _typed(option.kind.__name__ if option.kind else "", option.optional),
            _default(option.default),
            option.help,
        )
        for option in options
    ]
    return "\n".join(
        [
            f"# {cls.__name__}\n",
            _said(cls),
            f"`plangym-ext plan ENV_ID --planner {name}`; class "
            f"{{class}}`plangym_ext.planners.{cls.__name__}`.\n",
            "## Example\n",
            f"```python\n{planner_example(name)}```\n",
            "## Options\n",
            "In Python keywords; on the command line `--wave-size 8` for `wave_size=8`.\n",
            _table(("option", "type", "default", "meaning"), rows),
            *_measured([name]),
        ]
    )


def planner_example(name: str) -> str:
    """Return a program that plans with a planner, which a test runs."""
    cls = load_planner(name)
    env_id = "Pendulum-v1" if cls.__module__.startswith(_OF_SEQUENCES) else "CartPole-v1"
    return f"""\
import plangym_ext
from plangym_ext.planners import {cls.__name__}

planner = {cls.__name__}(num_simulations=16)
with plangym_ext.make("{env_id}") as env:
    state, obs, info = env.reset(seed=0)
    plan = planner.plan(env, state, rng=0, obs=obs)
print(plan.action, plan.value, plan.budget.model_steps)
"""


def algorithm_pages() -> dict[str, str]:
    """Return the page of every algorithm, by its name in settings; needs torch or a mock of it."""
    from plangym_ext.run.settings.sections import ALGORITHMS

    presets = _presets()
    return {
        name: _algorithm_page(name, cls, config, presets.get(name, {}))
        for name, (cls, config) in ALGORITHMS.items()
    }


def _algorithm_index() -> str:
    from plangym_ext.run.commands.listing import algorithms
    from plangym_ext.run.settings.sections import ALGORITHMS

    presets, does = _presets(), algorithms()
    rows = [
        # A line for each preset: nine in one would leave no room for what it does.
        (
            f"[{_title(name, cls)}](algorithms/{name}.md)<br>`{name}`",
            does[name],
            _listed(presets.get(name, {}), "<br>"),
        )
        for name, (cls, _) in ALGORITHMS.items()
    ]
    return (
        "# All algorithms\n\n[Training agents](../training_agents.md) and [learning from "
        "planning](../learning.md) have what they share.\n\n"
        + _table(("class, name", "what it does", "presets"), rows)
        + _tree("algorithms", ALGORITHMS)
    )


def _title(name: str, cls: str) -> str:
    return cls if cls != "SupervisedLearning" else f"{cls}: {name}"


def _listed(names: Iterable[str], between: str = ", ") -> str:
    return between.join(f"`{name}`" for name in names)


def _tree(folder: str, names: Iterable[str]) -> str:
    listed = "\n".join(f"{folder}/{name}" for name in names)
    return f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def _algorithm_page(name: str, cls_name: str, config: type[Any], presets: dict[str, str]) -> str:
    import plangym_ext.learn

    helps, declared = described(config), declarations(config)
    rows = [
        (
            f"`{one.name}`",
            declared[one.name].text.replace(" | ", " or ") if one.name in declared else "",
            _default(_value(one)),
            helps.get(one.name, ""),
        )
        for one in dataclasses.fields(config)
        if one.init
    ]
    lines = [f"- `{preset}`: {text}" for preset, text in presets.items()]
    return "\n".join(
        [
            f"# {_title(name, cls_name)}\n",
            _said(getattr(plangym_ext.learn, cls_name)),
            f'`algorithm.name = "{name}"`; class {{class}}`plangym_ext.learn.{cls_name}`, config '
            f"{{class}}`plangym_ext.learn.{config.__name__}`.\n",
            "## Example\n",
            f"```python\n{algorithm_example(name)}```\n",
            *(["Presets, for `plangym-ext train PRESET`:\n", *lines, ""] if lines else []),
            "## Options\n",
            "In settings `algorithm.NAME`.\n",
            _table(("option", "type", "default", "meaning"), rows),
            *_measured([name, name.replace("_", ""), *presets]),
        ]
    )


def algorithm_example(name: str) -> str:
    """Return a program of one round of a run with an algorithm, which a test runs."""
    preset = _NEAREST.get(name) or next(iter(_presets()[name]))
    settings = '{"rounds": 1, "collector": {"moves": 8}, "evaluation": {"every": 0}}'
    if name in _NEAREST:
        agent = {"c51": ', "agent": {"returns": "atoms", "return_range": [0.0, 100.0]}'}
        agent["rainbow"] = agent["c51"].replace("}", ', "dueling": True, "noisy": True}')
        agent["qr_dqn"] = ', "agent": {"returns": "quantiles"}'
        agent["vdn"] = agent["qmix"] = ', "agent": {"name": "agents_q"}'
        target = ', "value_target": "return"' if name == "supervised" else ""
        if name == "teams":
            members = '{"a": {"members": [0, 1]}, "b": {"members": [2], "name": "q"}}'
            agent["teams"] = f', "agent": {{"name": "teams", "teams": {members}}}'
            target = ', "teams": {"a": {"name": "ppo"}, "b": {"name": "dqn"}}'
        algorithm = f'"algorithm": {{"name": "{name}"{target}}}'
        settings = f"{settings[:-1]}, {algorithm}{agent.get(name, '')}}}"
    return f"""\
from plangym_ext.run import Runner, compose

settings = {settings}
config = compose(["{preset}", settings])
with Runner(config, "runs/one-{name}", show=False) as runner:
    runner.run()
print(runner.steps, runner.algorithm.updates)
"""


def _presets() -> dict[str, dict[str, str]]:
    """Return the presets of every algorithm with what they say of themselves; short runs first."""
    folder = DOCS.parent / "plangym_ext" / "run" / "settings" / "preset_files"
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.toml"), key=lambda path: ("cartpole" not in path.stem, path)):
        text = path.read_text()
        name = tomllib.loads(text).get("algorithm", {}).get("name", "alphazero")
        found.setdefault(name, {})[path.stem] = text.partition("\n")[0].removeprefix("# ")
    return found


def env_pages() -> dict[str, str]:
    """Return a page with a picture and its certificates for every family without its own page."""
    text = (DOCS / "benchmarks_exactness.md").read_text()
    rows = re.findall(r"^\| (.*) \|$", text.partition("| package | env |")[2], re.M)
    pages = {}
    for name, family in ENV_FAMILIES.items():
        own = [row for row in rows if re.search(family.envs, row)]
        table = "\n".join(f"| {row} |" for row in own)
        picture = f"![{family.title}](../../_static/envs/{name}.webp)\n\n"
        has = (DOCS / "_static" / "envs" / f"{name}.webp").exists()
        pages[name] = (
            f"# {family.title}\n\n{picture if has else ''}{family.text}\n\n## States\n\n"
            "[The columns](../../benchmarks_exactness.md#certificates-of-public-envs).\n\n"
            "| package | env | way | bytes | cost | proof, or the reason |\n"
            f"|---|---|---|---:|---:|---|\n{table}\n"
        )
    return pages


def api_pages() -> dict[str, str]:
    """Return a page for every section of the API page."""
    _, *sections = re.split(r"^## ", (DOCS / "api.md").read_text(), flags=re.M)
    return {_slug(one): "# " + re.sub(r"\((?=[a-z_/]+\.md)", "(../../", one) for one in sections}


def api_index(text: str) -> str:
    """Return the API page without its sections, each of which has a page of its own."""
    head, *sections = re.split(r"^## ", text, flags=re.M)
    names = "\n".join(f"generated/api/{_slug(section)}" for section in sections)
    return f"{head}\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"


def _slug(section: str) -> str:
    return re.sub(r"\W+", "_", section.partition("\n")[0].lower()).strip("_")


def _said(cls: type[Any]) -> str:
    """Return a class's docstring without its sections of arguments and errors."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    parts = re.split(r"\n(?=(?:Args|Raises|Attributes|Returns):\n)", doc)
    rest = [re.sub(r"\A\w+:\n(?:(?: .*)?\n?)*", "", part) for part in parts[1:]]
    return "\n\n".join(part.strip() for part in (parts[0], *rest) if part.strip()) + "\n"


def _value(field: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _typed(kind: str, optional: bool) -> str:
    return f"{kind} or None" if kind and optional else kind


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty or value is dataclasses.MISSING:
        return "needed"
    return f"`{type(value).__name__}()`" if dataclasses.is_dataclass(value) else f"`{value!r}`"


def _table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")


def _measured(names: list[str]) -> Iterator[str]:
    """Yield the rows of the benchmark tables that name a planner, an algorithm or a preset."""
    is_named = re.compile(
        rf"\|\s*`?({'|'.join(map(re.escape, names))})`?( [^|]*)?\|", re.IGNORECASE
    )
    found = []
    for page in sorted(DOCS.glob("benchmarks_*.md")):
        section = ""
        for block in re.split(r"\n(?=#+ )|\n\n", page.read_text()):
            if block.startswith("#"):
                section = block.partition("\n")[0].lstrip("# ")
            head, _, rows = block.partition("\n|--")
            if not block.startswith("|"):
                continue
            rule, _, rows = rows.partition("\n")
            own = [row for row in rows.splitlines() if is_named.search(row)]
            if own:
                link = re.sub(r"[^\w\- ]", "", section).lower().replace(" ", "-")
                found.append(f"[{section}](../../{page.name}#{link}):\n\n{head}\n|--{rule}")
                found.append("\n".join(own[:12]) + "\n")
    if found:
        yield "## Measured\n"
        yield from found[:12]
