"""Sections whose settings depend on a name: a planner's and a trainer's."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from plangym_ext.errors import InvalidOption, UnknownName, suggestion
from plangym_ext.learn.trainers.config import (
    AlphaZeroConfig,
    HistogramConfig,
    QConfig,
    SupervisedConfig,
    TDConfig,
    TrainerConfig,
    ValueConfig,
)
from plangym_ext.run.settings.settings import (
    Setting,
    build,
    check_names,
    dotted,
    listed,
    plain,
    read,
)

#: Name -> the trainer's class in `plangym_ext.learn`, and its settings.
TRAINERS: Mapping[str, tuple[str, type[TrainerConfig]]] = {
    "alphazero": ("AlphaZeroTrainer", AlphaZeroConfig),
    "value": ("ValueTrainer", ValueConfig),
    "q": ("QTrainer", QConfig),
    "histogram": ("HistogramTrainer", HistogramConfig),
    "supervised": ("SupervisedTrainer", SupervisedConfig),
    "td": ("TDTrainer", TDConfig),
}


@dataclass(frozen=True)
class TrainerSettings:
    """A trainer and its settings, side by side in a file: `{name = "value", l2 = 0.0}`.

    Args:
        name: "alphazero", "value", "q", "histogram", "supervised" or "td".
        config: of that trainer.
    """

    name: str = "alphazero"
    config: TrainerConfig = field(default_factory=AlphaZeroConfig)

    @classmethod
    def from_settings(cls, values: Mapping[str, Any], where: str) -> Self:
        """Make it from one flat mapping; see `settings.build`."""
        name = str(values.get("name", cls.name))
        if name not in TRAINERS:
            raise UnknownName(
                f"settings: {dotted(where, 'name')} must be one of {', '.join(TRAINERS)}; got "
                f"{name!r}{suggestion(name, TRAINERS)}"
            )
        rest = {key: value for key, value in values.items() if key != "name"}
        return cls(name, build(TRAINERS[name][1], rest, where))

    def to_settings(self) -> dict[str, Any]:
        """Return it as one flat mapping."""
        return {"name": self.name, **plain(self.config)}

    def listed(self, where: str) -> list[Setting]:
        """List its settings; see `settings.listed`."""
        name = Setting(dotted(where, "name"), self.name, f"one of: {', '.join(TRAINERS)}")
        return [name, *listed(self.config, where)]


@dataclass(frozen=True)
class PlannerSettings:
    """A planner and its options, side by side in a file: `{name = "mcts", c_puct = 1.0}`.

    Args:
        name: as in `plangym_ext.planners.PLANNERS`.
        options: keywords of its constructor.
    """

    name: str = "mcts"
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, values: Mapping[str, Any], where: str) -> Self:
        """Make it from one flat mapping; see `settings.build`."""
        name = str(values.get("name", cls.name))
        known = planner_kinds(name)
        rest = {key: value for key, value in values.items() if key != "name"}
        check_names(rest, list(known), where)
        return cls(name, {k: read(known[k], v, dotted(where, k)) for k, v in rest.items()})

    def to_settings(self) -> dict[str, Any]:
        """Return it as one flat mapping."""
        return {"name": self.name, **self.options}

    def listed(self, where: str) -> list[Setting]:
        """List its options; see `settings.listed`."""
        from plangym_ext.planners import PLANNERS, load_planner, options_of

        found = [Setting(dotted(where, "name"), self.name, f"one of: {', '.join(PLANNERS)}")]
        for option in options_of(load_planner(self.name)):
            if option.kind is not None:
                value = self.options.get(option.name, option.default)
                found.append(Setting(dotted(where, option.name), value, option.help))
        return found

    def changed(self, options: Mapping[str, Any], where: str) -> PlannerSettings:
        """Return the same planner with some options as others say."""
        return self.from_settings({"name": self.name, **self.options, **options}, where)

    def make(self, evaluator: Any = None) -> Any:
        """Make the planner; it asks the evaluator if it asks any.

        Raises:
            InvalidOption: an option has a value that it cannot have.
        """
        from plangym_ext.planners import load_planner, options_of

        cls: Any = load_planner(self.name)
        asks = any(option.name == "evaluator" for option in options_of(cls))
        return cls(**self.options, **({"evaluator": evaluator} if asks and evaluator else {}))


def planner_kinds(name: str) -> dict[str, Any]:
    """Return the options of a planner that can be typed in, with their types."""
    from plangym_ext.planners import load_planner, options_of

    return {
        option.name: typing.Optional[option.kind] if option.optional else option.kind  # noqa: UP045
        for option in options_of(load_planner(name))
        if option.kind is not None
    }


def checked_choice(where: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of those known."""
    if value not in known:
        raise InvalidOption(
            f"settings: {where} must be one of {', '.join(known)}; got {value!r}"
            f"{suggestion(value, known)}."
        )


def checked_least(where: str, value: float | None, least: float) -> None:
    """Refuse a number below `least`; None is what it means."""
    if value is not None and not value >= least:
        raise InvalidOption(f"settings: {where} must be at least {least}; got {value}.")
