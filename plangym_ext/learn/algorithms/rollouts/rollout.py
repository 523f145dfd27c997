"""Rollout: a sampled fragment as `[T, B]` tensors, with bootstrap values at its ends."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from plangym_ext.arrays import Array, ArrayDict, JaggedArray
from plangym_ext.arrays.nested import mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.arrays.tree import part_at
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.rows import Rows, changed_inputs
from plangym_ext.learn.networks.items import Items
from plangym_ext.learn.returns import gae
from plangym_ext.learn.torch_extra import device_of, torch


class Rollout(NamedTuple):
    """A fragment as tensors `[T, B, ...]`; on the CPU they share the memory of the tree."""

    inputs: Inputs
    action: Any
    log_prob: Any  # None where nothing was drawn
    value: Any  # None where nothing estimates it; the best of Q values
    reward: Any
    terminated: Any
    valid: Any  # None: all rows count
    carry: Any
    ends: dict[str, Any]  # `bootstrap`, `truncated`, `final_value`, `valid` for learn.returns
    forks: Any = None  # of a `ForkingSampler`

    @property
    def ended(self) -> Any:
        """`[T, B]` bool, whether the episode ended with this step."""
        return self.terminated | self.ends["truncated"]

    def rows(self, advantage: Any, target: Any) -> Rows:
        """Return the inputs of losses, with advantages and targets `[T, B]`."""
        first = self.inputs, self.action, self.log_prob, self.value
        return Rows(*first, advantage, target, self.valid, self.carry)

    def rows_by_gae(self, value: Any, discount: float, gae_lambda: float) -> Rows:
        """Return the inputs of losses, with advantages by GAE; `value` is `[T, B]`."""
        if self._is_plain:
            advantage = self._compiled_gae(value, discount, gae_lambda)
        else:
            advantage = gae(
                self.reward, value, self.terminated, discount=discount, lam=gae_lambda, **self.ends
            )
        return self.rows(advantage, advantage + value)

    @property
    def _is_plain(self) -> bool:
        """Whether the compiled estimate takes these rows: all count, and lie in memory here."""
        kinds = {self.reward.dtype, self.ends["bootstrap"].dtype, self.ends["final_value"].dtype}
        return self.valid is None and self.reward.device.type == "cpu" and kinds == {torch.float32}

    def _compiled_gae(self, value: Any, discount: float, gae_lambda: float) -> Any:
        # Here and not above: numba is loaded where something is learned of such rows.
        from plangym_ext.learn.returns import kernels

        found = torch.empty(self.reward.shape, dtype=torch.float32)
        kernels.gae(
            self.reward.numpy(),
            value.numpy(),
            self.terminated.numpy(),
            self.ends["truncated"].numpy(),
            self.ends["final_value"].numpy(),
            self.ends["bootstrap"].numpy(),
            discount,
            gae_lambda,
            found.numpy(),
        )
        return found


def rollout_of(
    tree: ArrayDict, network: Any, needed: str = "log_prob", forward: Any = None
) -> Rollout:
    """Return a fragment as a `Rollout`, with bootstrap values of its ends.

    The network evaluates obs[T] and the final observations of truncated episodes: these returns go
    on, those of terminated episodes do not. What Q values are of is worth the best of them. A
    network without either says nothing; 0 stands for what follows then.

    Args:
        tree: of a sampler; see `plangym_ext.learn.build_sample_tree`.
        network: that played it, in evaluation mode.
        needed: name of what is needed of the agent's infos: "log_prob", "q" or "value".
        forward: evaluates inputs as the network does; None: the network itself.

    Raises:
        InvalidOption: the agent did not keep it.
    """
    info = tree.get("agent_info", {}) if isinstance(tree, Mapping) else {}
    if needed not in info:
        agent = "a QAgent" if needed == "q" else "an ActorCriticAgent"
        raise InvalidOption(
            f"rollout_of: agent_info must have {needed!r}, as {agent} gives it; got {sorted(info)}."
        )
    read = TreeReader(tree, network, by_q=needed == "q")
    shown = read.shown()
    # Likelihoods are of the draws before clipping.
    played = tree["action"] if "raw_action" not in info else info["raw_action"]
    valid = read.tensor(tree["valid"])
    with torch.no_grad():
        bootstrap, final = _values_of_ends(read, forward or network, shown, valid)
    truncated = read.tensor(tree["truncated"])
    # None, where all rows count, is quicker in all that follows.
    counted = None if bool(valid.all()) else valid
    ends = {"bootstrap": bootstrap, "truncated": truncated, "final_value": final, "valid": counted}
    return Rollout(
        inputs=changed_inputs(lambda leaf: leaf[:-1], shown),
        action=read.played(played),
        log_prob=read.tensor(info["log_prob"]) if "log_prob" in info else None,
        value=read.value(info),
        reward=read.tensor(tree["reward"]),
        terminated=read.tensor(tree["terminated"]),
        valid=counted,
        carry=read.carry("carry"),
        ends=ends,
    )


def value_of(network: Any, inputs: Inputs, carry: Any, *, by_q: bool) -> Any:
    """Return values `[...]` of a network, or its best Q values; zeros if it estimates none.

    Args:
        network: may have both, of which one is learned.
        inputs: see there.
        carry: see there.
        by_q: whether Q values go first.
    """
    out, _ = network(inputs, carry)
    if out.q is not None and (by_q or out.value is None):
        return masked(out.q, inputs.legal).amax(dim=-1)
    if out.value is None:
        return torch.zeros(inputs.first.shape, device=inputs.first.device, dtype=torch.float32)
    return out.value


def _values_of_ends(read: TreeReader, network: Any, shown: Inputs, valid: Any) -> tuple[Any, Any]:
    """Return `[B]`, values of obs[T], and `[T, B]`, those of final_obs where one is truncated."""
    last = changed_inputs(lambda leaf: leaf[-1], shown)
    worth = functools.partial(value_of, network, by_q=read.by_q)
    bootstrap = worth(last, read.carry("next_carry"))
    tree = read.tree
    truncated = read.tensor(tree["truncated"])
    final = torch.zeros(truncated.shape, dtype=bootstrap.dtype, device=bootstrap.device)
    if not bool(truncated.any()):
        return bootstrap, final
    # A row with both flags is terminated; rows that wait have flags of nothing.
    wanted = truncated & ~read.tensor(tree["terminated"]) & valid
    if not bool(wanted.any()):
        return bootstrap, final
    after = read.after()
    carry = read.carry("carry")
    if carry is None:
        index = wanted.nonzero(as_tuple=True)
        final[index] = worth(_at(after, index), None)
        return bootstrap, final
    # Recurrent: the carry of each ending is that of its own step, so the fragment is gone through
    # up to there, from one such step to the next.
    begin = 0
    for t in wanted.any(dim=1).nonzero()[:, 0].tolist():
        # The carry after step t: that of the final observations of step t.
        span = slice(begin, t + 1)
        part = changed_inputs(lambda leaf, s=span: leaf[s], shown)
        _, carry = network(part, carry)
        final[t] = torch.where(wanted[t], worth(_at(after, t), carry), 0.0)
        begin = t + 1
    return bootstrap, final


def _at(inputs: Inputs, index: Any) -> Inputs:
    return changed_inputs(lambda leaf: leaf[index], inputs)


class TreeReader:
    """Reads tensors from the tree, on the network's device, nested as its spaces."""

    def __init__(self, tree: ArrayDict, network: Any, *, by_q: bool) -> None:
        self.tree, self.by_q = tree, by_q
        self._steps = tree["reward"].shape[0]
        self._device = device_of(network)
        self._used = frozenset(network.inputs_used)
        self._carry_of_one = network.initial_carry(1)
        self._network = network

    @functools.cached_property
    def _obs_layout(self) -> SpaceLayout | None:
        """How observations are nested; None if the network does not say."""
        space = getattr(self._network, "observation_space", None)
        return None if space is None else SpaceLayout(space, objects=True)

    @functools.cached_property
    def _action_layout(self) -> SpaceLayout | None:
        space = getattr(self._network, "action_space", None)
        return None if space is None else SpaceLayout(space)

    def observed(self, arrays: Any, steps: int | None = None) -> Any:
        """Return tensors nested as the space of observations."""
        return self._nested(arrays, lambda: self._obs_layout, steps)

    def played(self, arrays: Any, steps: int | None = None) -> Any:
        """Return tensors nested as the space of actions."""
        return self._nested(arrays, lambda: self._action_layout, steps)

    def tensor(self, array: Any, steps: int | None = None) -> Any:
        """Return `[steps, B, ...]`; one more than T reads the padding."""
        rows = array[0 : steps or self._steps].to_ndarray(copy=False)
        return torch.from_numpy(rows).to(self._device)

    def _nested(
        self, arrays: Any, layout_of: Callable[[], SpaceLayout | None], steps: int | None
    ) -> Any:
        """Return tensors nested as a layout; as the tree, if there is none.

        A layout is made where it is needed: most spaces are plain, and rounds may be short.
        """
        if isinstance(arrays, Array):
            return self.tensor(arrays, steps)
        return self._parts(arrays, layout_of(), steps)

    def _parts(self, arrays: Any, layout: SpaceLayout | None, steps: int | None) -> Any:
        """Return tensors of several arrays, or `Items`, nested as a layout."""
        if layout is None:
            return self._part(arrays, steps)
        parts = (part_at(arrays, leaf.path) for leaf in layout.leaves)
        return layout.join(tuple(self._part(part, steps) for part in parts))

    def _part(self, part: Any, steps: int | None) -> Any:
        """Return the tensors of a part of a space; those of a graph by name."""
        if isinstance(part, ArrayDict):
            return {name: self._part(inner, steps) for name, inner in part.items()}
        if isinstance(part, JaggedArray):
            return Items.of(part[0 : steps or self._steps]).to(self._device)
        return self.tensor(part, steps)

    def value(self, info: Any) -> Any:
        """Return the agent's values of the rows, `[T, B]`; None if it has none."""
        if "value" in info and not self.by_q:
            return self.tensor(info["value"])
        return masked(self.tensor(info["q"]), self.legal()).amax(dim=-1) if "q" in info else None

    def legal(self, steps: int | None = None) -> Any:
        """Return which actions were legal; None if all were."""
        return self.tensor(self.tree["action_mask"], steps) if "action_mask" in self.tree else None

    def shown(self) -> Inputs:
        """Return the network's inputs, `[T + 1, B, ...]`."""
        tree, steps, used = self.tree, self._steps + 1, self._used
        return Inputs(
            self.observed(tree["obs"], steps),
            self.played(tree["prev_action"], steps) if "action" in used else None,
            self.tensor(tree["prev_reward"], steps) if "reward" in used else None,
            self.tensor(tree["first"], steps),
            legal=self.legal(steps),
        )

    def after(self) -> Inputs:
        """Return the network's inputs after the last step of an episode, `[T, B]`."""
        tree, used = self.tree, self._used
        return Inputs(
            self.observed(tree["final_obs"]),
            self.played(tree["action"]) if "action" in used else None,
            self.tensor(tree["reward"]) if "reward" in used else None,
            # Not a first observation: the last action of the episode led to it.
            torch.zeros_like(self.tensor(tree["first"])),
        )

    def carry(self, name: str) -> Any:
        """Return `[B, ...]`; None if nothing is carried."""
        if self._carry_of_one is None:
            return None
        found = self.tree[name]
        arrays: list[Any] = [found]
        if isinstance(found, ArrayDict):
            arrays = [leaf for _, leaf in found.leaves()]
        tensors = (torch.from_numpy(array.to_ndarray(copy=False)) for array in arrays)
        # The leaves of the tree are in the order of the carry's own.
        return mapped(lambda _: next(tensors).to(self._device), self._carry_of_one)
