"""FlatOptimizer: all parameters of a network in one vector, for one optimiser step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plangym_ext.errors import ForeignNetwork
from plangym_ext.learn.engines.torch_steps import (
    HELD_BACK,
    DeviceSteps,
    OptimizerConfig,
    TorchSteps,
)
from plangym_ext.learn.group import ALONE, LearnerGroup
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch

#: Weights up to which steps are taken in compiled code, on one processor.
_SMALL = 200_000


def flat_optimizer(
    network: nn.Module, config: OptimizerConfig, *, decays: bool = False
) -> FlatOptimizer:
    """Return the configured optimiser of all parameters of a network."""
    options: dict[str, Any] = {}
    # SGD divides by nothing.
    if config.optimizer != "sgd":
        options["eps"] = config.epsilon
    if config.optimizer in HELD_BACK:
        options["betas"] = config.adam_beta, 0.999
    if config.optimizer != "rmsprop":
        # One pass over the parameters instead of ten operations on them.
        options["fused"] = True
    return FlatOptimizer(network, config, decays=decays, **options)


#: Parameters of critics side by side that have one more dimension than those of one network.
_OF_SEVERAL = {"biases", "scales", "offsets"}


def _is_weight(name: str, parameter: nn.Parameter) -> bool:
    """Return whether a parameter decays: no bias, and no scale of a normalisation.

    These have one dimension; those of `Critics` have two.
    """
    return parameter.ndim > 1 and _OF_SEVERAL.isdisjoint(name.split("."))


class FlatOptimizer:
    """Steps a network down a gradient, with its parameters joined into one vector.

    The networks of rollout algorithms are small and stepped often: operations on ten small
    tensors each cost more than those on one of the same size. The network's own parameters are
    read when a round begins, and written after each step.

    Args:
        network: whose parameters.
        config: name, learning rate and weight decay.
        decays: whether the weight decay may change; see `set_decay`.
        **options: of the optimiser's class, such as `eps`.

    Attributes:
        rate: the learning rate of the last step.
        group: learners whose steps are this one's: all go down the mean of their gradients. It
            is taken of the vector, where gradients come together that autograd and compiled code
            have worked out, so one exchange is enough, and hooks of autograd are not needed.
    """

    def __init__(
        self, network: nn.Module, config: OptimizerConfig, *, decays: bool = False, **options: Any
    ) -> None:
        learned = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        for name, parameter in learned:
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise ForeignNetwork(
                    f"optimizer: the parameter {name} of {type(network).__name__} has no size yet, "
                    f"as those of torch's lazy modules before their first call. Call the network "
                    f"once where it is made, or give its sizes."
                )
        decay = at(config.l2, 0)
        apart = decays or bool(decay)
        decayed = [p for name, p in learned if apart and _is_weight(name, p)]
        rest = [p for name, p in learned if not (apart and _is_weight(name, p))]
        self._parts = [_Part(parameters) for parameters in (decayed, rest) if parameters]
        self._parameters = [p for part in self._parts for p in part.parameters]
        groups: list[dict[str, Any]] = [
            {"params": [part.vector], "weight_decay": decay if part.parameters is decayed else 0.0}
            for part in self._parts
        ]
        self._decays = bool(decayed)
        self.group: LearnerGroup = ALONE
        self._gradients = [part.vector.grad for part in self._parts]
        on_gpu = config.optimizer in HELD_BACK and _is_on_gpu(self._parts)
        self._steps: Any = (DeviceSteps if on_gpu else TorchSteps)(groups, config, options)
        if _is_small(self._parts):
            # Here and not above: numba is of no use to large networks.
            from plangym_ext.learn.engines.compiled.vector_steps import VectorSteps

            vectors, rates = [p.vector for p in self._parts], [g["weight_decay"] for g in groups]
            known = {"epsilon": "eps", "betas": "betas"}
            given = {mine: options[name] for mine, name in known.items() if name in options}
            self._steps = VectorSteps(config.optimizer, vectors, rates, **given)
        self.rate = at(config.learning_rate, 0)

    def read(self) -> None:
        """Take over the weights as they are now."""
        for part in self._parts:
            part.read()

    def write(self) -> None:
        """Copy the weights of the vector to the network."""
        for part in self._parts:
            part.write()

    def views(self) -> dict[int, tuple[Any, Any]]:
        """Return arrays on the vector and on its gradient, by `id` of each parameter."""
        return {key: pair for part in self._parts for key, pair in part.views().items()}

    def step(self, loss: Any, rate: float, max_norm: float) -> float:
        """Take one step down the gradient of a loss, and `write`; see `descend`."""
        self.differentiate(loss)
        norm = self.descend(rate, max_norm)
        self.write()
        return norm

    def differentiate(self, loss: Any, gradient: Any = None) -> None:
        """Put the gradient of a scalar, or of outputs with given gradients, into the vector."""
        # Zeros for what the loss does not reach: the vector has a place for each parameter.
        gradients = torch.autograd.grad(loss, self._parameters, gradient, materialize_grads=True)
        begin = 0
        for part in self._parts:
            end = begin + len(part.parameters)
            torch.cat([grad.flatten() for grad in gradients[begin:end]], out=part.vector.grad)
            begin = end

    def scale(self, factor: float) -> None:
        """Multiply the gradient that is in the vector."""
        for gradient in self._gradients:
            gradient.mul_(factor)

    def descend(self, rate: float, max_norm: float) -> float:
        """Take one step down the gradient that is in the vector; the network is not written.

        Args:
            rate: learning rate.
            max_norm: longer gradients are shortened to this; may be infinite.

        Returns:
            The norm of the gradient before; if it is not finite, no step was taken.
        """
        # Before the norm, so that all learners shorten the same gradient.
        self.group.average(self._gradients)
        norm: float = self._steps.norm()
        if not math.isfinite(norm):
            return norm
        self._steps.step(rate, max_norm / norm if norm > max_norm else 1.0)
        self.rate = rate
        return norm

    def set_decay(self, decay: float) -> None:
        """Set the weight decay of the next steps, of an optimiser that was made with `decays`."""
        if self._decays:
            self._steps.set_decay(decay)

    # Without a word to the host -------------------------------------------------

    @property
    def can_be_recorded(self) -> bool:
        """Whether `descend_unless` can be called: on a GPU, with an optimiser of `HELD_BACK`."""
        return isinstance(self._steps, DeviceSteps)

    def begin(self) -> None:
        """Make the moments, if there are none yet."""
        self._steps.begin()

    def changed_by_steps(self) -> Iterator[Any]:
        """Yield all tensors that a step changes, besides the network's."""
        for part in self._parts:
            yield part.vector.detach()
        yield from self._steps.moments()

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of `descend_unless`."""
        self._steps.set_rate(rate)
        self.rate = rate

    def descend_unless(self, failed: Any, loss: Any, max_norm: float) -> Any:
        """Take one step down the gradient that is in the vector; all of it on the device.

        Args:
            failed: float32 scalar on the device; 1 from the first loss or gradient on that is
                not finite, and then no step is taken.
            loss: scalar, of which it is the gradient.
            max_norm: see `descend`.

        Returns:
            The norm of the gradient before, a scalar on the device.
        """
        norm = self._steps.norm_there()
        finite = torch.isfinite(norm) & torch.isfinite(loss.detach())
        torch.maximum(failed, (~finite).to(failed.dtype), out=failed)
        if max_norm < math.inf:
            factor = (max_norm / norm).clamp(max=1.0)
            for gradient in self._gradients:
                gradient.mul_(factor)
        self._steps.step_unless(failed)
        return norm

    # Saving ---------------------------------------------------------------------

    def state_dict(self) -> Any:
        """Return the moments: tensors and plain values by number of the vector."""
        return self._steps.state_dict()

    def check_state(self, state: Any, where: str) -> None:
        """Refuse moments of another number of weights.

        torch's optimisers take them, and write beyond their ends with the next step.

        Args:
            state: of a `state_dict`; empty before the first step.
            where: how the message begins.

        Raises:
            ForeignNetwork: they are of other weights, or no moments at all.
        """
        here = {number: part.vector.numel() for number, part in enumerate(self._parts)}
        theirs = _sizes(state)
        if theirs is None or (theirs and theirs != here):
            found = repr(state)[:80] if theirs is None else str(list(theirs.values()))
            raise ForeignNetwork(
                f"{where}: the moments of the optimiser must be of {list(here.values())} weights, "
                f"with and without decay; got {found}. Make the algorithm with the same network "
                f"and l2."
            )

    def load_state_dict(self, state: Mapping[Any, Any]) -> None:
        """Continue from saved moments; rates stay those of the config. See `check_state`."""
        self._steps.load_state_dict(state)


def _sizes(state: Any) -> dict[Any, int] | None:
    """Return how many weights there are moments of, by number of the vector; None: unlike any."""
    if not isinstance(state, Mapping):
        return None
    found = {}
    for number, moments in state.items():
        if not isinstance(moments, Mapping):
            return None
        # Of the counter of steps there is one for all weights.
        kept = [moment for name, moment in moments.items() if name != "step"]
        sizes = {math.prod(getattr(moment, "shape", ())) for moment in kept}
        if len(sizes) != 1:
            return None
        found[number] = sizes.pop()
    return found


def _is_on_gpu(parts: Sequence[_Part]) -> bool:
    return bool(parts) and all(part.vector.device.type == "cuda" for part in parts)


def _is_small(parts: Sequence[_Part]) -> bool:
    """Return whether a step is over sooner than one of torch's begins."""
    plain = all(p.vector.device.type == "cpu" and p.vector.dtype is torch.float32 for p in parts)
    return plain and sum(p.vector.numel() for p in parts) <= _SMALL


class _Part:
    """Some parameters, and a vector of all their numbers."""

    def __init__(self, parameters: Sequence[Any]) -> None:
        self.parameters = parameters
        self.vector: Any = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        self.vector.grad = torch.zeros_like(self.vector)
        self._pieces = self._split(self.vector.detach())

    def _split(self, vector: Any) -> list[Any]:
        pieces = torch.split(vector, [p.numel() for p in self.parameters])
        return [piece.view_as(p) for piece, p in zip(pieces, self.parameters, strict=True)]

    def views(self) -> dict[int, tuple[Any, Any]]:
        gradients = self._split(self.vector.grad)
        return {
            id(p): (piece.numpy(), gradient.numpy())
            for p, piece, gradient in zip(self.parameters, self._pieces, gradients, strict=True)
        }

    @torch.no_grad()
    def read(self) -> None:
        torch._foreach_copy_(self._pieces, list(self.parameters))

    @torch.no_grad()
    def write(self) -> None:
        torch._foreach_copy_(list(self.parameters), self._pieces)
