"""`plangym-ext list KIND`: list envs, planners, presets and other names.

A WORD filters the names: `plangym-ext list envs pacman`. Each line begins with the name, so that
`plangym-ext list planners | cut -d' ' -f1` prints only the names.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from plangym_ext.core.options import OneOf
from plangym_ext.lazy_names import names_of
from plangym_ext.run.arguments import Argument, add_import_option, import_modules

#: The library's own ids, which are all registered.
_OWN_IDS = "plangym_ext/*"


class Options:
    """Options of the command.

    Args:
        word: part of the names
    """

    kind: Annotated[str, OneOf(KINDS), Argument("KIND", f"one of: {', '.join(KINDS)}")]
    word: Annotated[str, Argument("WORD")] = ""
    besides = (add_import_option,)


def run(options: argparse.Namespace) -> int:
    """Print a line a name; exit status 1 if there is none."""
    import_modules(options)
    wanted = options.word.lower()
    found = {name: note for name, note in KINDS[options.kind]().items() if wanted in name.lower()}
    width = max(map(len, found), default=0)
    for name, note in found.items():
        print(f"{name:<{width}}  {note}".rstrip())
    return 0 if found else 1


def envs() -> dict[str, str]:
    """Return gymnasium's registered ids, and patterns of ids registered on demand."""
    import gymnasium as gym

    from plangym_ext.states.families import all_families, family_of_entry_point, register_all_ids

    # Ids appear in the registry only when their packages have registered them.
    register_all_ids()
    importlib.import_module("plangym_ext.ids")
    found: dict[str, str] = {}
    for name, spec in gym.registry.items():
        if not _is_refused(spec.entry_point):
            family = family_of_entry_point(spec.entry_point)
            found[name] = family.name if family else str(spec.entry_point).partition(":")[0]
            if fnmatch.fnmatchcase(name, _OWN_IDS) and spec.entry_point:
                found[name] = first_line(spec.kwargs.get("task", spec.entry_point))
    for family in all_families():
        for pattern in family.names:
            if pattern != _OWN_IDS:
                # An id that is registered under this very name says more than the pattern.
                found.setdefault(pattern, f"{family.name}: ids of this form")
    return found


def _is_refused(entry_point: Any) -> bool:
    """Return whether an id is there only to say that there is no such env any more."""
    # Gymnasium gives the ids of mujoco-py a function as entry point, which raises; it has no other
    # mark.
    return entry_point is None or getattr(entry_point, "__name__", "").startswith("_raise")


def planners() -> dict[str, str]:
    """Return the planners."""
    from plangym_ext.planners import PLANNERS

    return {name: entry.help for name, entry in PLANNERS.items()}


def algorithms() -> dict[str, str]:
    """Return the algorithms, `algorithm.name` of `train`."""
    from plangym_ext.run.settings.sections import ALGORITHMS

    return _classes(ALGORITHMS)


def agents() -> dict[str, str]:
    """Return the agents, `agent.name` of `train`."""
    from plangym_ext.run.settings.sections import AGENTS

    return _classes(AGENTS)


def _classes(known: Mapping[str, tuple[Any, ...]]) -> dict[str, str]:
    """Return what each class of `plangym_ext.learn` does; its settings tell shared ones apart."""
    import plangym_ext.learn

    homes, classes = names_of(plangym_ext.learn.__file__), [entry[0] for entry in known.values()]
    return {
        name: first_line(f"{homes[cls]}:{cls}" if classes.count(cls) == 1 else config)
        for name, (cls, config, *_) in known.items()
    }


@functools.cache
def _docstrings(module: str) -> dict[str, str | None]:
    """Return the docstrings of the classes and functions that a module defines, by name."""
    loader: Any = getattr(importlib.util.find_spec(module), "loader", None)
    tree = ast.parse(loader.get_source(module) or "")
    kinds = ast.ClassDef | ast.FunctionDef
    return {one.name: ast.get_docstring(one) for one in tree.body if isinstance(one, kinds)}


def first_line(what: Any) -> str:
    """Return the first line of a docstring.

    Args:
        what: a class or function; or "module:name" of one, whose module is read but not imported
            if it defines the name: torch takes seconds.
    """
    from plangym_ext.states.families import load_named

    module, _, name = what.partition(":") if isinstance(what, str) else ("", "", "")
    text = _docstrings(module).get(name) if module else None
    if text is None:
        text = load_named(what).__doc__ or ""
    line = text.partition("\n")[0].rstrip(".")
    rest = line.removeprefix("Configuration of ").removeprefix("Return ")
    return line if rest == line else rest[:1].upper() + rest[1:]


def presets() -> dict[str, str]:
    """Return the presets of `train`; `train --list` shows their measured returns."""
    from plangym_ext.run.settings.compose import PRESETS

    return {name: preset.about for name, preset in PRESETS.items()}


def pretrained() -> dict[str, str]:
    """Return the pretrained agents with their envs and mean returns."""
    from plangym_ext.run.pretrained import cards

    known = cards()
    return {
        name: f"{about}; {known[name]['env']}: return {known[name]['return']:g}"
        for name, about in presets().items()
        if name in known
    }


#: What can be listed -> a function that returns names, with a note on each.
KINDS: Mapping[str, Callable[[], dict[str, str]]] = {
    # Functions, as each of them imports what it names: only the kind that is asked for.
    "envs": envs,
    "planners": planners,
    "algorithms": algorithms,
    "agents": agents,
    "presets": presets,
    "pretrained": pretrained,
}
