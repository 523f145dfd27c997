"""Stable-Baselines3 until it reaches a return, in a process of its own: see `sb3_run.py`."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback

from agent_runs.sb3_run import model_of, played, versions, write
from agent_runs.stop_clock import StopClock


class _Reach(BaseCallback):
    """Plays the best actions now and then, the clock stopped, and ends the run."""

    def __init__(self, clock: StopClock, request: dict[str, Any]) -> None:
        super().__init__()
        self._clock, self._request = clock, request
        self.evaluations: list[dict[str, float]] = []

    def _on_rollout_start(self) -> None:
        self._evaluate()

    def _on_training_end(self) -> None:
        if not self._is_reached:
            self._evaluate()

    def _on_step(self) -> bool:
        return not self._is_reached

    @property
    def _is_reached(self) -> bool:
        last = self.evaluations[-1:]
        return bool(last) and last[0]["return"] >= self._request["reached"]

    def _evaluate(self) -> None:
        if not self.num_timesteps or self.num_timesteps % self._request["every"]:
            return
        with self._clock.stopped():
            told = self._request["episodes"], self._request["seed"]
            returns = played(self.model, self._request["settings"], *told)
            mean = sum(returns) / len(returns)
        self.evaluations.append({"steps": self.num_timesteps, "return": mean, **self._clock.read()})


def main() -> None:
    """Train until the return is reached, or the run is over."""
    request = json.load(sys.stdin)
    settings = request["settings"]
    torch.set_num_threads(settings["threads"])
    clock = StopClock()
    model = model_of(settings)
    reach = _Reach(clock, request)
    model.learn(settings["steps"], callback=reach)
    write(request["out"], {"evaluations": reach.evaluations, "versions": versions()})


if __name__ == "__main__":
    main()
