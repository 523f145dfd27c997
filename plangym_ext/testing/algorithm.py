"""The contract of an algorithm: it learns, and a run that was stopped goes on bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from plangym_ext.run import Runner, compose


class AlgorithmContract:
    """Tests of an algorithm in short runs.

    Attributes:
        preset: which trains with it.
        settings: of the run, where they differ from the preset's: `algorithm.name` at least.
    """

    preset = "ppo_cartpole"
    settings: ClassVar[dict[str, Any]] = {}

    def runner(self, folder: Path, rounds: int, **options: Any) -> Runner:
        """Return a run of some rounds, without evaluations, that saves each."""
        short = {"rounds": rounds, "checkpoint_every": 1, "evaluation": {"every": 0}}
        config = compose([self.preset, {"collector": {"num_envs": 4}}, self.settings, short])
        return Runner(config, folder, show=False, **options)

    def test_it_learns_and_a_run_goes_on_bit_for_bit(self, tmp_path: Path) -> None:
        with self.runner(tmp_path / "whole", 3) as whole:
            before = _weights(whole)
            whole.run()
            after = _weights(whole)
        with self.runner(tmp_path / "parts", 2) as first:
            first.run()
        with self.runner(tmp_path / "parts", 3, resume=True) as rest:
            rest.run()
            resumed = _weights(rest)
        assert any((before[name] != value).any() for name, value in after.items())
        for name, value in after.items():
            np.testing.assert_array_equal(resumed[name], value, err_msg=name)


def _weights(runner: Runner) -> dict[str, Any]:
    state = runner.network.state_dict()
    return {name: value.numpy().copy() for name, value in state.items()}
