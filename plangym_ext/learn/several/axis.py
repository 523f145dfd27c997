"""Rows of one agent each, `[T, B * A]`, of the fragment of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption

Ndarray = npt.NDArray[Any]

#: Infos of `AgentsEnv` that learning needs, with their dtypes; each is `[A]`.
NEEDED_INFOS = {
    "agent_reward": np.float64,
    "agent_terminated": np.bool_,
    "agent_truncated": np.bool_,
    "agent_acted": np.bool_,
}


def agent_spaces(
    observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> tuple[spaces.Box, spaces.Space[Any], int]:
    """Return the spaces of one agent, and how many agents there are.

    Args:
        observation_space: a Box `[A, *obs]`.
        action_space: a MultiDiscrete of A equal parts, or a Box `[A, *act]`, all agents alike.

    Raises:
        InvalidOption: there is no axis of equal agents.
    """
    count = _count(action_space)
    seen = observation_space
    if count and isinstance(seen, spaces.Box) and seen.shape[:1] == (count,):
        bounds = [seen.low, seen.high]
        if isinstance(action_space, spaces.Box):
            bounds += [action_space.low, action_space.high]
        if all((bound == bound[:1]).all() for bound in bounds):
            return _first_box(seen), _first_action(action_space), count
    raise InvalidOption(
        f"agents: the env must have an axis of equal agents in observations and actions, as an "
        f"AgentsEnv whose agents have equal spaces; got {observation_space} and {action_space}. "
        f"Pad the agents' observations, with supersuit's pad_observations for example."
    )


def _count(action_space: Any) -> int:
    """Return the number of agents; 0 if there is no axis of them."""
    if isinstance(action_space, spaces.MultiDiscrete):
        widths, starts = np.asarray(action_space.nvec), np.asarray(action_space.start)
        alike = widths.ndim == 1 and (widths == widths[0]).all() and not starts.any()
        return len(widths) if alike else 0
    return action_space.shape[0] if isinstance(action_space, spaces.Box) else 0


def _first_box(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low[0], space.high[0], dtype=space.dtype)


def _first_action(space: Any) -> spaces.Space[Any]:
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Discrete(int(space.nvec[0]))
    return _first_box(space)


def rows(value: Any, lead: int = 1) -> Any:
    """Return `[..., B * A, *x]` of `[..., B, A, *x]`, leaf by leaf; a view where it can be.

    Args:
        value: arrays or tensors, nested.
        lead: the axes up to B, B included.
    """

    def joined(leaf: Any) -> Any:
        shape = leaf.shape
        return leaf.reshape(*shape[: lead - 1], shape[lead - 1] * shape[lead], *shape[lead + 1 :])

    return mapped(joined, value)


def apart(value: Any, count: int) -> Any:
    """Return `[B, A, *x]` of `[B * A, *x]`, leaf by leaf, as views."""
    return mapped(lambda leaf: leaf.reshape(-1, count, *leaf.shape[1:]), value)


def shown(obs: Ndarray, lead: int, *, whole: bool) -> Any:
    """Return the network's input for each agent's row.

    Args:
        obs: `[..., B, A, *obs]`.
        lead: the axes up to B, B included.
        whole: whether rows have what all agents see, too.

    Returns:
        `[..., B * A, *obs]`, a view where it can be; or of `whole` a dict, by the names of
        `whole_space`.
    """
    own = rows(obs, lead)
    if not whole:
        return own
    count, before = obs.shape[lead], obs.shape[: lead - 1]
    every = np.repeat(obs, count, axis=lead - 1)
    numbers = np.tile(np.eye(count, dtype=np.float32), (*before, obs.shape[lead - 1], 1))
    return {"agent": numbers, "all": every, "own": own}


def torch_rows(obs: Any, *, whole: bool) -> Any:
    """Return what `shown` does of a tensor `[N, A, *obs]`, but for "all", which critics see."""
    own = obs.flatten(0, 1)
    if not whole:
        return own
    return {"agent": obs.new_ones(obs.shape[1]).float().diag().repeat(len(obs), 1), "own": own}


def whole_space(one: spaces.Box, count: int) -> spaces.Dict:
    """Return the space of the observations of all agents together.

    "agent" is `[A]`, 1 at the agent's own number; "all" `[A, *obs]`; "own" `[*obs]`.
    """
    low, high = (np.stack([bound] * count) for bound in (one.low, one.high))
    every = spaces.Box(low, high, dtype=one.dtype)
    return spaces.Dict({"agent": spaces.Box(0.0, 1.0, (count,)), "all": every, "own": one})


class AgentsNoise:
    """The random numbers of a step, with a row for each agent of each env.

    An env's numbers are shared out to its agents: of one agent they are the env's own.

    Args:
        noise: of B envs.
        count: A.

    Attributes:
        rows: `[B * A]` int, numbers of the rows among those of all envs.
    """

    def __init__(self, noise: Any, count: int) -> None:
        self._noise, self._count = noise, count
        numbers = np.arange(count)
        self.rows: Any = (noise.rows[:, None] * count + numbers).reshape(-1)

    def __len__(self) -> int:
        return len(self._noise) * self._count

    def uniform(self, k: int = 1) -> Ndarray:
        """Return `[B * A, k]` float64 of [0, 1)."""
        return self._shared(self._noise.uniform(k * self._count), k)

    def normal(self, k: int = 1) -> Ndarray:
        """Return `[B * A, k]` float64 of the standard normal distribution."""
        return self._shared(self._noise.normal(k * self._count), k)

    def _shared(self, drawn: Ndarray, k: int) -> Ndarray:
        return drawn.reshape(-1, k)


def agent_rows(tree: ArrayDict, network: Any) -> ArrayDict:
    """Return a fragment of B envs of A agents as one of `B * A` rows, fresh.

    Rewards and endings are each agent's own. An agent that has left, is still to come, or learns
    nothing, has rows that do not count (`valid`). What ends or cuts an env's episode ends or cuts
    those of the agents in it.

    Args:
        tree: of a sampler that an `AgentsAgent` or a `TeamsAgent` played in, with its `env_info`.
        network: of `make_agents_network`; or a `Team`, whose agents' rows they are.

    Raises:
        InvalidOption: the fragment lacks the infos of the agents.
    """
    told = tree.get("env_info", {})
    missing = [name for name in NEEDED_INFOS if name not in told]
    if missing:
        raise InvalidOption(
            f"agents: the sampler must keep the infos {', '.join(NEEDED_INFOS)}; it lacks "
            f"{', '.join(missing)}. Make it with env_info=agent.env_info."
        )
    steps, whole = tree["reward"].shape[0], isinstance(network.observation_space, spaces.Dict)
    team = network if hasattr(network, "members") else None

    def of(name: str, count: int = steps) -> Ndarray:
        """Return `[count, B, A, ...]` of the agents that are looked at."""
        found = _read_all(tree[name], count)
        return found if team is None else team.of(found, 2)

    infos = (_read(told[name], steps) for name in NEEDED_INFOS)
    reward, terminated, truncated, acted = (x if team is None else team.of(x, 2) for x in infos)
    count = reward.shape[2]
    learned = np.array(getattr(network, "learned", True))
    cut, done = (_read(tree[name], steps)[..., None] for name in ("truncated", "terminated"))
    # A wrapper may end an episode of which the agents say nothing.
    terminated = acted & (terminated | (done & ~truncated))
    obs = of("obs", steps + 1)
    over = cut | done
    # Where the env goes on, an agent's last observation is what it is shown next.
    over = over.reshape(*over.shape, *[1] * (obs.ndim - 3))
    final = np.where(over, of("final_obs"), obs[1:])
    first = np.repeat(_read(tree["first"], steps + 1), count, axis=1)
    found: dict[str, Any] = {
        "obs": _kept(shown(obs, 2, whole=whole), 1),
        "final_obs": _kept(shown(final, 2, whole=whole)),
        "action": _kept(rows(of("action"), 2)),
        "prev_action": _kept(rows(of("prev_action", steps + 1), 2), 1),
        "reward": _kept(rows(reward.astype(np.float32), 2)),
        "terminated": _kept(rows(terminated, 2)),
        "truncated": _kept(rows(acted & (truncated | cut) & ~terminated, 2)),
        "valid": _kept(rows(acted & learned, 2)),
        "first": _kept(first, 1),
    }
    info = tree.get("agent_info", {})
    info = info if team is None else info.get(team.name, {})
    if info:
        found["agent_info"] = mapped(lambda x: _kept(rows(x, 2)), _read_all(info, steps))
    if "action_mask" in tree:
        mask = _read(tree["action_mask"], steps + 1)
        if team is not None:
            mask = team.of(
                mask.reshape(*mask.shape[:2], _read(told["agent_acted"], 1).shape[2], -1), 2
            )
        found["action_mask"] = _kept(mask.reshape(steps + 1, first.shape[1], -1), 1)
    for name in ("carry", "next_carry"):
        held = tree.get(name, {})
        held = held if team is None else held.get(team.name, {})
        if held:
            found[name] = {
                part: _kept(rows(held[part].to_ndarray(copy=False)), lead=1) for part in held
            }
    return ArrayDict(found)


def _read_all(arrays: Any, steps: int) -> Any:
    """Return `[steps, ...]` of an array, or of those of a tree by name."""
    if isinstance(arrays, ArrayDict):
        return {name: _read_all(part, steps) for name, part in arrays.items()}
    return _read(arrays, steps)


def _read(array: Any, steps: int) -> Ndarray:
    """Return `[steps, ...]`; one more than T reads the padding."""
    found: Ndarray = array[0:steps].to_ndarray(copy=False)
    return found


def _kept(value: Any, padding: int = 0, lead: int = 2) -> Any:
    """Return arrays with the numbers of some rows, of which the last `padding` lie beyond T."""
    if isinstance(value, Mapping):
        return {name: _kept(part, padding, lead) for name, part in value.items()}
    steps = len(value) - padding
    shape = (steps, *value.shape[1:lead])
    found = Array(shape, value.dtype, feature_shape=value.shape[lead:], padding=padding)
    found[0 : len(value)].to_ndarray(copy=False)[...] = value
    return found
