"""What is the user's is as without us, through many wrappers: calls, files, sockets, draws."""

from __future__ import annotations

import functools
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

import plangym_ext
from plangym_ext.errors import IncompleteState

LOG: list[str] = []
FOLDER = os.environ.get("LOGGED_FOLDER", "")
BOX = gym.spaces.Box(-1, 1, (4,), np.float32)
PICTURE = gym.spaces.Box(0, 255, (12, 12, 3), np.uint8)


class Logged(gym.Env):
    """Writes down all that is done with it, in this process and in a file."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - gymnasium's

    def __init__(self, observation=BOX, action=None, render_mode="rgb_array"):
        self.observation_space = observation
        self.action_space = action or gym.spaces.Discrete(3)
        self.render_mode = render_mode
        self.file = open(os.path.join(FOLDER, "log"), "a")  # noqa: SIM115 - closed by `close`
        # From the generators of the process: each construction is seen in them.
        self.note(f"made {random.random()} {np.random.random()}")  # noqa: NPY002

    def note(self, what):
        LOG.append(f"{os.getpid() == MAIN} {what}")
        self.file.write(f"{what}\n")
        self.file.flush()

    def obs(self):
        space = self.observation_space
        if isinstance(space, gym.spaces.Dict):
            return {name: np.full(one.shape, 0.5, one.dtype) for name, one in space.items()}
        return (self.np_random.random(space.shape) * space.high).astype(space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.note(f"reset {seed} {options}")
        self.t = 0
        return self.obs(), {}

    def step(self, action):
        self.note(f"step {np.asarray(action).tolist()}")
        self.t += 1
        return self.obs(), float(self.t), self.t >= 6, False, {}

    def render(self):
        self.note("render")
        return np.zeros((12, 12, 3), np.uint8)

    def close(self):
        self.note("close")
        self.file.close()


#: What envs send by sockets comes here, from whatever process.
SERVER = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SERVER.bind(("127.0.0.1", 0))
ADDRESS = SERVER.getsockname()  # in a copy of this process the server is none


class Sends(gym.Wrapper):
    """Tells a server of all that is done, by one socket or by one for each message."""

    def __init__(self, env, *, keeps):
        super().__init__(env)
        self.socket = self.connected() if keeps else None
        self.send("made")

    def connected(self):
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found.connect(ADDRESS)
        return found

    def send(self, what):
        if self.socket is not None:
            self.socket.send(what.encode())
            return
        with self.connected() as other:
            other.send(what.encode())

    def reset(self, **options):
        self.send(f"reset {options}")
        return self.env.reset(**options)

    def step(self, action):
        self.send(f"step {action}")
        return self.env.step(action)

    def close(self):
        self.send("close")
        super().close()
        if self.socket is not None:
            self.socket.close()


def arrived():
    """Return what has come to the server since this was asked last."""
    found = []
    SERVER.setblocking(False)
    while True:
        try:
            found.append(SERVER.recv(1 << 16).decode())
        except BlockingIOError:
            return found


MAIN = os.getpid()
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)
TWO = gym.spaces.Dict(a=BOX, b=BOX)


def _monitor(env):
    from stable_baselines3.common.monitor import Monitor

    return Monitor(env, os.path.join(FOLDER, "monitor"))


def _video(env):
    return wrappers.RecordVideo(env, os.path.join(FOLDER, "video"), episode_trigger=bool)


def _sized(env):
    return wrappers.ResizeObservation(env, (6, 6))


#: Wrappers, and the spaces of the env below.
WRAPPERS = {
    "none": (lambda env: env, {}),
    "TimeLimit": (lambda env: wrappers.TimeLimit(env, 4), {}),
    "OrderEnforcing": (wrappers.OrderEnforcing, {}),
    "PassiveEnvChecker": (wrappers.PassiveEnvChecker, {}),
    "Autoreset": (wrappers.Autoreset, {}),
    "RecordEpisodeStatistics": (wrappers.RecordEpisodeStatistics, {}),
    "RenderCollection": (wrappers.RenderCollection, {}),
    "AddRenderObservation": (wrappers.AddRenderObservation, {}),
    "AddWhiteNoise": (lambda env: wrappers.AddWhiteNoise(env, 0.5), {}),
    "ObstructView": (lambda env: wrappers.ObstructView(env, 0.2, 2), {"observation": PICTURE}),
    "TransformObservation": (lambda env: wrappers.TransformObservation(env, np.square, BOX), {}),
    "FilterObservation": (lambda env: wrappers.FilterObservation(env, ["a"]), {"observation": TWO}),
    "FlattenObservation": (wrappers.FlattenObservation, {"observation": TWO}),
    "ReshapeObservation": (lambda env: wrappers.ReshapeObservation(env, (2, 2)), {}),
    "RescaleObservation": (
        lambda env: wrappers.RescaleObservation(env, np.float32(0), np.float32(1)),
        {},
    ),
    "DtypeObservation": (lambda env: wrappers.DtypeObservation(env, np.float64), {}),
    "DelayObservation": (lambda env: wrappers.DelayObservation(env, 2), {}),
    "TimeAwareObservation": (
        lambda env: wrappers.TimeAwareObservation(wrappers.TimeLimit(env, 5)),
        {},
    ),
    "FrameStackObservation": (lambda env: wrappers.FrameStackObservation(env, 3), {}),
    "MaxAndSkipObservation": (lambda env: wrappers.MaxAndSkipObservation(env, 2), {}),
    "NormalizeObservation": (wrappers.NormalizeObservation, {}),
    "GrayscaleObservation": (wrappers.GrayscaleObservation, {"observation": PICTURE}),
    "ResizeObservation": (_sized, {"observation": PICTURE}),
    "DiscretizeObservation": (lambda env: wrappers.DiscretizeObservation(env, 3), {}),
    "TransformAction": (
        lambda env: wrappers.TransformAction(env, lambda action: 2 - action, env.action_space),
        {},
    ),
    "ClipAction": (wrappers.ClipAction, {"action": ACTIONS}),
    "RescaleAction": (
        lambda env: wrappers.RescaleAction(env, np.float32(-2), np.float32(2)),
        {"action": ACTIONS},
    ),
    "DiscretizeAction": (lambda env: wrappers.DiscretizeAction(env, 3), {"action": ACTIONS}),
    "StickyAction": (lambda env: wrappers.StickyAction(env, 0.3), {}),
    "RepeatAction": (lambda env: wrappers.RepeatAction(env, 2), {}),
    "TransformReward": (lambda env: wrappers.TransformReward(env, abs), {}),
    "ClipReward": (lambda env: wrappers.ClipReward(env, 0.0, 3.0), {}),
    "NormalizeReward": (wrappers.NormalizeReward, {}),
    "RecordVideo": (_video, {}),
    "Monitor": (_monitor, {}),
    "Sends": (lambda env: Sends(env, keeps=True), {}),
    "SendsAnew": (lambda env: Sends(env, keeps=False), {}),
    "several": (
        lambda env: wrappers.NormalizeReward(
            wrappers.RecordEpisodeStatistics(wrappers.TimeLimit(env, 5))
        ),
        {},
    ),
}
NEEDED = {
    "RecordVideo": "moviepy",
    "Monitor": "stable_baselines3",
    "GrayscaleObservation": "cv2",
    "ResizeObservation": "cv2",
}
#: Those that hold a file or a socket, or start a program: `make` refuses them, and closes what it
#: has made.
REFUSED = {
    "RecordVideo": "Popen",
    "Monitor": "TextIOWrapper",
    "Sends": "socket",
    "SendsAnew": "reaches another process or machine",
}
#: Envs that come with gymnasium, below a wrapper that writes down what is done.
ENVS = ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", "MountainCar-v0")


class Noted(gym.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        LOG.append(f"made {random.random()}")

    def reset(self, **options):
        LOG.append(f"reset {options.get('seed')} {options.get('options')}")
        return self.env.reset(**options)

    def step(self, action):
        LOG.append(f"step {np.asarray(action).tolist()}")
        return self.env.step(action)

    def close(self):
        LOG.append("close")
        super().close()


def build(name):
    """Return a constructor of an env by the name of its wrapper or its id."""
    if name in ENVS:
        return lambda: Noted(gym.make(name))
    wrap, spaces = WRAPPERS[name]
    return lambda: wrap(Logged(**spaces))


def played(how, make):
    """Play a new env for some steps; return what was shown."""
    shown = []
    if how in ("gymnasium", "make"):
        ours = how == "make"
        env = plangym_ext.make(make, backend="serial", autoreset=False) if ours else make()
        actions = _actions(env.action_space)
        shown.append(env.reset(seed=3)[1 if ours else 0])
        for _ in range(14):
            obs, reward, terminated, truncated = _step(env, next(actions), ours=ours)
            shown += [obs, float(reward), terminated, truncated]
            if terminated or truncated:
                shown.append(env.reset()[1 if ours else 0])
    else:
        if how == "SyncVectorEnv":
            env = gym.vector.SyncVectorEnv([make, make])
        else:
            env = plangym_ext.make_vec([make, make], backend="serial")
        actions = _actions(env.action_space)
        shown.append(env.reset(seed=3)[0])
        for _ in range(14):
            shown += env.step(next(actions))[:4]
    if how == "make":
        _checked(env)
    env.close()
    return json.dumps(shown, default=lambda value: np.asarray(value).tolist())


def _actions(space):
    space.seed(5)
    while True:
        yield space.sample()


def _step(env, action, *, ours):
    found = env.step(action, return_state=False) if ours else env.step(action)
    return found[:4] if not ours else (found.obs, found.reward, found.terminated, found.truncated)


def _refused(make, how, reason):
    """Make an env and close it, which is what a refusal amounts to."""
    if how == "gymnasium":
        make().close()
    else:
        with pytest.raises(IncompleteState, match=reason):
            plangym_ext.make(make, backend="serial")
    return reason


def _checked(env):
    """Ask `check_env` about an env, which leaves no trace."""
    before = list(LOG)
    plangym_ext.check_env(env, num_steps=20)
    assert before == LOG


def traces(folder):
    """Return what lies in a folder, but for what times change."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_text().splitlines() if path.name == "log" else ""
        for path in files
    }


def differences(names):
    """Return what differs with us, by name and way."""
    global FOLDER
    found = {}
    for name in names:
        for pair in (("gymnasium", "make"), ("SyncVectorEnv", "make_vec")):
            if pair[0] == "SyncVectorEnv" and name in ("RenderCollection", "Autoreset"):
                continue  # whose sub-envs gymnasium's own vector env refuses, or resets twice
            outcomes = []
            for how in pair:
                random.seed(0)
                np.random.seed(0)  # noqa: NPY002
                LOG.clear()
                FOLDER = os.path.join(os.environ["LOGGED_FOLDER"], f"{name}-{how}")
                os.makedirs(FOLDER)
                try:
                    if name in REFUSED and pair[1] == "make":
                        shown = _refused(build(name), how, REFUSED[name])
                    else:
                        shown = played(how, build(name))
                except Exception as error:
                    shown = f"{type(error).__name__}: {error}"
                drawn = random.random(), np.random.random()  # noqa: NPY002
                outcomes.append((shown, list(LOG), drawn, traces(FOLDER), arrived()))
            if outcomes[0] != outcomes[1] or "Error" in outcomes[0][0]:
                at = next((i for i in range(5) if outcomes[0][i] != outcomes[1][i]), 0)
                found[f"{name}, {pair[1]}"] = str([one[at] for one in outcomes])[:1500]
    return found


def _told(names, tmp_path):
    """Return the differences that a new process finds."""
    env = {**os.environ, "LOGGED_FOLDER": str(tmp_path)}
    command = [sys.executable, "-P", "-W", "ignore", __file__, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_the_log_is_the_same_with_and_without_us(tmp_path):
    names = [name for name in WRAPPERS if name not in NEEDED]
    assert len(names) + len(ENVS) >= 40 - len(NEEDED)
    assert _told([*names, *ENVS], tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_the_log_is_the_same_with_wrappers_of_other_packages(tmp_path, name):
    pytest.importorskip(NEEDED[name])
    assert _told([name], tmp_path) == {}


def test_the_doctor_closes_what_it_makes_and_plays_copies(tmp_path, monkeypatch, capsys):
    cli = pytest.importorskip("plangym_ext.run.cli")
    monkeypatch.setattr(sys.modules[__name__], "FOLDER", str(tmp_path))
    LOG.clear()
    gym.register("LoggedForDoctor-v0", functools.partial(Logged))
    try:
        assert cli.main(["doctor", "LoggedForDoctor-v0", "--steps", "3"]) == 0
    finally:
        del gym.registry["LoggedForDoctor-v0"]
    capsys.readouterr()
    made = [line for line in LOG if "made" in line]
    assert len(made) == LOG.count("True close") > 0
    assert (tmp_path / "log").read_text().count("made") == len(made)


if __name__ == "__main__":
    print(json.dumps(differences(sys.argv[1:])))
