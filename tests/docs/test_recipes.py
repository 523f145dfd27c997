"""The recipes run, where the framework that they are for is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
#: Recipe -> the package that it needs.
NEEDS = {
    "cleanrl_ppo.py": "torch",
    "mlflow_log.py": "mlflow",
    "ray_search.py": "ray",
    "record_video.py": "moviepy",
    "rllib_ppo.py": "ray.rllib",
    "skrl_random.py": "skrl",
    "stable_baselines3_ppo.py": "stable_baselines3",
    "tianshou_collector.py": "tianshou",
    "torchrl_collector.py": "torchrl",
    "trackio_log.py": "trackio",
}


def test_every_recipe_is_listed():
    assert {path.name for path in RECIPES.glob("*.py")} == set(NEEDS)


def is_installed(name):
    """Return whether a package is there; one such as "ray.rllib" if its own packages are."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        return False
    return name != "ray.rllib" or importlib.util.find_spec("tree") is not None


@pytest.mark.slow
@pytest.mark.parametrize("recipe", list(NEEDS))
def test_recipe_runs(recipe, assert_program_runs, tmp_path):
    if not is_installed(NEEDS[recipe]):
        pytest.skip(f"{NEEDS[recipe]} is not installed")
    # Ray would otherwise leave a secret in the home folder, and the logs be kept there.
    logs = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_TRACKING_URI": f"file://{tmp_path}/mlruns"}
    logs["TRACKIO_DIR"] = str(tmp_path / "trackio")
    quiet = {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled"}
    assert_program_runs(RECIPES / recipe, tmp_path, **quiet, **logs)
