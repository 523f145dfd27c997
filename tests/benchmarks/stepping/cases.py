"""The envs that are measured, and states in motion to step them from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import plangym_ext


@dataclass(frozen=True)
class Case:
    """One env, made alike for ours, the peer and the limit.

    Attributes:
        name: in the table.
        env_id: gymnasium id.
        rows: B of the comparison.
        kwargs: of `make`.
        lead: steps from a reset to the first state that is taken: until things move.
        stride: steps from one state to the next.
        peer_class: of plangym, "module:name".
        peer_kwargs: of plangym's `ParallelEnv`.
    """

    name: str
    env_id: str
    rows: int
    kwargs: dict[str, Any] = field(default_factory=dict)
    lead: int = 5
    stride: int = 1
    peer_class: str = ""
    peer_kwargs: dict[str, Any] = field(default_factory=dict)

    def make(self, **settings: Any) -> Any:
        """Our env of this case."""
        return plangym_ext.make(self.env_id, **self.kwargs, **settings)


def _pacman(observation: str) -> Case:
    # plangym applies `frameskip` twice, in the emulator and around it: only with one
    # frame a step do both emulate the same number.
    emulator = {"obs_type": observation, "repeat_action_probability": 0.25}
    return Case(
        f"MsPacman {observation.upper()}",
        "ALE/MsPacman-v5",
        64,
        {"frameskip": 1, **emulator},
        lead=300,  # the jingle is over
        stride=4,
        peer_class="plangym.videogames.atari:AtariEnv",
        peer_kwargs=emulator,
    )


CARTPOLE = Case(
    "CartPole",
    "CartPole-v1",
    256,
    peer_class="plangym.control.classic_control:ClassicControl",
)
CHEETAH = Case(
    "HalfCheetah",
    "HalfCheetah-v5",
    256,
    lead=50,
    stride=2,
    peer_class="plangym.control.mujoco:MujocoEnv",
)
PACMAN_RGB, PACMAN_RAM = _pacman("rgb"), _pacman("ram")
CASES = [CARTPOLE, CHEETAH, PACMAN_RGB, PACMAN_RAM]


def states_in_motion(env: Any, case: Case, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """States `[B, S]` out of episodes of random actions, none of them an ending, and actions."""
    env.action_space.seed(0)
    states: list[np.ndarray] = []
    episode, depth, ended = 0, 0, True
    while len(states) < rows:
        if ended:
            env.reset(seed=episode)
            episode, depth = episode + 1, 0
        found = env.step(env.action_space.sample())
        depth, ended = depth + 1, found.terminated or found.truncated
        if not ended and depth >= case.lead and (depth - case.lead) % case.stride == 0:
            states.append(env.get_state())
    env.reset(seed=0)
    actions = np.stack([env.action_space.sample() for _ in range(rows)])
    return np.stack(states), actions
