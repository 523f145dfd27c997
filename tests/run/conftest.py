from __future__ import annotations

import json
from pathlib import Path

import pytest

from plangym_ext.run.cli import main


@pytest.fixture
def plan_cartpole(tmp_path):
    """Play a short CartPole episode from the command line; returns episode.json."""

    def play(*options: str) -> dict:
        out = tmp_path / "out"
        arguments = ["plan", "CartPole-v1", "--num-simulations", "8", "--max-steps", "6"]
        assert main([*arguments, "--out", str(out), "--overwrite", *options]) == 0
        return json.loads(Path(out / "episode.json").read_text())

    return play
