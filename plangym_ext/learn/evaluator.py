"""NetworkEvaluator: a network as the evaluator function of planners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import mapped, num_rows
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.quick_forward import QuickNetwork, is_plain
from plangym_ext.learn.networks.state import load_network_state, refuse_unsized
from plangym_ext.learn.torch_extra import check_device, nn, torch

OUTPUTS = ("auto", "policy-value", "value", "policy", "q")
Answer = tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float32]]


class NetworkEvaluator:
    """Evaluates all leaves of a search wave in one call of a network.

    It is a planner's `evaluator`: `obs [L, *obs] -> (prior [L, A] or None, value [L])`.
    Observations are read where they are, and the answers are views of the network's
    own output: nothing is copied on the CPU. They stay good; each call has its own.

    A row's values can differ in the last bits with the number of rows in the call, as matrix
    products add in an order that depends on it. The same calls give the same.

    Args:
        network: a `Network`, or any module whose forward returns a `NetworkOutput`. It is
            shared, not copied: what an algorithm changes is asked at once.
        outputs: what to answer from: "policy-value", "value" (the prior is uniform),
            "policy" (values are 0), "q" (the best action's value, prior softmax(q /
            temperature)); "auto" takes the heads that there are. A policy over actions
            that are not Discrete is no prior.
        temperature: of the prior: softmax(logits / temperature).
        device: where the network runs; it is moved there.
        compile: whether to compile it (`torch.compile`), which takes a C++ compiler and
            some seconds at the first calls.
        version: of the weights; see `load`.

    Attributes:
        calls: how many times the network was asked.
        rows: about how many observations in all.
        version: of the weights, as given to `load`.

    Raises:
        InvalidOption: an argument is out of range; at the first call, the network lacks a
            head that `outputs` names.
    """

    @checking_arguments
    def __init__(
        self,
        network: nn.Module,
        *,
        outputs: str = "auto",
        temperature: float = 1.0,
        device: str = "cpu",
        compile: bool = False,  # noqa: A002 - torch's word
        version: int = 0,
    ) -> None:
        if outputs not in OUTPUTS:
            raise InvalidOption(
                f"NetworkEvaluator: outputs must be one of {', '.join(OUTPUTS)}; got "
                f"{outputs!r}{suggestion(outputs, OUTPUTS)}."
            )
        if not temperature > 0:
            raise InvalidOption(
                f"NetworkEvaluator: temperature must be above 0; got {temperature}."
            )
        check_device(device, "NetworkEvaluator")
        refuse_unsized("NetworkEvaluator", network)
        # Dropout, or statistics of a batch, would make a row depend on chance or on the others.
        self.network = network.to(device).eval()
        self.outputs, self.temperature, self.version = outputs, float(temperature), version
        self.device = torch.device(device)
        self.calls = self.rows = 0
        self._checked: Any = None  # the last space that `check_space` has let pass
        self._kind: str | None = None
        distribution = getattr(network, "distribution", None)
        self._discrete = distribution is None or distribution.num_actions is not None
        # Dynamic: waves differ in their number of leaves, and each new one would be compiled.
        self._compiled: Any = torch.compile(network, dynamic=True) if compile else None
        self._quick: QuickNetwork | None = None

    #: Planners that know what can be played tell it: `evaluator(obs, legal)`.
    heeds_masks = True

    def __call__(self, obs: Any, legal: npt.NDArray[np.bool_] | None = None) -> Answer:
        """Rate `[L, *obs]`: prior `[L, A]` or None, value `[L]`, both float32.

        Observations of a Dict or Tuple space reach the network as a dict or tuple of tensors.

        Args:
            obs: what is rated.
            legal: `[L, A]`, of what Q values the best is taken; None: of all.
        """
        with torch.inference_mode():
            out = self._run(obs)
            prior, value = self._answer(out, legal)
            # Softmax in here: one more kernel costs less than a dozen of numpy's.
            if prior is not None:
                prior = torch.softmax(prior / self.temperature, dim=1).cpu().numpy()
            if value is None:
                return prior, np.zeros(num_rows(obs), np.float32)
            return prior, value.cpu().numpy()

    @property
    def has_prior(self) -> bool:
        """Whether there is a prior: actions are Discrete, and `outputs` has policy or Q."""
        return self._discrete and self.outputs != "value"

    def policy(self, obs: Any) -> npt.NDArray[np.float32]:
        """Return the prior `[L, A]` only, for a planner's `rollout_policy`.

        Raises:
            InvalidOption: the answers have no prior.
        """
        prior, _ = self(obs)
        if prior is None:
            raise InvalidOption(
                "NetworkEvaluator.policy: the network must have a policy head over Discrete "
                "actions, and outputs must name it; the answers have no prior."
            )
        return prior

    def actions(self, obs: Any) -> Any:
        """Return the policy's greedy actions `[L, *act]`, for a planner's `policy`.

        Raises:
            InvalidOption: the network has no policy head.
        """
        params = self.ask(obs).policy_logits
        if params is None:
            raise InvalidOption(
                "NetworkEvaluator.actions: the network must have a policy head; it has none. "
                "Name it in NetworkConfig(heads=...), and train it."
            )
        network: Any = self.network
        return network.distribution.greedy(params)

    def ask(self, obs: Any) -> NetworkOutput:
        """Return the outputs of all heads as numpy arrays; None for missing heads."""
        with torch.inference_mode():
            out = self._run(obs)
            return NetworkOutput(*(None if t is None else t.cpu().numpy() for t in out))

    def load(self, state: Mapping[str, Any], version: int) -> None:
        """Load the weights of a `state_dict`, and their version.

        Raises:
            ForeignNetwork: they are another network's; nothing was changed.
        """
        load_network_state(self.network, state, "NetworkEvaluator.load")
        self.version = version

    def check_space(self, space: Any) -> None:
        """Refuse an observation space that the network cannot take; planners call this first.

        Raises:
            InvalidOption: it holds texts, graphs or sequences, or the network was made for
                another space.
        """
        if space is self._checked:
            return
        layout = SpaceLayout(space, objects=True)
        for leaf in layout.leaves:
            if leaf.dtype.kind not in "biuf":
                raise InvalidOption(
                    f"NetworkEvaluator: observation{leaf.name} must be an array of numbers; got "
                    f"{leaf.space}. Leave it out with gymnasium.wrappers.FilterObservation, or "
                    f"encode it with a TransformObservation."
                )
        expected = getattr(getattr(self.network, "encoder", None), "obs_shape", None)
        if expected is not None and (not layout.is_flat or layout.leaves[0].shape != expected):
            raise InvalidOption(
                f"NetworkEvaluator: the network was made for observations of shape {expected}; "
                f"the env has {space}. Make it with make_network(env.observation_space, ...); "
                f"a Dict or Tuple takes a FlattenObservation wrapper or a network of your own."
            )
        self._checked = space

    def _run(self, obs: Any) -> NetworkOutput:
        self.calls += 1
        self.rows += num_rows(obs)
        out: NetworkOutput = self._forward()(mapped(self._tensor, obs))
        return out

    def _forward(self) -> Any:
        """Return the fastest known function that evaluates tensors as the network does."""
        if self._compiled is not None:
            return self._compiled
        network: Any = self.network
        # Looked at in every call, as layers may be replaced in between.
        if self._quick is None or not self._quick.fits(network):
            self._quick = QuickNetwork(network) if is_plain(network) else None
        return self._quick or network

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what holds on to the layers of this very network."""
        return {**self.__dict__, "_quick": None}

    def _tensor(self, part: Any) -> Any:
        rows = np.asarray(part)
        # torch refuses memory that it may not write, and strides that run backwards.
        if not rows.flags.writeable or any(stride < 0 for stride in rows.strides):
            rows = rows.copy()
        return torch.from_numpy(rows).to(self.device)

    def _answer(self, out: NetworkOutput, legal: npt.NDArray[np.bool_] | None) -> tuple[Any, Any]:
        """Return logits of the prior, or None, and values, or None."""
        # Once: a network has the same heads in every call.
        if self._kind is None:
            self._kind = self._checked_kind(out)
        if self._kind == "q":
            # Q values are the logits of the prior, and the best of them is the value.
            q = out.q
            # Of another number of actions the planner tells, in its own words.
            if legal is not None and legal.shape == q.shape:
                q = masked(q, torch.from_numpy(legal).to(q.device))
            return q, q.amax(dim=1)
        # Logits over actions that are not Discrete are no prior.
        logits = out.policy_logits if self._discrete and self._kind != "value" else None
        return logits, None if self._kind == "policy" else out.value

    def _checked_kind(self, out: NetworkOutput) -> str:
        """Return the value of `outputs` for the network's heads."""
        there = {"policy": out.policy_logits, "value": out.value, "q": out.q}
        there = {name: part for name, part in there.items() if part is not None}
        wanted = self.outputs
        if wanted == "auto":
            # What there is of policy and value, in this order; Q values only where neither is.
            wanted = "-".join(name for name in there if name != "q") or "q"
        if not there.keys() >= set(wanted.split("-")):
            raise InvalidOption(
                f"NetworkEvaluator: outputs {wanted!r} need heads that the network does not "
                f"have; it has {', '.join(there)}. Name them in NetworkConfig(heads=...)."
            )
        return wanted
