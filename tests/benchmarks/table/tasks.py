"""The envs of the table. Imported by peers' Pythons too: nothing of ours at the top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

#: Batches of prepared random actions, taken in turn.
NUM_BATCHES = 64
#: Steps that every contestant has made before it is measured.
WARM_UP = 50


@dataclass(frozen=True)
class Task:
    """One env.

    Attributes:
        env_id: gymnasium id.
        native: our backend beside "serial" and "process", or None.
        lead: steps from a reset to the first state that is stepped from.
        rows: numbers of rows B that are measured.
        largest_of_objects: the same where every row is an env object of its own.
        envpool: id and arguments there, or None.
        plangym: class there, "module:name", or "".
        plangym_kwargs: of plangym's `ParallelEnv`.
        plangym_dt: env steps that make one of ours.
        own: id and arguments of gymnasium's own vector env, where they are others.
        build: makes the env, where that takes more than an id.
        ours: arguments of our `make_vec` for the same.
        one_action: whether all actions are 1, rather than random.
    """

    env_id: str
    native: str | None = None
    lead: int = 5
    rows: tuple[int, ...] = (16, 64, 1024)
    largest_of_objects: int = 1024
    envpool: tuple[str, dict[str, Any]] | None = None
    plangym: str = ""
    plangym_kwargs: dict[str, Any] = field(default_factory=dict)
    plangym_dt: int = 1
    own: tuple[str, dict[str, Any]] | None = None
    build: Callable[[], Any] | None = None
    ours: dict[str, Any] = field(default_factory=dict)
    one_action: bool = False

    def actions(self, space: Any, rows: int) -> list[np.ndarray]:
        """Batches `[rows, *act]` of actions of a single env's space, to be taken in turn."""
        if self.one_action:
            return [np.ones((rows, *space.shape), space.dtype)]
        return random_actions(space, rows)

    def make(self) -> Any:
        """The gymnasium env."""
        if self.env_id.startswith("plangym_ext/"):
            from plangym_ext.registry import find_spec

            return gymnasium.make(find_spec(self.env_id))
        if self.env_id.startswith("ALE/"):
            import ale_py

            gymnasium.register_envs(ale_py)
        return self.build() if self.build else gymnasium.make(self.env_id)


_CLASSIC = "plangym.control.classic_control:ClassicControl"
_MUJOCO = "plangym.control.mujoco:MujocoEnv"
_SCREEN = {  # as gymnasium's: the whole screen in colour, one frame, sticky actions
    "img_height": 210,
    "img_width": 160,
    "gray_scale": False,
    "stack_num": 1,
    "use_fire_reset": False,
    "noop_max": 1,
    "repeat_action_probability": 0.25,
}


#: Of envs that take a microsecond a step.
_LIGHT_ROWS = (16, 64, 256, 1024)


def _classic(name: str) -> Task:
    return Task(name, native="kernel", rows=_LIGHT_ROWS, envpool=(name, {}), plangym=_CLASSIC)


def _mujoco(name: str, lead: int) -> Task:
    return Task(
        name,
        native="mujoco",
        lead=lead,
        largest_of_objects=64,
        envpool=(name, {}),
        plangym=_MUJOCO,
    )


TASKS = [
    _classic("CartPole-v1"),
    _classic("Pendulum-v1"),
    Task("plangym_ext/Sokoban-v0", native="kernel", rows=_LIGHT_ROWS, largest_of_objects=64),
    _mujoco("HalfCheetah-v5", 50),
    _mujoco("Ant-v5", 20),
    _mujoco("Humanoid-v5", 5),
    Task(
        "ALE/Pong-v5",
        lead=60,
        rows=(16, 64),
        largest_of_objects=64,
        envpool=("Pong-v5", _SCREEN),
        plangym="plangym.videogames.atari:AtariEnv",
        plangym_kwargs={"obs_type": "rgb", "repeat_action_probability": 0.25},
        plangym_dt=4,  # its own frameskip is applied twice
    ),
]


def _preprocessed() -> Any:
    """Pong as agents are given it: gymnasium's wrappers."""
    wrappers = gymnasium.wrappers
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    return wrappers.FrameStackObservation(wrappers.AtariPreprocessing(env), 4)


#: Stacks of four grey screens of 84x84, the brighter of two frames, four frames a step, up to
#: 30 no-ops after a reset: what EnvPool's and ale-py's own vector env do if not told otherwise.
PREPROCESSED_PONG = Task(
    "ALE/Pong-v5, preprocessed",
    envpool=("Pong-v5", {"use_fire_reset": False, "repeat_action_probability": 0.0}),
    own=("ALE/Pong-v5", {"use_fire_reset": False, "reward_clipping": False, "num_threads": 2}),
    build=_preprocessed,
    ours={
        "name": "ALE/Pong-v5",
        "preprocessing": True,
        "repeat_action_probability": 0.0,
        "n_workers": 2,
    },
)


def _stepped_natively(one_action: bool) -> Task:
    kind = "one action" if one_action else "random actions"
    return Task(
        f"CartPole-v1, {kind}",
        native="kernel",
        envpool=("CartPole-v1", {}),
        own=("CartPole-v1", {}),
        build=lambda: gymnasium.make("CartPole-v1"),
        ours={"name": "CartPole-v1"},
        one_action=one_action,
    )


#: With one action the pole falls in ten steps, so that a tenth of the rows is always reset.
CART_POLES = [_stepped_natively(one_action) for one_action in (False, True)]

#: MPE's task in PettingZoo's own code on two workers, and the same numbers from our kernel.
SPREADS = [
    Task("simple_spread_v3", ours={"name": "pettingzoo/mpe2.simple_spread_v3", "n_workers": 2}),
    Task("simple_spread_v3, kernel", native="kernel", ours={"name": "plangym_ext/SimpleSpread-v0"}),
]

TRAINING = Task("PPO on CartPole-v1", build=lambda: gymnasium.make("CartPole-v1"))


def task_named(env_id: str) -> Task:
    """The task of an id."""
    known = (*TASKS, PREPROCESSED_PONG, *CART_POLES, *SPREADS, TRAINING)
    return next(task for task in known if task.env_id == env_id)


def random_actions(space: Any, rows: int) -> list[np.ndarray]:
    """`NUM_BATCHES` batches `[rows, *act]` of random actions of a single env's space."""
    rng = np.random.default_rng(0)
    if isinstance(space, gymnasium.spaces.Discrete):
        whole = rng.integers(0, space.n, (NUM_BATCHES, rows)).astype(space.dtype)
    elif isinstance(space, gymnasium.spaces.MultiDiscrete):
        whole = rng.integers(0, space.nvec, (NUM_BATCHES, rows, *space.shape), space.dtype)
    else:
        shape = (NUM_BATCHES, rows, *space.shape)
        whole = rng.uniform(space.low, space.high, shape).astype(space.dtype)
    return list(whole)


def states_in_motion(gym_env: Any, capture: Callable[[], Any], task: Task, rows: int) -> list[Any]:
    """States out of episodes of random actions, none of them an ending.

    The same for all that capture them: seeds and actions are.
    """
    gym_env.action_space.seed(0)
    states: list[Any] = []
    episode, depth, ended = 0, 0, True
    while len(states) < rows:
        if ended:
            gym_env.reset(seed=episode)
            episode, depth = episode + 1, 0
        _, _, terminated, truncated, _ = gym_env.step(gym_env.action_space.sample())
        depth, ended = depth + 1, terminated or truncated
        if not ended and depth >= task.lead:
            states.append(capture())
    return states
