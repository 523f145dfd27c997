"""Wrappers that hold something of the env below them, and envs that show it as bytes.

Each wrapper adds to the reward a number that depends on what it holds: one that holds a copy
of the live env, or what the live env no longer has, gives other rewards from the next step on.
"""

from __future__ import annotations

import hashlib
import weakref
import zlib

import gymnasium as gym
import numpy as np

from plangym_ext.states import plain

#: Where the simulators of the families keep what a step moves.
_PLACES = (
    lambda sim: np.asarray(sim.state, np.float64).tobytes(),
    lambda sim: bytes([int(sim.s) % 256]),
    lambda sim: bytes(sim.player),
    lambda sim: np.asarray(sim.agent_pos, np.int64).tobytes(),
    lambda sim: repr(tuple(sim.lander.position)).encode(),
    lambda sim: repr(tuple(sim.hull.position)).encode(),
    lambda sim: sim.ale.getRAM().tobytes(),
    lambda sim: sim.data.qpos.tobytes(),
    lambda sim: sim.environment.physics.data.qpos.tobytes(),
    lambda sim: sim.vehicle.position.tobytes(),
    lambda sim: sim.em.get_state(),
    lambda sim: plain.encode(sim.get_state()),
)


def reading(sim) -> float:
    """Return a number that depends on where a simulator stands."""
    for place in _PLACES:
        try:
            return float(zlib.crc32(place(sim)) % 1009)
        except (AttributeError, TypeError):
            continue
    raise AssertionError(f"nothing is known to read of {sim}")


class Holder(gym.Wrapper):
    """Adds what `held` reads before a step."""

    def step(self, action):
        extra = self.held()
        obs, reward, *rest = self.env.step(action)
        return obs, float(reward) + extra, *rest

    def held(self) -> float:
        raise NotImplementedError


class HoldsSimulator(Holder):
    def __init__(self, env):
        super().__init__(env)
        self.sim = env.unwrapped

    def held(self):
        return reading(self.sim)


class HoldsMethod(Holder):
    def __init__(self, env):
        super().__init__(env)
        self.look = env.unwrapped.get_wrapper_attr

    def held(self):
        return reading(self.look("unwrapped"))


class HoldsClosure(Holder):
    def __init__(self, env):
        super().__init__(env)
        sim = env.unwrapped
        self.look = lambda: reading(sim)

    def held(self):
        return self.look()


class HoldsInner(Holder):
    def __init__(self, env):
        super().__init__(env)
        self.inner = env.env if isinstance(env, gym.Wrapper) else env

    def held(self):
        return reading(self.inner.unwrapped)


class HoldsDict(Holder):
    def __init__(self, env):
        super().__init__(env)
        self.found = {"sims": [env.unwrapped], "count": 0}

    def reset(self, **kwargs):
        self.found["count"] = 0
        return self.env.reset(**kwargs)

    def held(self):
        self.found["count"] += 1
        return self.found["count"] + reading(self.found["sims"][0])


class HoldsWeakly(Holder):
    def __init__(self, env):
        super().__init__(env)
        self.sim = weakref.ref(env.unwrapped)

    def held(self):
        return reading(self.sim())


class HoldsRandom(Holder):
    def reset(self, **kwargs):
        result = self.env.reset(**kwargs)
        self.rng = self.unwrapped.np_random
        return result

    def held(self):
        # Read, not drawn: simulators that are played again draw alone.
        return float(zlib.crc32(repr(self.rng.bit_generator.state).encode()) % 1009)


class Log(Holder):
    """Keeps a list of rewards, which others may hold too."""

    def __init__(self, env):
        super().__init__(env)
        self.entries = []

    def reset(self, **kwargs):
        self.entries.clear()
        return self.env.reset(**kwargs)

    def step(self, action):
        result = super().step(action)
        self.entries.append(float(result[1]))
        return result

    def held(self):
        return float(len(self.entries))


class HoldsOthersList(Holder):
    def __init__(self, env):
        super().__init__(Log(env))
        self.entries = self.env.entries

    def held(self):
        return sum(self.entries) % 1009 + len(self.entries)


class Tally:
    """A counter that an env and a wrapper share."""

    def __init__(self):
        self.count = 0


class Board(gym.Env):
    """Moves on an array, in place, and counts its steps in an object."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float64)
    action_space = gym.spaces.Discrete(6)

    def __init__(self):
        self.board, self.tally = np.zeros(6), Tally()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.board[:] = self.np_random.random(6)
        self.tally.count = 0
        return self.board.copy(), {}

    def step(self, action):
        self.tally.count += 1
        self.board[action] += self.np_random.random() + self.tally.count
        return self.board.copy(), float(self.board.sum()), self.tally.count >= 9, False, {}

    @property
    def state(self):
        return self.board


class Played(Board):
    """A board that only playing it again brings back: it holds a running generator."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.noise = (0.5 * k for k in iter(int, 1))
        return result

    def step(self, action):
        next(self.noise)
        return super().step(action)


class Offered(Board):
    """A board that offers its state, and sets it in place."""

    def get_state(self):
        rng = self.np_random.bit_generator.state
        return {"board": self.board.copy(), "count": self.tally.count, "rng": rng}

    def set_state(self, state):
        self.board[:] = state["board"]
        self.tally.count = state["count"]
        self.np_random.bit_generator.state = state["rng"]


class HoldsBuffer(Holder):
    """Holds the array that the env writes to."""

    def reset(self, **kwargs):
        result = self.env.reset(**kwargs)
        self.buffer = self.unwrapped.board
        return result

    def held(self):
        return float(self.buffer.sum())


class HoldsTally(Holder):
    """Counts in the env's own counter."""

    def __init__(self, env):
        super().__init__(env)
        self.tally = env.unwrapped.tally

    def held(self):
        self.tally.count += 1
        return float(self.tally.count)


class ReadsTally(HoldsTally):
    """Reads the env's own counter."""

    def held(self):
        return float(self.tally.count)


class Shown(gym.Wrapper):
    """Any env, with one space for all of them: observations as digests, actions as numbers."""

    observation_space = gym.spaces.Box(0, 255, (16,), np.uint8)
    action_space = gym.spaces.Discrete(64)

    def reset(self, **kwargs):
        obs, _ = self.env.reset(**kwargs)
        return _digest(obs), {}

    def step(self, action):
        space = self.env.action_space
        space.seed(int(action))
        obs, reward, terminated, truncated, _ = self.env.step(space.sample())
        return _digest(obs), float(reward), bool(terminated), bool(truncated), {}


def _digest(obs):
    obs = dict(obs) if isinstance(obs, dict) else obs
    data = hashlib.blake2b(plain.encode(obs), digest_size=16).digest()
    return np.frombuffer(data, np.uint8).copy()


#: That suit any env.
HOLDERS = (
    HoldsSimulator,
    HoldsMethod,
    HoldsClosure,
    HoldsInner,
    HoldsDict,
    HoldsWeakly,
    HoldsRandom,
    HoldsOthersList,
)
#: That suit a `Board` too.
BOARD_HOLDERS = (*HOLDERS, HoldsBuffer, ReadsTally)
BOARDS = (Board, Played, Offered)


def on_board(board, holders):
    """Return a board under wrappers; it ends by itself."""
    env = board()
    for holder in holders:
        env = holder(env)
    return env


def shown_family(name, holders):
    """Return an env of a family under wrappers, with the spaces of `Shown`."""
    from plangym_ext.registry import find_spec, make_gym

    env = make_gym(find_spec(name), max_episode_steps=12)
    for holder in holders:
        env = holder(env)
    return Shown(env)
