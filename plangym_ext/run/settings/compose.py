"""Composition of settings from presets, files and the command line."""

from __future__ import annotations

import argparse
import functools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plangym_ext.core.files.whole_file import contents
from plangym_ext.core.inherited_options import search_current_folder
from plangym_ext.errors import (
    InvalidOption,
    MissingExtra,
    UnknownName,
    UnreadableFile,
    WrongKind,
    suggestion,
)
from plangym_ext.run.arguments import let_pass, typed_settings
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import Setting, Text, build, listed, merged, nested

#: Endings of files that hold settings.
ENDINGS = (".toml", ".yaml", ".yml", ".json")
_MOST_BYTES = 1 << 18
_MOST_VALUES = 10_000
_MOST_LEVELS = 64  # of sections and lists, one in another
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+)")


def compose(sources: Sequence[str | Path | Mapping[str, Any]] = ()) -> RunConfig:
    """Build the settings of a run from a preset, files and single values.

    Args:
        sources: names of presets, paths of files (.toml, .yaml, .yml, .json), or nested
            mappings. What a later one says counts; lists are replaced as a whole. With
            another planner or algorithm all options of the one before are dropped.

    Raises:
        UnknownName: a preset or a key is not known.
        InvalidOption: a value is not one of that setting, a file is not readable, sections do
            not go together, or a planner and what learns its values discount otherwise.
        MissingExtra: YAML is to be read and PyYAML is not installed.
    """
    found: dict[str, Any] = {}
    for source in _each(sources):
        given = source if isinstance(source, Mapping) else named(source)
        try:
            _check_numbers(given)
        except RecursionError:
            raise InvalidOption(
                "settings: sections or lists contain each other, or are nested too deeply"
            ) from None
        found = _over(found, given)
    config: RunConfig = build(RunConfig, found)
    config.check_discounts()
    return config


def _each(sources: Any) -> list[Any]:
    """Return the sources; a single one is not taken for its letters or its keys."""
    if (
        isinstance(sources, Sequence)
        and not isinstance(sources, str | bytes)
        and all(isinstance(source, str | Path | Mapping) for source in sources)
    ):
        return list(sources)
    raise WrongKind(
        f"compose: expected a list of names of presets, paths of files and mappings, such as "
        f"['ppo_cartpole', {{'rounds': 3}}]; got {sources!r:.80}."
    )


def _check_numbers(value: Any) -> None:
    """Refuse whole numbers that are larger than any float."""
    if isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            _check_numbers(one)
    elif isinstance(value, int) and value.bit_length() > 1023:
        raise InvalidOption("settings: a number has more than 308 digits. Give a smaller one.")


def _over(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(second.get("evaluation"), list | tuple) and second["evaluation"]:
        one, *others = second["evaluation"]
        second = {**second, "evaluation": one, "evaluations": others}
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
    """Return the settings of a preset or a file."""
    path = Path(source)
    # By its ending, and not by whether it is there: a path with a mistake is then not taken for a
    # preset.
    return read_file(path) if path.suffix in ENDINGS else preset(str(source))


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file, by its ending; see `compose` for the errors."""
    try:
        text = contents(path, _MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"settings: {path} is no text in UTF-8 (byte {error.start}: {error.reason}). Save it "
            f"as UTF-8."
        ) from None
    except UnreadableFile as error:
        raise InvalidOption(f"settings: {error}") from None
    except OSError as error:
        raise InvalidOption(f"settings: {path} cannot be read: {error.strerror}.") from None
    try:
        found = _parsed(path.suffix, text)
    # The errors of `tomllib` and `json` derive from the first; of the second is what is nested
    # too deep for their readers.
    except (ValueError, RecursionError) as error:
        told = str(error).splitlines() or [""]
        raise InvalidOption(
            f"settings: {path} is no {path.suffix[1:]}: {' '.join(map(str.strip, told))[:300]}"
        ) from None
    if not isinstance(found, dict):
        raise InvalidOption(f"settings: {path} must hold sections of settings; got {found!r}.")
    return found


@functools.cache
def _yaml_loader() -> Any:
    """Return a loader that makes plain values alone: those that TOML and JSON make of the same."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses what YAML alone has, and what its 1.1 takes for something else than it is."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            if self.depth > _MOST_LEVELS:
                raise ValueError(f"more than {_MOST_LEVELS} nested levels")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def get_single_node(self) -> Any:
            node = super().get_single_node()
            # Before anything is made: a few lines that name others make millions of values.
            if node is not None and _num_values(node, {}) > _MOST_VALUES:
                raise ValueError(f"more than {_MOST_VALUES:,} values, aliases (*) included")
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if isinstance(key.value, str)]
            _check_once([(name, None) for name in names])
            return super().construct_mapping(node, deep=deep)

    def refused(_: Any, node: Any) -> Any:
        # Such as 010, which is 8 in YAML 1.1, 1:30, which is 90, and a day.
        raise ValueError(
            f"line {node.start_mark.line + 1}: {node.value} may mean several things; write a "
            "number as in Python, or a text in quotes"
        )

    def whole(loader: Any, node: Any) -> Any:
        text = node.value.replace("_", "")
        return int(text, 0) if _WHOLE.fullmatch(text) else refused(loader, node)

    def number_of(loader: Any, node: Any) -> Any:
        return refused(loader, node) if ":" in node.value else loader.construct_yaml_float(node)

    number = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    Loader.add_constructor("tag:yaml.org,2002:int", whole)
    Loader.add_constructor("tag:yaml.org,2002:float", number_of)
    Loader.add_constructor("tag:yaml.org,2002:timestamp", refused)
    return Loader


def _num_values(node: Any, known: dict[int, int]) -> int:
    """Return how many values a node of YAML stands for, with those that it only names.

    Raises:
        ValueError: it holds itself.
    """
    if not isinstance(node.value, list):
        return 1
    if id(node) not in known:
        known[id(node)] = 0
        parts = [
            one for pair in node.value for one in (pair if isinstance(pair, tuple) else [pair])
        ]
        known[id(node)] = 1 + sum(_num_values(one, known) for one in parts)
    if not known[id(node)]:
        raise ValueError(f"line {node.start_mark.line + 1}: it contains itself")
    return known[id(node)]


def _check_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping of names and values.

    Raises:
        ValueError: a name comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice in a section")
    return found


def _check_levels(text: str) -> None:
    """Refuse what is nested deeper than settings are: YAML's own reader takes long for it.

    Raises:
        ValueError: there are too many brackets, one in another.
    """
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        if depth > _MOST_LEVELS:
            raise ValueError(f"more than {_MOST_LEVELS} nested brackets")


def _parsed(ending: str, text: str) -> Any:
    _check_levels(text)
    if ending == ".toml":
        return tomllib.loads(text)
    if ending == ".json":
        return json.loads(text, object_pairs_hook=_check_once)
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


# Presets ----------------------------------------------------------------------


class Preset(NamedTuple):
    """A file of tested settings, for users to copy.

    Attributes:
        path: of the TOML file, whose first line says in a comment what learns what.
    """

    path: Path

    @property
    def about(self) -> str:
        """Description of the preset in one line."""
        first, _, _ = contents(self.path).decode().partition("\n")
        return first.removeprefix("# ").rstrip()

    @property
    def settings(self) -> dict[str, Any]:
        """Nested settings, as `compose` takes them."""
        return tomllib.loads(contents(self.path).decode())


#: Name -> preset.
PRESETS = {
    path.stem: Preset(path) for path in sorted(Path(__file__).with_name("preset_files").iterdir())
}


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a preset, a fresh copy that may be changed.

    Raises:
        UnknownName: there is no such preset.
    """
    if name not in PRESETS:
        raise UnknownName(
            f"preset must be one of {', '.join(PRESETS)}, or a file that ends in .toml, .yaml or "
            f".json; got {name!r}{suggestion(name, PRESETS)}"
        )
    return PRESETS[name].settings


# Command-line options for training settings -----------------------------------


#: Sections whose options depend on their name.
_NAMES = ("planner.name", "agent.name", "algorithm.name")


def add_setting_options(
    parser: argparse.ArgumentParser, given: Sequence[str], sources: Sequence[Any]
) -> None:
    """Add one option per setting, with the defaults of `sources`, which the options name too.

    Args:
        parser: of the command.
        given: what was typed; a planner or algorithm named there brings its own settings.
        sources: presets and files; see `compose`. Without any no setting is known: those that
            were typed pass, for the command to refuse.

    Raises:
        PlangymExtError: the sources cannot be put together.
    """
    typed = typed_settings(given)
    parser.set_defaults(sources=sources)
    # Settings depend on the planner, which takes a compiler with it: not for help alone.
    if not sources:
        known = parser._option_string_actions
        let_pass(parser, [key for key in typed if f"--{key}" not in known])
        return
    # A class of one's own, `my_module:Mine`, is loaded to list its settings.
    search_current_folder()
    # Names alone, on which it depends what settings there are: values are read when all is known.
    config = compose([*sources, nested({key: typed[key] for key in _NAMES if key in typed})])
    free = []
    for setting in listed(config):
        if setting.free:
            free.append(setting)
            continue
        # A percent sign is a placeholder to argparse.
        text = setting.help.replace("%", "%%").replace("`", "")
        default = "" if "%(default)" in text else f" (default: {_shown(setting.default)})"
        parser.add_argument(
            f"--{setting.key}",
            dest=setting.key,
            type=Text,
            metavar="X",
            default=None,
            help=f"{text}{default.replace('%', '%%')}",
        )
    for setting in free:
        _add_free(parser, setting, typed)


def _add_free(parser: argparse.ArgumentParser, setting: Setting, typed: Mapping[str, str]) -> None:
    """Add the keys that were typed below a setting with free keys."""
    keys = [key for key in typed if key.startswith(f"{setting.key}.")]
    for key in keys:
        parser.add_argument(f"--{key}", dest=key, type=Text, help=argparse.SUPPRESS)
    if not keys:
        # For the help alone; what it says is true of any key.
        parser.add_argument(
            f"--{setting.key}.NAME",
            dest=f"{setting.key}.NAME",
            type=Text,
            metavar="X",
            default=None,
            help=f"{setting.help.replace('%', '%%')} (now: {_shown(setting.default)})".replace(
                "`", ""
            ),
        )


def chosen_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the typed settings as nested sections."""
    found = vars(options).items()
    # Known by their type: other options of a command are never `Text`, and None was not typed.
    settings = {key: value for key, value in found if isinstance(value, Text)}
    return nested(settings)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
    return str(value) or "empty"
