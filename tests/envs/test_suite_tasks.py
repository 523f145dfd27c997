"""The Control Suite's tasks: exact states, what dm_control was recorded to do, the indicator.

`test_suite_against_dm_control.py` compares them bit for bit where dm_control is installed.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import plangym_ext
from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.errors import MissingExtra

RECORDED = json.loads(Path(__file__).with_name("suite_recorded.json").read_text())


#: Whether there are the dog's meshes.
HAS_DOG = importlib.util.find_spec("dm_control") is not None


#: Largest differences of rewards and observations in 50 steps. The records are of MuJoCo 3.17;
#: other versions round otherwise, and contacts multiply what they differ by: with 4.0 to 5e-15
#: and 3e-11, of the dog's 79 degrees of freedom to 9e-10 and 2e-5.
BOUNDS = {"others": (1e-11, 1e-8), "dog-run": (1e-7, 1e-2)}


@pytest.fixture(params=RECORDED)
def task(request):
    if request.param == "dog-run" and not HAS_DOG:
        pytest.skip("dm_control is not installed: pip install --no-deps dm-control")
    return request.param


def make(task, **options):
    return plangym_ext.make(f"plangym_ext/{task}-v0", **options)


@pytest.mark.slow
def test_states_are_exact(task):
    with make(task, backend="serial") as env:
        report = plangym_ext.check_env(env, num_steps=20)
        assert report.exact, str(report)
        # The limit, and the simulator's own codec.
        assert [method for _, method, _ in report.layers][-1] == "codec"


@pytest.mark.slow
def test_what_dm_control_did_is_done_again(task):
    want = RECORDED[task]
    of_reward, of_obs = BOUNDS["dog-run" if task == "dog-run" else "others"]
    with make(task, backend="serial") as env:
        env.reset(seed=1)
        data = env.gym_env.unwrapped.data
        for name, values in want["start"].items():
            getattr(data, name)[:] = values
        rng = np.random.default_rng(0)
        for k, reward in enumerate(want["rewards"], start=1):
            found = env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))
            assert found.reward == pytest.approx(reward, rel=0, abs=of_reward), f"step {k}"
            if str(k) in want["observations"]:
                expected = want["observations"][str(k)]
                np.testing.assert_allclose(found.obs, expected, rtol=0, atol=of_obs)


@pytest.mark.skipif(HAS_DOG, reason="dm_control is installed")
def test_the_dog_says_where_its_meshes_are():
    with pytest.raises(MissingExtra, match="pip install --no-deps dm-control"):
        make("dog-run")


def test_held_actions_sum_their_rewards():
    # TD-MPC2 and others hold each action for two steps: 500 decisions an episode.
    with make("acrobot-swingup") as one, make("acrobot-swingup", frameskip=2) as two:
        state, *_ = one.reset(seed=3)
        action = np.full(1, 0.5, np.float32)
        first = one.step(action, state)
        second = one.step(action, first.state)
        held = two.step(action, state)
        assert held.reward == first.reward + second.reward
        np.testing.assert_array_equal(held.obs, second.obs)


@pytest.mark.parametrize(
    ("run", "edge", "between"),
    [
        # The bell has 0.1 at its margin, halfway 0.1 ** (1/4).
        (suite_task.gaussian, 0.1, 0.1**0.25),
        # The line has 0.25 there, halfway half of 0.75 less.
        (lambda *given: suite_task.linear(*given, 0.25), 0.25, 0.625),
    ],
    ids=["gaussian", "linear"],
)
def test_the_indicator_is_one_inside_and_what_was_asked_for_at_the_margin(run, edge, between):
    values = np.array([2.0, 3.0, 2.5, 1.5, 3.5])
    found = run(values, 2.0, 3.0, 0.5)
    np.testing.assert_allclose(found, [1, 1, 1, edge, edge], rtol=1e-12)
    assert run(np.array([1.75]), 2.0, np.inf, 0.5)[0] == pytest.approx(between)


def test_lines_and_parabolas_end_at_nought():
    np.testing.assert_array_equal(
        suite_task.linear(np.array([5.0, 0, -9]), 10, np.inf, 10), [0.5, 0, 0]
    )
    np.testing.assert_array_equal(suite_task.quadratic(np.array([0.0, 0.5, -2]), 1), [1, 0.75, 0])
    np.testing.assert_array_equal(suite_task.within(np.array([0.5, 0.6, 2.1]), 0.6, 2), [0, 1, 0])


def test_pictures_need_no_display():
    # In a process of its own: MuJoCo chooses how it draws once, when it is imported.
    code = """if True:
        import mujoco, plangym_ext
        with plangym_ext.make("plangym_ext/cheetah-run-v0", render_mode="rgb_array") as env:
            env.reset(seed=0)
            print(env.render().std() > 5)
        """
    without = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MUJOCO_GL")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=without, capture_output=True, text=True, check=False
    )
    if "CannotDraw" in done.stderr and not ctypes.util.find_library("EGL"):
        pytest.skip("there is no EGL here")
    assert done.stdout.strip() == "True", done.stderr
