"""Options of a planner class, and tuned options of planners for certain envs."""

from __future__ import annotations

from typing import Any, NamedTuple

from plangym_ext.core.inherited_options import described, parameters_of
from plangym_ext.core.options import declarations, declared_by
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.planners.base import Planner


class Option(NamedTuple):
    """One constructor option of a planner: name, default, documentation.

    Attributes:
        name: the keyword of the constructor.
        kind: `int`, `float`, `bool` or `str`; None if it cannot be typed in, such
            as a function. `str` if it is a function or the name of one.
        optional: whether None is a value too.
        default: what holds if it is not given; `inspect.Parameter.empty` if it must be.
        help: what it means, in one line.
    """

    name: str
    kind: type | None
    optional: bool
    default: Any
    help: str


@checking_arguments
def options_of(planner: type[Planner]) -> list[Option]:
    """List the options of a planner, its own before the common ones.

    Args:
        planner: its class: a dataclass, or one whose constructor takes keywords.
    """
    helps, declared = described(planner), declarations(planner)
    shared = parameters_of(Planner)
    # The sort is stable: within both groups the options keep their order.
    parameters = sorted(parameters_of(planner).values(), key=lambda one: one.name in shared)
    found = []
    for name, default, annotation in ((p.name, p.default, p.annotation) for p in parameters):
        takes = declared.get(name) or declared_by(annotation, planner.__module__)
        kinds = [kind for kind in takes.kinds if kind in (int, float, bool, str)]
        # Of two types a text on the command line would not say which is meant.
        kind = kinds[0] if len(kinds) == 1 else None
        found.append(Option(name, kind, takes.optional, default, helps.get(name, "")))
    return found


Options = dict[str, Any]

# The Control Suite's tasks, with each action held for two env steps: how many sequences of how
# many steps a decision is worth, then what shapes them.
_ACROBOT: Options = {"num_simulations": 64, "horizon": 50}
_CHEETAH: Options = {"num_simulations": 256, "horizon": 24, "discount": 1.0}
_DOG: Options = {"num_simulations": 24, "horizon": 10, "num_knots": 5}
# As long as it takes to stand up, or to hop and land; before that nothing is earned.
_HOPPER: Options = {"num_simulations": 640, "horizon": 40, "discount": 1.0, "novelty_bonus": 0.1}
_HUMANOID: Options = {"num_simulations": 64, "horizon": 16}
_WALKER: Options = {"num_simulations": 128, "horizon": 15}
_EIGHT_KNOTS: Options = {"num_knots": 8}
_FIVE_KNOTS: Options = {"num_knots": 5}


def _suite(
    common: Options, icem: Options, spline: Options, mppi: Options | None = None
) -> dict[str, Options]:
    """Return the options of each planner in a task."""
    return {
        "icem": {**common, **icem},
        "mppi": {**common, **spline, "iterations": 2, **(mppi or {})},
        "predictive-sampling": {**common, **spline},
        "dial": {**common, **spline},
    }


_PINK: Options = {"noise_beta": 1.0, "iterations": 4}
# At full speed a shorter horizon falls into worse gaits, and more noise costs speed.
_FAR: Options = {"num_simulations": 448, "horizon": 30, "iterations": 6, "init_std": 0.5}
#: By env, then by planner.
TUNED: dict[str, dict[str, Options]] = {
    "plangym_ext/acrobot-swingup-v0": _suite(
        _ACROBOT, {"noise_beta": 2.0, "iterations": 3}, {"num_knots": 10}
    ),
    "plangym_ext/cheetah-run-v0": _suite(_CHEETAH, {**_PINK, **_FAR}, _EIGHT_KNOTS),
    "plangym_ext/dog-run-v0": _suite(
        _DOG, {"noise_beta": 1.0, "iterations": 2, "num_elites": 4}, _FIVE_KNOTS
    ),
    "plangym_ext/hopper-hop-v0": _suite(
        _HOPPER,
        {"noise_beta": 1.0, "iterations": 5, "init_std": 0.8, "num_elites": 16},
        _EIGHT_KNOTS,
    ),
    "plangym_ext/humanoid-run-v0": _suite(
        _HUMANOID,
        {**_PINK, **_EIGHT_KNOTS},
        {**_FIVE_KNOTS, "noise_std": 0.5},
        {"temperature": 0.05},
    ),
    "plangym_ext/walker-run-v0": _suite(_WALKER, _PINK, _FIVE_KNOTS),
}

# Little is earned within the two or three moves that some hundred steps see, in full: a few
# sequences of moves are followed far, kept from move to move, and the best of them is played.
_ROOM = 20_000  # long branches stay for many moves, so that nodes add up
_FOLLOWED: Options = {
    "wave_size": 1,
    "keep_tree": True,
    "choice": "branch",
    "discount": 0.97,
    "capacity": _ROOM,
}
#: By the beginning of an env's id, then by planner.
TUNED_FAMILIES: dict[str, dict[str, Options]] = {
    "ALE/": {
        "mcts": {**_FOLLOWED, "rollout_depth": 13, "keep_rollouts": True},
        "sts": {
            **_FOLLOWED,
            "rollout_depth": 0,
            # As far as a rollout of `mcts`, which six actions a node would not pay for.
            "num_expansions": 13,
            "num_children": 2,
            "c_puct": 0.4,
        },
        "rollout-iw": {
            "features": "whole",
            "max_depth": 30,
            "greed": 0.8,
            "persistence": 0.9,
            # Decides where nothing is earned: games pay 1 at the least.
            "count_bonus": 0.1,
            "discount": 0.98,
            # A lost life, where it has a price: life_penalty=1000.
            "ends_below": -500.0,
            "capacity": _ROOM,
        },
    }
}


def is_tuned(env: str) -> bool:
    """Return whether options were tried in an env, or in others of its family."""
    return env in TUNED or _family(env) is not None


@checking_arguments
def tuned_options(env: str, planner: str) -> Options:
    """Return constructor options that were tuned for a planner in an env, by name.

    The command `plan` begins with them.

    Args:
        env: the id.
        planner: the name.

    Returns:
        A fresh dictionary, empty if none were tried: the planner's defaults hold.
    """
    family = _family(env)
    found = TUNED_FAMILIES[family] if family is not None else TUNED.get(env, {})
    return dict(found.get(planner, {}))


def _family(env: str) -> str | None:
    """Return how the ids of an env's family begin, if options were tried there."""
    return next((beginning for beginning in TUNED_FAMILIES if env.startswith(beginning)), None)
