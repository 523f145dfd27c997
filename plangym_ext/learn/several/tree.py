"""Rows of one agent each, `[T, B * A]`, of the fragment of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.several.axis import NEEDED_INFOS, rows, shown

Ndarray = npt.NDArray[Any]


def agent_rows(tree: ArrayDict, network: Any) -> ArrayDict:
    """Return a fragment of B envs of A agents as one of `B * A` rows, fresh.

    Rewards and endings are each agent's own. An agent that has left, or is still to come, has rows
    that do not count (`valid`). What cuts an env's episode cuts those of the agents in it.

    Args:
        tree: of a sampler that an `AgentsAgent` played in, with its `env_info`.
        network: of `make_agents_network`.

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
    count, steps = int(network.num_agents), tree["reward"].shape[0]
    whole = isinstance(network.observation_space, spaces.Dict)
    reward, terminated, truncated, acted = (_read(told[name], steps) for name in NEEDED_INFOS)
    ended = _read(tree["truncated"], steps)[..., None]
    obs = _read(tree["obs"], steps + 1)
    over = ended | _read(tree["terminated"], steps)[..., None]
    # Where the env goes on, an agent's last observation is what it is shown next.
    over = over.reshape(*over.shape, *[1] * (obs.ndim - 3))
    final = np.where(over, _read(tree["final_obs"], steps), obs[1:])
    first = np.repeat(_read(tree["first"], steps + 1), count, axis=1)
    found: dict[str, Any] = {
        "obs": _kept(shown(obs, 2, whole=whole), 1),
        "final_obs": _kept(shown(final, 2, whole=whole)),
        "action": _kept(rows(_read(tree["action"], steps), 2)),
        "prev_action": _kept(rows(_read(tree["prev_action"], steps + 1), 2), 1),
        "reward": _kept(rows(reward.astype(np.float32), 2)),
        "terminated": _kept(rows(terminated & acted, 2)),
        "truncated": _kept(rows((truncated | ended) & ~terminated & acted, 2)),
        "valid": _kept(rows(acted, 2)),
        "first": _kept(first, 1),
        "agent_info": {
            name: _kept(rows(_read(tree["agent_info"][name], steps), 2))
            for name in tree["agent_info"]
        },
    }
    if "action_mask" in tree:
        mask = _read(tree["action_mask"], steps + 1)
        found["action_mask"] = _kept(mask.reshape(steps + 1, first.shape[1], -1), 1)
    for name in ("carry", "next_carry"):
        if name in tree:
            found[name] = {
                part: _kept(rows(tree[name][part].to_ndarray(copy=False)), lead=1)
                for part in tree[name]
            }
    return ArrayDict(found)


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
