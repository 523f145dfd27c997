"""PettingZoo's parallel envs as gymnasium envs: all agents act in one step; env ids.

Ids are `pettingzoo/` and the module of the env, such as `pettingzoo/butterfly.pistonball_v6`, or
`pettingzoo/mpe2.simple_spread_v3` of a package of its own. Envs of turns come through PettingZoo's
converter.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.nested import reward_of
from plangym_ext.core.masks import MASK
from plangym_ext.errors import (
    DamagedState,
    InvalidAction,
    InvalidObservation,
    InvalidOption,
    UnknownName,
    WrongKind,
)
from plangym_ext.states.families import hosted, simulator
from plangym_ext.states.snapshot import SnapshotPart

_PREFIX = "pettingzoo/"


class AgentsEnv(gym.Env[Any, Any]):
    """A parallel env of PettingZoo's interface, whose agents act in one step.

    With equal spaces observations and actions have an axis of agents: observations of a Box
    `[*obs]` are one of `[A, *obs]`, actions of `Discrete(n)` a `MultiDiscrete` of A parts, those of
    a Box one of `[A, *act]`. Otherwise both are a Dict by agent. An agent that is not there sees
    zeros, or what its bounds allow next to them, and what is played for it is not used.

    The reward is the sum of the agents'. The episode ends when the last agent has left: it is
    truncated if one of the last was. Infos, `[A]` in the order of `possible_agents`:
    `agent_reward` float64, `agent_terminated` and `agent_truncated` bool, of this step;
    `agent_acted` bool, who was there in this step; and `agent_alive` bool, who acts in the next
    one. A reset has `agent_alive` alone. Where observations are dicts of "observation" and
    "action_mask", the masks are joined as the info `action_mask`.

    Args:
        env: with `possible_agents`; see `pettingzoo.ParallelEnv`.

    Attributes:
        env: the parallel env.
        agents: names of the A agents that there may be.
        stacked: whether there is an axis of agents.

    Raises:
        WrongKind: it is no parallel env.
    """

    def __init__(self, env: Any) -> None:
        if not all(hasattr(env, name) for name in ("possible_agents", "observation_space")):
            raise WrongKind(
                f"AgentsEnv: expected an env of PettingZoo's parallel interface, with "
                f"possible_agents and observation_space; got {type(env).__name__}. Convert a "
                f"turn-based env with pettingzoo.utils.conversions."
            )
        self.env, agents = env, tuple(env.possible_agents or ())
        if len(set(agents)) < len(agents):
            raise InvalidOption(f"AgentsEnv: possible_agents must be distinct; got {agents}.")
        self.metadata, self.render_mode = env.metadata, getattr(env, "render_mode", None)
        seen = [env.observation_space(agent) for agent in agents]
        self._masked = all(_has_mask(space) for space in seen)
        if self._masked:
            seen = [space["observation"] for space in seen]
        acts = [env.action_space(agent) for agent in agents]
        self.stacked = _equal(seen) and isinstance(seen[0], spaces.Box) and _stackable(acts)
        self._spaces = dict(zip(agents, seen, strict=True))
        if self.stacked:
            self.observation_space = _stacked_box(seen[0], len(seen))
            self.action_space = _joint_actions(acts[0], len(acts))
        else:
            # Pairs keep their order, which is that of the infos; a dict would be sorted.
            self.observation_space = spaces.Dict(list(self._spaces.items()))
            self.action_space = spaces.Dict(list(zip(agents, acts, strict=True)))
        self._widths = [int(one.n) for one in acts] if self._masked else []
        self._alive = np.zeros(len(agents), bool)

    @property
    def agents(self) -> tuple[Any, ...]:
        """Names of the agents that there may be."""
        return tuple(self._spaces)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of all agents.

        Returns:
            The observation, fresh, and the infos `agent_alive` and, if there are masks,
            `action_mask`.
        """
        super().reset(seed=seed)
        seen, _ = self.env.reset(seed=seed, options=options)
        self._alive = self._there()
        return self._observation(seen), {"agent_alive": self._alive.copy(), **self._mask(seen)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play the actions of the agents that are there.

        Returns:
            Observation, sum of rewards, terminated, truncated, infos; arrays are fresh.

        Raises:
            InvalidAction: the action has no part for each agent.
            DamagedState: a state that was restored does not say who is there.
        """
        acted, parts = self._acting(), self._parts(action)
        played = {a: parts[i] for i, a in enumerate(self.agents) if acted[i]}
        seen, reward, *flags, _ = self.env.step(played)
        for one in (reward, *flags):
            if not isinstance(one, Mapping):
                raise InvalidObservation(
                    f"AgentsEnv.step: expected rewards and flags as dicts by agent; got {one!r}. "
                    f"Correct the env."
                )
        earned = np.array([reward_of(reward.get(agent, 0.0)) for agent in self.agents])
        terminated, truncated = (
            np.array([bool(flag.get(agent, False)) for agent in self.agents]) & acted
            for flag in flags
        )
        self._alive = self._there() & ~(terminated | truncated)
        # One that has gone without a word has ended as well.
        terminated |= acted & ~self._alive & ~truncated
        over = not self._alive.any()
        infos = {
            "agent_reward": np.where(acted, earned, 0.0),
            "agent_terminated": terminated,
            "agent_truncated": truncated,
            "agent_acted": acted.copy(),
            "agent_alive": self._alive.copy(),
            **self._mask(seen),
        }
        cut = bool(over and truncated.any())
        total = float(infos["agent_reward"].sum())
        return self._observation(seen), total, bool(over and not cut), cut, infos

    def render(self) -> Any:
        """Return the parallel env's picture."""
        return self.env.render()

    def close(self) -> None:
        """Close the parallel env."""
        self.env.close()

    def _acting(self) -> npt.NDArray[np.bool_]:
        """Return who acts in the next step; a state of elsewhere may hold anything for it."""
        acting: Any = vars(self).get("_alive")
        count = len(self._spaces)
        if isinstance(acting, np.ndarray) and (acting.dtype, acting.shape) == (bool, (count,)):
            return acting
        raise DamagedState(
            f"AgentsEnv.step: the state must say for each of {count} agents whether it is there; "
            f"got {acting!r}. Begin from another state, or call reset."
        )

    def _there(self) -> npt.NDArray[np.bool_]:
        there = set(self.env.agents or ())
        if not there <= set(self.agents):
            raise InvalidObservation(
                f"AgentsEnv: agents must be among possible_agents {self.agents}; got "
                f"{tuple(self.env.agents)}. Correct the env."
            )
        return np.array([agent in there for agent in self.agents])

    def _parts(self, action: Any) -> list[Any]:
        if self.stacked:
            rows = np.asarray(action)
            if rows.shape[:1] == (len(self.agents),):
                return [row.item() if row.ndim == 0 else row for row in rows]
        elif isinstance(action, Mapping) and set(self.agents) <= set(action):
            return [action[agent] for agent in self.agents]
        raise InvalidAction(
            f"AgentsEnv.step: expected an action for each of {', '.join(map(str, self.agents))}; "
            f"got {action!r}."
        )

    def _observation(self, seen: Mapping[Any, Any]) -> Any:
        if not isinstance(seen, Mapping):
            raise InvalidObservation(
                f"AgentsEnv: observations must be a dict by agent; got {seen!r}. Correct the env."
            )
        found = {}
        for agent, space in self._spaces.items():
            part = seen.get(agent)
            if part is None:
                found[agent] = _nothing(space)
            else:
                found[agent] = part["observation"] if self._masked else part
        if not self.stacked:
            return found
        shown: Any = self.observation_space
        return np.stack([_cast(agent, one, shown) for agent, one in found.items()])

    def _mask(self, seen: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the joined mask as an info; an agent that is not there may play everything."""
        if not self._masked or not self.stacked:
            return {}
        masks = [
            np.asarray(seen[agent][MASK], bool)
            if agent in seen and self._alive[i] and MASK in seen[agent]
            else np.ones(self._widths[i], bool)
            for i, agent in enumerate(self.agents)
        ]
        return {MASK: np.concatenate(masks)}


def make_parallel(module: str, **kwargs: Any) -> AgentsEnv:
    """Make the parallel env of a module, such as `butterfly.pistonball_v6`.

    Args:
        module: within `pettingzoo`, or of a package of its own.
        kwargs: for the module's constructor.
    """
    found = _module(module)
    with _quiet():
        if hasattr(found, "parallel_env"):
            return AgentsEnv(found.parallel_env(**kwargs))
        env = found.env(**kwargs)
    convert = importlib.import_module("pettingzoo.utils.conversions")
    if env.metadata.get("is_parallelizable", False):
        return AgentsEnv(convert.aec_to_parallel(env))
    return AgentsEnv(convert.turn_based_aec_to_parallel(env))


def resolve(name: str) -> Any:
    """Return the spec of `pettingzoo/<module>`.

    Raises:
        MissingExtra: PettingZoo, or what the env needs, is not installed.
        UnknownName: there is no such module, or no env in it.
    """
    simulator("pettingzoo", "pettingzoo", name=name)
    module = name.removeprefix(_PREFIX)
    found = _module(module)
    with _quiet():
        known = hasattr(found, "parallel_env") or hasattr(found, "env")
    if not known:
        raise UnknownName(
            f"environment: {name!r}: the module {found.__name__} has neither parallel_env nor env. "
            f"Name the module of an env, such as 'pettingzoo/butterfly.pistonball_v6'."
        )
    if name not in gym.registry:
        entry_point = f"{__name__}:make_parallel"
        gym.register(name, entry_point, kwargs={"module": module}, order_enforce=False)
    return gym.spec(name)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ignore that there is a newer way to make an env, which older versions do not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _module(name: str) -> Any:
    for whole in (f"pettingzoo.{name}", name):
        try:
            with _quiet():
                return importlib.import_module(whole)
        except ModuleNotFoundError as error:
            # What the env itself needs and lacks is told by its own error.
            if not whole.startswith(error.name or " "):
                raise
    raise UnknownName(
        f"environment: there is no module pettingzoo.{name}, nor {name}. Name one as "
        f"'pettingzoo/butterfly.pistonball_v6' or 'pettingzoo/mpe2.simple_spread_v3'."
    )


def _has_mask(space: Any) -> bool:
    return isinstance(space, spaces.Dict) and set(space.spaces) == {"observation", MASK}


def _equal(all_spaces: list[Any]) -> bool:
    if not all_spaces:
        raise InvalidOption("AgentsEnv: the env has no possible_agents. Pass one that has agents.")
    return all(space == all_spaces[0] for space in all_spaces)


def _stackable(acts: list[Any]) -> bool:
    first = acts[0]
    plain = isinstance(first, spaces.Discrete) and int(first.start) == 0
    return _equal(acts) and (plain or isinstance(first, spaces.Box))


def _stacked_box(space: Any, count: int) -> spaces.Box:
    low, high = (np.stack([bound] * count) for bound in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype)


def _joint_actions(space: Any, count: int) -> spaces.Space[Any]:
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([int(space.n)] * count)
    return _stacked_box(space, count)


def _cast(agent: Any, seen: Any, shown: spaces.Box) -> npt.NDArray[Any]:
    """Return what an agent sees in the dtype of the joined space, which keeps its values."""
    part: Any = np.asarray(seen)
    if part.shape == shown.shape[1:] and part.dtype.kind in "biuf":
        with np.errstate(invalid="ignore"):
            found: npt.NDArray[Any] = part.astype(shown.dtype, copy=False)
        if np.can_cast(part.dtype, found.dtype, "same_kind") or np.array_equal(found, part):
            return found
    raise InvalidObservation(
        f"AgentsEnv: observation of {agent}: expected {shown.shape[1:]} {shown.dtype} as in its "
        f"space; got {part.shape} {part.dtype}. Correct the env."
    )


def _nothing(space: Any) -> Any:
    """Return what an agent sees that is not there."""
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
    # The first value of other spaces, always the same; the env may draw from its own space.
    space = copy.deepcopy(space)
    space.seed(0)
    return space.sample()


#: What a layer holds from its constructor on, and states leave out: agents' spaces, and what
#: follows from them.
_FIXED = ("_spaces", "action_spaces", "observation_spaces", "stacked", "_masked", "_widths")


def agents_part(env: AgentsEnv) -> SnapshotPart:
    """Return the codec: a snapshot of the parallel env, and of wrappers and converters on it."""
    layers = [env, *hosted(env)]
    known = {id(layer) for layer in layers}
    # By what they hold: an env may have other things under these names, and change them.
    held = [
        (name, layer, vars(layer)[name])
        for layer in layers
        for name in _FIXED
        if name in vars(layer)
    ]
    changing = {name for name, layer, value in held if layer is not env and not _are_spaces(value)}
    inside = [vars(layer)["env"] for layer in layers if "env" in vars(layer)]
    fixed = [name for name in _FIXED if name not in changing]
    if all(id(one) in known for one in inside):
        fixed.append("env")
    return SnapshotPart(layers, layers, ignored=fixed)


def _are_spaces(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(one, gym.Space) for one in found.values())
