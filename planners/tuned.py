"""Options that were tried out in certain envs, and do better there than a planner's defaults.

The command `plan` begins with them, unless others are typed.
"""

from __future__ import annotations

from typing import Any

#: Envs by name, whatever their prefix and version: then options by planner. They were tried
#: with each action held for two env steps.
_CHEETAH: dict[str, Any] = {"num_simulations": 256, "horizon": 15}
_WALKER: dict[str, Any] = {"num_simulations": 128, "horizon": 15}
_HOPPER: dict[str, Any] = {"num_simulations": 128, "horizon": 25}
_ACROBOT: dict[str, Any] = {"num_simulations": 64, "horizon": 50}
_HUMANOID: dict[str, Any] = {"num_simulations": 128, "horizon": 15}
_ICEM: dict[str, Any] = {"noise_beta": 1.0, "iterations": 4}
_SPLINE: dict[str, Any] = {"num_knots": 5}
TUNED: dict[str, dict[str, dict[str, Any]]] = {
    f"plangym_ext/{task}-v0": {
        "icem": {**common, **_ICEM, **icem},
        "mppi": {**common, "iterations": 2, **spline},
        "predictive-sampling": {**common, **spline},
        "dial": {**common, **spline},
    }
    for task, common, icem, spline in (
        ("acrobot-swingup", _ACROBOT, {"noise_beta": 2.0, "iterations": 3}, {"num_knots": 10}),
        ("cheetah-run", _CHEETAH, {}, _SPLINE),
        ("hopper-hop", _HOPPER, {}, {"num_knots": 8}),
        ("humanoid-run", _HUMANOID, {}, _SPLINE),
        ("walker-run", _WALKER, {}, _SPLINE),
    )
}


def tuned_options(env: str, planner: str) -> dict[str, Any]:
    """Return the options of a planner in an env, by names; empty if none were tried."""
    return dict(TUNED.get(env, {}).get(planner, {}))
