"""SimpleSpread env: agents spread over landmarks without touching; MPE's task as a kernel."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

#: Of MPE's world: seconds of a step, what is left of a speed, and what pushes apart.
DT, DAMPING, CONTACT, MARGIN = 0.1, 0.25, 1e2, 1e-3
SIZE, PUSH = 0.15, 5.0


class SimpleSpread(NamedTuple):
    """The env's arguments."""

    agents: int
    local_ratio: float
    max_cycles: int


class SimpleSpreadEnv(RulesEnv):
    """MPE's `simple_spread_v3`, with discrete actions: the same numbers, bit for bit.

    Each of A agents stands still, or pushes to the left, the right, down or up (0 to 4). All are
    paid for how near landmarks have an agent, and each loses 1 by each agent that it touches.
    Observations are `[A, 6 * A]` float32: own speed and place, then the landmarks, the other agents
    and what they say, which is nothing; places are as seen from the agent. The reward is the sum
    of the agents'. Infos are those of `AgentsEnv`; a reset has all of them.

    Args:
        count: A, 1 to 16, of agents and of landmarks.
        local_ratio: in [0, 1], how much of an agent's reward is its own.
        max_cycles: steps after which an episode is truncated.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: Lowe et al. 2017, "Multi-agent actor-critic for mixed cooperative-competitive
    environments"; PettingZoo's mpe2.
    """

    def __init__(
        self,
        count: int = 3,
        *,
        local_ratio: float = 0.5,
        max_cycles: int = 25,
        render_mode: str | None = None,
    ) -> None:
        if not (1 <= count <= 16 and 0.0 <= local_ratio <= 1.0 and max_cycles >= 1):
            raise InvalidOption(
                f"SimpleSpreadEnv: count must be in [1, 16], local_ratio in [0, 1] and max_cycles "
                f"at least 1; got {count, local_ratio, max_cycles}."
            )
        state = np.dtype(
            [
                ("place", "f8", (count, 2)),
                ("speed", "f8", (count, 2)),
                ("landmark", "f8", (count, 2)),
                ("steps", "<i8"),
                ("rng", pcg64.RNG),
            ]
        )
        flags = ("agent_terminated", "agent_truncated", "agent_acted", "agent_alive")
        info = np.dtype([("agent_reward", "f8", (count,)), *((n, "u1", (count,)) for n in flags)])
        params = SimpleSpread(int(count), float(local_ratio), int(max_cycles))
        kernel = Kernel(state, step, reset, observe, params, info, check, reset_info)
        seen = spaces.Box(-np.inf, np.inf, (count, 6 * count), np.float32)
        super().__init__(kernel, seen, spaces.MultiDiscrete([5] * count), render_mode=render_mode)

    def text(self) -> str:
        """Return the places of agents and landmarks."""
        names = ("place", "landmark")
        return "\n".join(f"{name}: {self.state[name].round(2).tolist()}" for name in names)


@compiled
def _distance(one: Any, other: Any) -> float:
    x, y = one[0] - other[0], one[1] - other[1]
    return math.sqrt(x * x + y * y)


@compiled
def _move(state: Any, params: Any, action: Any) -> None:
    """Push the agents, by themselves and by each other, and move them on."""
    place, speed, count = state["place"], state["speed"], params.agents
    force = np.zeros((count, 2))
    for i in range(count):
        if action[i] > 0:
            force[i, (action[i] - 1) // 2] = PUSH if action[i] % 2 == 0 else -PUSH
    for a in range(count):
        for b in range(a + 1, count):
            distance = _distance(place[a], place[b])
            depth = -(distance - (SIZE + SIZE)) / MARGIN
            # log(1 + exp(depth)), as numpy's logaddexp adds them.
            if depth > 0.0:
                depth += math.log1p(math.exp(-depth))
            else:
                depth = math.log1p(math.exp(depth))
            for axis in range(2):
                push = CONTACT * (place[a, axis] - place[b, axis]) / distance * (depth * MARGIN)
                force[a, axis] = push + force[a, axis]
                force[b, axis] = -push + force[b, axis]
    for i in range(count):
        for axis in range(2):
            place[i, axis] += speed[i, axis] * DT
            speed[i, axis] = speed[i, axis] * (1 - DAMPING)
            speed[i, axis] += force[i, axis] * DT


@compiled
def _earned(state: Any, params: Any, out: Any) -> float:
    """Write each agent's reward; return the sum."""
    place, count = state["place"], params.agents
    shared = 0.0
    for k in range(count):
        nearest = math.inf
        for i in range(count):
            nearest = min(nearest, _distance(place[i], state["landmark"][k]))
        shared -= nearest
    total = 0.0
    for i in range(count):
        own = 0.0
        for other in range(count):
            if other != i and _distance(place[other], place[i]) < SIZE + SIZE:
                own -= 1.0
        out[i] = shared * (1 - params.local_ratio) + own * params.local_ratio
        total += out[i]
    return total


def step(state: Any, params: Any, action: Any, info: Any) -> tuple[float, bool, bool]:
    """Move the agents, and pay them."""
    _move(state, params, action)
    total = _earned(state, params, info["agent_reward"])
    # A step past the end counts as the last one: more than so many are no state.
    state["steps"] = min(state["steps"] + 1, params.max_cycles)
    cut = state["steps"] >= params.max_cycles
    for i in range(params.agents):
        info["agent_terminated"][i] = False
        info["agent_truncated"][i] = cut
        info["agent_acted"][i] = True
        info["agent_alive"][i] = not cut
    return total, False, cut


def reset(state: Any, params: Any) -> None:
    """Draw the places of the agents, then of the landmarks."""
    for i in range(params.agents):
        for axis in range(2):
            state["place"][i, axis] = pcg64.uniform(state["rng"], -1.0, 1.0)
            state["speed"][i, axis] = 0.0
    for i in range(params.agents):
        for axis in range(2):
            state["landmark"][i, axis] = pcg64.uniform(state["rng"], -1.0, 1.0)
    state["steps"] = 0


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write that all agents act next."""
    for i in range(params.agents):
        info["agent_reward"][i] = 0.0
        info["agent_terminated"][i] = False
        info["agent_truncated"][i] = False
        info["agent_acted"][i] = False
        info["agent_alive"][i] = state["steps"] < params.max_cycles


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write what each agent sees."""
    place, count = state["place"], params.agents
    for i in range(count):
        for axis in range(2):
            obs[i, axis] = state["speed"][i, axis]
            obs[i, 2 + axis] = place[i, axis]
            at = 4 + axis
            for k in range(count):
                obs[i, at] = state["landmark"][k, axis] - place[i, axis]
                at += 2
            for other in range(count):
                if other != i:
                    obs[i, at] = place[other, axis] - place[i, axis]
                    # What others say comes after their places.
                    obs[i, at + 2 * (count - 1)] = 0.0
                    at += 2


def check(state: Any, params: Any) -> bool:
    """Return whether the numbers are finite, and there are such steps and such a generator."""
    for i in range(params.agents):
        for axis in range(2):
            if not (
                math.isfinite(state["place"][i, axis])
                and math.isfinite(state["speed"][i, axis])
                and math.isfinite(state["landmark"][i, axis])
            ):
                return False
    within = 0 <= state["steps"] <= params.max_cycles
    return within and pcg64.could_be_rng(state["rng"])
