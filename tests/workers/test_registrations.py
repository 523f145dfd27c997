"""Workers know what the parent has registered with gymnasium, wherever it did so."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import subprocess
import sys
import threading

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import plangym_ext
from plangym_ext.workers.batch_env import ExternalProcess

SCRIPT = """
import contextlib
import functools
import gymnasium as gym
import numpy as np
import sys
import plangym_ext
from plangym_ext.workers.batch_env import BatchEnv
from plangym_ext.workers.batch_env import ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

class Mine(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, size=1):
        self.size = size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.random(2) * self.size
        return self.at, {}

    def step(self, action):
        self.at = (self.at + 0.1 * action) % 1
        return self.at.copy(), float(action), bool(self.at[0] > 0.9), False, {}

gym.register("Mine-v0", Mine, max_episode_steps=9)
gym.register("Named-v0", "__main__:Mine", kwargs={"size": 0.5})
gym.register("Outer-v0", lambda: gym.make("Mine-v0"))
gym.register("CartPole-v1", gym.spec("CartPole-v1").entry_point, max_episode_steps=7)

def played(venv):
    with contextlib.closing(venv):
        seen = [venv.reset(seed=3)[0]]
        for k in range(12):
            seen.append(venv.step(np.array([k % 3, 1]) % venv.single_action_space.n)[0])
        return np.array(seen)

for name in sys.argv[1:]:
    thunk = lambda: gym.make(name)
    expected = played(gym.vector.SyncVectorEnv([thunk] * 2))
    assert (played(plangym_ext.make_vec([thunk] * 2, n_workers=1)) == expected).all(), name
if "Mine-v0" in sys.argv:
    assert plangym_ext.make_vec("Mine-v0", n_workers=1).reset(seed=3)[0].shape == (1, 2)
    actions = np.array([1, 2, 0])
    thunk = lambda: gym.make("Mine-v0")
    for make in ((thunk,), (gym.make, "Mine-v0")):
        env = ParallelEnv(*make, n_workers=1)
        state, *_ = env.reset(seed=0)
        print(env.step_batch(actions, np.stack([state] * 3)).obs.sum().round(6))
        env.close()
    env = BatchEnv([ExternalProcess(functools.partial(gym.make, "Mine-v0"))])
    env.reset(seed=0)
    print(env.step_batch(actions[:1]).obs.shape)
    env.close()
"""

NAMES = {"file": ["Mine-v0", "Named-v0", "Outer-v0", "CartPole-v1"], "-c": ["Named-v0"]}


@pytest.fixture
def unregistered():
    """Forgets the ids that a test registers."""
    before = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(before)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "-c"])
def test_what_the_main_script_registers_is_known_to_workers(tmp_path, how):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    command = [str(path)] if how == "file" else ["-c", SCRIPT]
    done = subprocess.run(
        [sys.executable, "-W", "ignore:.*Overriding environment", *command, *NAMES[how]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if how == "file":
        first, second, shape = done.stdout.split("\n")[:-1]
        assert first == second
        assert shape == "(1, 2)"


def test_ids_of_a_package_that_the_parent_imported_are_known():
    ale_py = pytest.importorskip("ale_py")
    gym.register_envs(ale_py)
    with plangym_ext.make_vec(
        [lambda: gym.make("ALE/Pong-v5")] * 2, n_workers=1, capture="off"
    ) as venv:
        assert venv.reset(seed=0)[0].shape == (2, 210, 160, 3)


def test_a_thunk_may_name_module_and_id(tmp_path, monkeypatch, unregistered):
    (tmp_path / "registers_it.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        'gym.register("FromAModule-v0", CartPoleEnv)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    with plangym_ext.make_vec(
        lambda: gym.make("registers_it:FromAModule-v0"), 2, n_workers=1, capture="off"
    ) as venv:
        assert venv.reset(seed=0)[0].shape == (2, 4)


def test_a_spec_that_cannot_travel_is_named_when_it_is_asked_for(unregistered):
    lock = threading.Lock()
    gym.register("Locked-v0", lambda: CartPoleEnv() if lock else None)
    with ExternalProcess(CartPoleEnv) as worker:  # which has no use for it
        worker.reset()
    with pytest.raises(
        TypeError, match=r"Locked-v0: .* cannot be pickled.*create what it captures"
    ):
        ExternalProcess(lambda: gym.make("Locked-v0")).describe()


def test_specs_import_nothing_before_their_env_is_made(tmp_path, monkeypatch, unregistered):
    (tmp_path / "heavy_module.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\nclass Heavy(CartPoleEnv): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    heavy = importlib.import_module("heavy_module").Heavy
    gym.register("Heavy-v0", heavy)
    gym.register("HoldsClass-v0", make_held, kwargs={"cls": heavy})
    with ExternalProcess(Imported) as worker:
        assert worker.imported is False
    with ExternalProcess(lambda: LooksUp(gym.make("CartPole-v1"))) as worker:
        assert worker.found == (True, False)
    with ExternalProcess(functools.partial(gym.make, "HoldsClass-v0")) as worker:
        assert worker.imported is True


def make_held(cls):
    assert issubclass(cls, CartPoleEnv)
    return Imported()


class LooksUp(gym.Wrapper):
    """Whether its process knows an id and newer versions of it, and has imported its module."""

    @property
    def found(self):
        version = gym.envs.registration.find_highest_version(None, "HoldsClass")
        return version == 0 and "HoldsClass-v0" in gym.registry, "heavy_module" in sys.modules


class Imported(CartPoleEnv):
    """Tells whether its process has imported a module."""

    @property
    def imported(self):
        return "heavy_module" in sys.modules


class Shares(gym.Env):
    """Counts its steps in a value that a manager process keeps for all."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, steps, lock):
        self.steps, self.lock = steps, lock

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        with self.lock:
            self.steps.value += 1
        return 1, 0.0, False, False, {}


def test_workers_reach_what_a_manager_of_the_parent_keeps():
    with multiprocessing.Manager() as manager:
        steps, lock = manager.Value("i", 0), manager.Lock()
        make = functools.partial(Shares, steps, lock)
        venv = plangym_ext.make_vec([make] * 3, n_workers=2, capture="off")
        venv.reset(seed=0)
        for _ in range(2):
            venv.step([0, 1, 1])
        venv.close()
        assert steps.value == 6
