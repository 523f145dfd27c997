"""NetworkAgent: base class of agents with a torch network (forward pass, weights)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays import JaggedArray
from plangym_ext.arrays.nested import mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import ForeignNetwork, InvalidAnswer, InvalidOption
from plangym_ext.learn.agents.agent import Acted, Agent, RandomAgent
from plangym_ext.learn.agents.inputs import Inputs, Mode, needed_noise
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.items import Items
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.quick_forward import QuickForward, is_simple
from plangym_ext.learn.networks.state import check_network, load_network_state
from plangym_ext.learn.torch_extra import check_device, torch

#: The rows of a forward pass are filled up to a multiple of this. Products of fewer rows add
#: in other orders, so that a row's last bits would depend on how many others there are:
#: tests/learn/test_row_independence.py.
ROWS = 16
#: The same of screens before dense layers see them: convolutions sum as ever from two rows on, and
#: take most of the time.
SCREEN_ROWS = 4
_NETWORK = "network."


class NetworkAgent(Agent):
    """Abstract base of agents with a network.

    Row i of the result depends only on row i of the inputs, bit for bit, for any number of rows; on
    the CPU for a fixed number of threads (`torch.set_num_threads`).

    Args:
        network: an `AgentNetwork`, or a module with the same `forward` and `initial_carry`, and
            with the attributes `distribution` and `inputs_used`. It is shared, not copied: what a
            learner changes is played at once.
        device: where it runs; it is moved there.

    Raises:
        InvalidOption: the network is no module, or lacks an attribute that is read of it, or the
            device is not there.
    """

    #: Attributes of the network that are read, besides its methods.
    _read: ClassVar[tuple[str, ...]] = ("distribution", "inputs_used")

    def __init__(self, network: AgentNetwork, *, device: str = "cpu") -> None:
        check_device(device, type(self).__name__)
        check_network(type(self).__name__, network, self._read)
        self.network: Any = network.to(device).eval()
        self.device = torch.device(device)
        self.distribution = network.distribution
        self._used = frozenset(network.inputs_used)
        self.looks_at = self._used - {"obs"}
        self._carry_of_one = network.initial_carry(1)
        #: Looked at with every change of mode, as layers may be replaced in between.
        self._quick: QuickForward | None = None

    def set_mode(self, mode: Mode) -> None:
        """Change the mode, and the network's."""
        super().set_mode(mode)
        if self.network.training != (mode == "train"):
            self.network.train(mode == "train")
        # Samplers set the mode of each fragment: what follows from the network is kept while
        # it has the same parts.
        if self._quick is None or not self._quick.fits(self.network):
            self._quick = QuickForward(self.network) if is_simple(self.network) else None

    def check_spaces(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> None:
        """Refuse spaces other than the network's; bounds of float observations may differ.

        Raises:
            InvalidOption: they differ otherwise.
        """
        made_for: tuple[Any, ...] = tuple(
            getattr(self.network, name, None) for name in ("observation_space", "action_space")
        )
        if made_for == (None, None):  # of a network that does not say
            return
        if _looks(observation_space) != _looks(made_for[0]):
            what, mine, theirs = "observations", made_for[0], observation_space
        elif action_space != made_for[1]:
            what, mine, theirs = "actions", made_for[1], action_space
        else:
            return
        raise InvalidOption(
            f"{type(self).__name__}: the network was made for {what} of {mine}; the env has "
            f"{theirs}. Make it with the env's single_observation_space and single_action_space."
        )

    def initial_carry(self, num_rows: int) -> Any:
        """Return zeros `[B, H]` float32 by name; None for a network without a carry."""
        carry = self.network.initial_carry(num_rows)
        return None if carry is None else mapped(lambda part: part.numpy(), carry)

    def state_dict(self) -> dict[str, Any]:
        """Return "version", and the weights as arrays by name.

        On the CPU these are the network's own memory: copy them before the next update.
        """
        weights = self.network.state_dict()
        arrays = {_NETWORK + name: part.detach().cpu().numpy() for name, part in weights.items()}
        return {"version": self.version, **arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load weights and version.

        Raises:
            ForeignNetwork: they are of another network; nothing was changed.
        """
        if "version" not in state:
            raise ForeignNetwork(
                f"{type(self).__name__}.load_state_dict: the state lacks 'version'. Pass what "
                f"state_dict returned."
            )
        weights = {
            name.removeprefix(_NETWORK): as_tensor(part)
            for name, part in state.items()
            if name.startswith(_NETWORK)
        }
        # Refuses before it writes; the version belongs to the weights, so it comes after.
        load_network_state(self.network, weights, f"{type(self).__name__}.load_state_dict")
        self.version = int(state["version"])

    def _forward(self, inputs: Inputs, carry: Any) -> tuple[NetworkOutput, Any]:
        """Ask the network about B rows, in inference mode.

        Returns:
            Tensors `[B, ...]` on the CPU, and the carry as arrays.
        """
        rows = len(inputs.first)
        # Filled up to a multiple: products add in an order that depends on the number of rows,
        # which so is the same for all callers.
        more = -rows % ROWS
        # The quick way knows no carry; it has the same numbers to the last bit.
        if self._quick is not None and carry is None:
            few = more
            if self._quick.sees_screens and self.device.type == "cpu":
                few = -rows % SCREEN_ROWS
            heads = self._quick(self._tensors(inputs.obs, few), more - few)
            return _first_rows(heads, rows, more, self.device), None
        tensors = Inputs(
            self._tensors(inputs.obs, more),
            self._tensors(inputs.action, more) if "action" in self._used else None,
            self._tensors(inputs.reward, more) if "reward" in self._used else None,
            self._tensors(inputs.first, more) if "first" in self._used else inputs.first,
        )
        self._check_carry(rows, carry)
        given = None if carry is None else self._tensors(carry, more)
        out, after = self.network(tensors, given)
        if after is not None:
            after = mapped(lambda part: part[:rows].cpu().numpy(), after)
        return _first_rows(out, rows, more, self.device), after

    def _tensors(self, value: Any, more: int) -> Any:
        if type(value) is np.ndarray:
            return self._tensor(value, more)
        return mapped(lambda rows: self._part(rows, more), value)

    def _part(self, rows: Any, more: int) -> Any:
        """Return a tensor, or `Items`, of a part of something nested."""
        if isinstance(rows, JaggedArray):
            return Items.of(rows, more).to(self.device)
        return self._tensor(rows, more)

    def _tensor(self, rows: Any, more: int) -> Any:
        tensor = as_tensor(_padded(rows, more) if more else rows)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)

    def _check_carry(self, rows: int, carry: Any) -> None:
        """Refuse a carry that is not one of this agent's for so many rows."""
        example = self._carry_of_one
        if example is None and carry is None:
            return
        wanted = None if example is None else mapped(lambda x: (rows, *x.shape[1:]), example)
        found = None if carry is None else mapped(np.shape, carry)
        if found != wanted:
            raise InvalidAnswer(
                f"{type(self).__name__}: the carry of {rows} rows must have the shapes {wanted}; "
                f"got {found}. Begin with initial_carry({rows}), and pass on what step returned."
            )


def as_tensor(array: npt.ArrayLike) -> torch.Tensor:
    """Return a tensor on the array's memory, or on a copy where torch needs one.

    It refuses memory that it may not write, and strides that run backwards.
    """
    rows = np.asarray(array)
    flags = rows.flags
    if not flags.writeable or not (flags.c_contiguous or min(rows.strides, default=0) >= 0):
        rows = rows.copy()
    return torch.from_numpy(rows)


def refuse_infinite(rows: npt.NDArray[Any], agent: str, what: str) -> None:
    """Refuse network outputs that are not finite.

    Args:
        rows: `[B, ...]`, what the choice depends on.
        agent: as messages call it.
        what: `rows` are, likewise.

    Raises:
        InvalidAnswer: NaN or an infinity is among them; the message names the first row.
    """
    finite = np.isfinite(rows)
    if finite.all():
        return
    i = int(np.argmin(finite.reshape(len(rows), -1).all(axis=1)))
    raise InvalidAnswer(
        f"{agent}.step: {what} must be finite; got {rows[i].tolist()} in row {i}. Look for what is "
        f"not finite among its observations, then among the weights: a lower learning rate, or "
        f"max_grad_norm, keeps them finite."
    )


def _looks(space: spaces.Space[Any]) -> list[Any]:
    """Return what a network sees of a space: places, shapes, and bounds of what is no float."""
    parts = SpaceLayout(space, objects=True).leaves
    return [
        (leaf.path, leaf.shape, None if leaf.dtype.kind == "f" else leaf.space) for leaf in parts
    ]


def _first_rows(out: NetworkOutput, rows: int, more: int, device: Any) -> NetworkOutput:
    """Return the heads without the rows that were filled up, on the CPU."""
    if not more and device.type == "cpu":
        return out
    return NetworkOutput(*(None if part is None else part[:rows].cpu() for part in out))


def _padded(array: npt.ArrayLike, more: int) -> npt.NDArray[Any]:
    """Return the rows and `more` rows of zeros."""
    rows = np.asarray(array)
    whole = np.zeros((len(rows) + more, *rows.shape[1:]), rows.dtype)
    whole[: len(rows)] = rows
    return whole


# Agents with a stochastic policy ----------------------------------------------


@final
class PolicyAgent(NetworkAgent):
    """Samples from the policy in modes "train" and "sample", acts greedily in "eval".

    Until the first update of the weights it draws evenly from the space instead: an algorithm
    that begins to learn after so many steps has that many random ones to begin with.

    Args:
        network: with a policy head, and the attribute `action_space` besides those of a
            `NetworkAgent`'s.
        exploration: how many times as large as the policy's own the deviations are of what is
            drawn; those of deterministic policies are 1, half the range of the actions. A learner
            sets the attribute by its config; it travels with the weights.
        device: where the network runs.

    Raises:
        InvalidOption: the network has no policy head, or the device is not there.
    """

    _read = (*NetworkAgent._read, "action_space")

    def __init__(
        self, network: AgentNetwork, *, exploration: float = 1.0, device: str = "cpu"
    ) -> None:
        super().__init__(network, device=device)
        self.exploration = exploration
        self._random = RandomAgent(network.action_space)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        if self.version == 0 and self.mode != "eval":
            return self._random.step(inputs, carry)
        with torch.inference_mode():
            out, carry = self._forward(inputs, carry)
            if out.policy_logits is None:
                raise InvalidOption(
                    "PolicyAgent: the network must have a policy head; it has none. Name it in "
                    "AgentConfig(heads=...)."
                )
            params = out.policy_logits.numpy()
        refuse_infinite(params, type(self).__name__, "numbers of the policy")
        # After the check, which has to read the network's own outputs.
        params = masked(params, inputs.legal)
        if self.mode == "eval":
            action = self.distribution.greedy(params)
        else:
            noise = needed_noise(inputs, type(self).__name__)
            action = self.distribution.sample(params, noise, self.exploration)
        return Acted(action, {}, carry)

    def state_dict(self) -> dict[str, Any]:
        """Return "version", "exploration", and the weights as arrays by name."""
        # An array, as weights travel in shared memory.
        return {**super().state_dict(), "exploration": np.array(self.exploration)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.exploration = float(state.get("exploration", self.exploration))


@final
class ActorCriticAgent(NetworkAgent):
    """Samples from the policy in modes "train" and "sample", acts greedily in "eval".

    The infos of a step are "log_prob" `[B]` float32; "value" `[B]` float32, if the network has
    a value head; "raw_action", nested as the action, if the policy is a plain Gaussian over a
    Box with bounds: the unclipped draw, whose clipped values are the action and whose log
    likelihood is "log_prob"; and "params" `[B, P]` float32, if asked for.

    Args:
        network: with a policy head.
        device: where it runs.
        keep_params: whether the numbers of the distribution are among the infos, which
            losses with a divergence need.
        sample_in_eval: whether mode "eval" draws as well.

    Raises:
        InvalidOption: the network has no policy head, or the device is not there.
    """

    def __init__(
        self,
        network: AgentNetwork,
        *,
        device: str = "cpu",
        keep_params: bool = False,
        sample_in_eval: bool = False,
    ) -> None:
        super().__init__(network, device=device)
        self.keep_params, self.sample_in_eval = keep_params, sample_in_eval

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        with torch.inference_mode():
            out, carry = self._forward(inputs, carry)
            legal = None if inputs.legal is None else as_tensor(inputs.legal)
            # Before the draw and before the likelihood: both are of the policy over the legal
            # actions.
            params = masked(self._params(out), legal)
            drawn = self._drawn(params.numpy(), inputs)
            # Of the draw before clipping, from which the learner computes it again.
            log_prob = self.distribution.log_prob(params, mapped(as_tensor, drawn))
            info: dict[str, Any] = {"log_prob": log_prob.numpy()}
            refuse_infinite(info["log_prob"], type(self).__name__, "log probabilities")
            if out.value is not None:
                info["value"] = out.value.numpy()
            action = drawn
            if self.distribution.clips:
                info["raw_action"], action = drawn, self.distribution.clip(drawn)
            if self.keep_params:
                info["params"] = params.numpy()
        return Acted(action, info, carry)

    def value(self, inputs: Inputs, carry: Any) -> Any:
        with torch.inference_mode():
            out, _ = self._forward(inputs, carry)
        if out.value is None:
            return super().value(inputs, carry)
        return out.value.numpy()

    def _drawn(self, params: Any, inputs: Inputs) -> Any:
        if self.mode == "eval" and not self.sample_in_eval:
            return self.distribution.greedy(params)
        noise = needed_noise(inputs, type(self).__name__)
        return self.distribution.draw(params, noise)

    def _params(self, out: Any) -> Any:
        if out.policy_logits is None:
            raise InvalidOption(
                "ActorCriticAgent: the network must have a policy head; it has none. Name it in "
                "AgentConfig(heads=...)."
            )
        return out.policy_logits
