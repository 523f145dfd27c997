"""Export of a network's greedy policy for other programs, as TorchScript or ONNX."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, final

import numpy as np
from gymnasium import spaces

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.errors import InvalidOption, MissingExtra, installing
from plangym_ext.learn.networks.quick_forward import of_observations, shown
from plangym_ext.learn.torch_extra import nn, torch

FORMATS = ("onnx", "torchscript")


@final
class GreedyPolicy(nn.Module):
    """Actions `[B, *act]` of observations `[B, *obs]`, as the agent plays them in evaluations.

    Args:
        network: looks at observations alone, and has a policy or a Q head. It learns no more.
        observation_space: a `Box` or `Discrete`.
        action_space: the same.

    Raises:
        InvalidOption: the network carries something, or a space is of another kind.
    """

    def __init__(
        self,
        network: nn.Module,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
    ) -> None:
        super().__init__()
        of_observations(network)  # which refuses others
        for what, space in (("observations", observation_space), ("actions", action_space)):
            if not isinstance(space, spaces.Box | spaces.Discrete):
                raise InvalidOption(f"export: {what} must be of a Box or Discrete; got {space}.")
        self.network = network.requires_grad_(False)
        self.eval()
        self._looks_at_inputs = hasattr(network, "inputs_used")
        self._distribution: Any = network.distribution
        self._start = int(getattr(action_space, "start", 0))
        self._dtype = torch.from_numpy(np.zeros(0, action_space.dtype)).dtype
        if isinstance(action_space, spaces.Box):
            self.register_buffer("low", torch.from_numpy(action_space.low.copy()))
            self.register_buffer("high", torch.from_numpy(action_space.high.copy()))

    def forward(self, obs: Any) -> Any:
        """Choose the actions."""
        out: Any = self.network(shown(obs), None)[0] if self._looks_at_inputs else self.network(obs)
        params = out.q if out.policy_logits is None else out.policy_logits
        if self._distribution.num_actions is not None:
            return params.argmax(dim=1) + self._start
        actions = self._distribution.rsample(params, _NoNoise(params))
        return actions.to(self._dtype).clamp(self.low, self.high)


class _NoNoise:
    """Zeros in place of normal noise: what is drawn is then the mean."""

    def __init__(self, params: Any) -> None:
        self._params = params

    def normal(self, k: int = 1) -> Any:
        return torch.zeros_like(self._params[:, :k])


def export_policy(policy: GreedyPolicy, example: Any, path: Path, kind: str) -> None:
    """Write a policy that takes batches of any size.

    Args:
        policy: the module.
        example: `[2, *obs]`, observations.
        path: of the file.
        kind: "onnx", with the input "obs" and the output "action", or "torchscript".

    Raises:
        MissingExtra: the `export` extra is not installed, which ONNX needs.
    """
    obs = torch.from_numpy(np.asarray(example))
    with torch.no_grad(), replacing(path, "wb") as file, warnings.catch_warnings():
        # torch 2.9 and later say that TorchScript is deprecated; it is what was asked for.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, in its exporter
        policy(obs)  # it makes constants when it is called first, which are not to be recorded
        if kind == "torchscript":
            trace: Any = torch.jit.trace  # which has no types
            torch.jit.save(trace(policy, obs), file)
            return
        try:
            program: Any = torch.onnx.export(
                policy,
                (obs,),
                input_names=["obs"],
                output_names=["action"],
                dynamic_shapes=({0: torch.export.Dim("rows")},),
                dynamo=True,
                verbose=False,
            )
        except ImportError as error:
            raise MissingExtra(
                f"ONNX needs onnx and onnxscript, of which {error.name} is not installed. "
                + installing("export")
            ) from error
        file.write(program.model_proto.SerializeToString())
