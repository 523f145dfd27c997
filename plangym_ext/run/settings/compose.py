"""Settings put together: a preset, files, and what is typed, the later over the earlier."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plangym_ext.errors import InvalidOption, MissingExtra
from plangym_ext.run.settings.config import RunConfig, check_one_kind
from plangym_ext.run.settings.presets import preset
from plangym_ext.run.settings.settings import build, merged

#: Endings of files that hold settings.
ENDINGS = (".toml", ".yaml", ".yml", ".json")


def compose(
    sources: Sequence[str | Path | Mapping[str, Any]] = (),
) -> RunConfig:
    """Make the settings of a run.

    Args:
        sources: names of presets, paths of files (.toml, .yaml, .yml, .json), or nested
            mappings. What a later one says counts; lists are replaced as a whole. With
            another planner or trainer all options of the one before are dropped.

    Raises:
        UnknownName: a preset or a key is not known.
        InvalidOption: a value is not one of that setting, a file is not readable, or there are
            sections both of a run with a planner and of one with an agent.
        MissingExtra: YAML is to be read and PyYAML is not installed.
    """
    found: dict[str, Any] = {}
    for source in sources:
        found = _over(found, source if isinstance(source, Mapping) else named(source))
    # Before they are sections, where defaults of both kinds can no longer be told from what was
    # said.
    check_one_kind(found)
    config: RunConfig = build(RunConfig, found)
    return config


def _over(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first with what the second says."""
    found = merged(first, second)
    if "planner" in first and _name(found) != _name(first):
        # How the planner before was to be evaluated means nothing to another one either.
        evaluation = found.get("evaluation", {})
        if isinstance(evaluation, Mapping):  # what else it may be is refused with all other values
            own = second.get("evaluation", {}).get("planner", {})
            found["evaluation"] = {**evaluation, "planner": own}
    return found


def _name(settings: Mapping[str, Any]) -> Any:
    section = settings.get("planner")
    return section.get("name") if isinstance(section, Mapping) else None


def named(source: str | Path) -> dict[str, Any]:
    """Return what a preset or a file says."""
    path = Path(source)
    # By its ending, and not by whether it is there: a path with a mistake is then not taken for a
    # preset.
    return read_file(path) if path.suffix in ENDINGS else preset(str(source))


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file, by its ending; see `compose` for the errors."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"settings: {path} is no text in UTF-8 (byte {error.start}: {error.reason}). Save it "
            f"as UTF-8."
        ) from None
    except OSError as error:
        raise InvalidOption(f"settings: {path} cannot be read: {error.strerror}.") from None
    try:
        found = _parsed(path.suffix, text)
    # The errors of `tomllib` and `json` derive from it.
    except ValueError as error:
        raise InvalidOption(f"settings: {path} is no {path.suffix[1:]}: {error}") from None
    if not isinstance(found, dict):
        raise InvalidOption(f"settings: {path} must hold sections of settings; got {found!r}.")
    return found


@functools.cache
def _yaml_loader() -> Any:
    """Return a loader that makes plain values alone, and numbers of 3e-4, as TOML does."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Reads what YAML 1.1 takes for a text as the number that it is."""

    number = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Loader


def _parsed(ending: str, text: str) -> Any:
    if ending == ".toml":
        return tomllib.loads(text)
    if ending == ".json":
        return json.loads(text)
    try:
        import yaml
    except ImportError:
        raise MissingExtra(
            "settings: reading YAML needs PyYAML; pip install pyyaml, or write TOML."
        ) from None
    try:
        return yaml.load(text, _yaml_loader())
    except yaml.YAMLError as error:
        # The only one of the three that raises an error of its own family.
        raise ValueError(str(error)) from None
