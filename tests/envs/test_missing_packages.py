"""What is missing is named, with how it is had; pictures need no display."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

#: Each `case` runs as on a machine without the package: its import fails.
MISSING = """
import os, sys
import plangym_ext
from plangym_ext.run.cli import main
from plangym_ext.errors import MissingExtra

def case(package, extra, act):
    sys.modules[package] = None
    try:
        act()
    except MissingExtra as error:
        assert f"checkout of plangym-ext with: pip install -c constraints.txt '.[{extra}]'" in str(
            error
        ), error
        assert package in str(error), error
        print(extra)
    finally:
        del sys.modules[package]

def draw():
    with plangym_ext.make("CartPole-v1", render_mode="rgb_array") as env:
        env.reset(seed=0)
        env.render()

def plan_with_tree():
    # A page of trees is worth having without pictures.
    folder = sys.argv[1]
    arguments = ["plan", "FrozenLake-v1", "--num-simulations", "2", "--max-steps", "1"]
    assert main([*arguments, "--tree", f"{folder}/tree.html", "--out", folder]) == 0
    assert os.path.getsize(f"{folder}/tree.html") > 1000
    print("tree")
    assert main([*arguments, "--video", "--out", folder, "--overwrite"]) == 2

sys.modules["pygame"] = None
plan_with_tree()
del sys.modules["pygame"]
case("imageio", "mujoco", lambda: plangym_ext.make("HalfCheetah-v5"))
case("pygame", "classic", draw)
case("minigrid", "minigrid", lambda: plangym_ext.make("MiniGrid-Empty-5x5-v0"))
from plangym_ext.errors import installing
assert "in a virtual environment of its own" in installing("dm_control")
"""

PICTURES = """
import sys
import plangym_ext
for name in sys.argv[1:]:
    with plangym_ext.make(name, render_mode="rgb_array") as env:
        env.reset(seed=0)
        print(name, env.render().std() > 10, flush=True)
"""


def run(program, *arguments, **environment):
    """Run a program where there is no display and nothing is set for drawing."""
    dropped = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "SDL_VIDEODRIVER", "XDG_RUNTIME_DIR")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_every_missing_package_is_named_with_its_extra(tmp_path):
    done = run(MISSING, str(tmp_path))
    lines = [line for line in done.stdout.splitlines() if " " not in line]
    assert lines == ["tree", "mujoco", "classic", "minigrid"], done.stderr
    assert "the page of trees has no pictures: FrozenLake-v1: drawing needs" in done.stderr
    assert "plangym-ext plan: FrozenLake-v1: drawing needs a package" in done.stderr


def test_pictures_need_no_display_and_say_nothing():
    pytest.importorskip("pygame")
    pytest.importorskip("imageio")
    done = run(PICTURES, "CartPole-v1", "HalfCheetah-v5")
    if "CannotDraw" in done.stderr and "EGL" in done.stderr:
        pytest.skip(f"no EGL here: {done.stderr.strip().splitlines()[-1]}")
    assert done.stdout == "CartPole-v1 True\nHalfCheetah-v5 True\n", done.stderr
    assert done.stderr == ""


def test_a_renderer_that_fails_is_one_error_that_says_how_it_was_set():
    pytest.importorskip("imageio")
    done = run(PICTURES, "HalfCheetah-v5", MUJOCO_GL="glfw")
    expected = "HalfCheetah-v5: drawing failed without a display, with MUJOCO_GL=glfw: "
    assert f"plangym_ext.errors.CannotDraw: {expected}" in done.stderr
    assert "page 'MuJoCo' of the documentation" in done.stderr
