"""LatentModel: the backend whose states are latents of a `LatentNetwork`."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.learn.agents.network_agent import ROWS
from plangym_ext.learn.models.latent_network import LatentNetwork
from plangym_ext.learn.models.model_env import Advanced, Contents, ModelEnv
from plangym_ext.learn.torch_extra import check_device, torch


@final
class LatentModel(ModelEnv):
    """Steps rows of latents; every planner of discrete actions searches in it.

    A state is a latent, D float32. It is its own observation: an evaluator such as
    `NetworkEvaluator(OfLatents(network))` rates it. Rows are stepped in calls that are filled up,
    so that a row does not depend on the others.

    Args:
        network: shared, not copied: what a learner changes is stepped at once.
        device: where it runs; it is moved there.
        starts: `[N, *obs]` observations of the real env to reset to; None: it cannot be reset.
    """

    def __init__(self, network: LatentNetwork, *, device: str = "cpu", starts: Any = None) -> None:
        check_device(device, "LatentModel")
        self.network = network.to(device).eval()
        self._device = torch.device(device)
        width = network.config.latent
        box = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        identity = {"latent": width, "actions": network.distribution.width}
        shown = box, network.action_space
        super().__init__("LatentModel", shown, 4 * width, identity, starts=starts)

    def _begun(self, obs: Any) -> Contents:
        with torch.inference_mode():
            rows = np.asarray(obs)
            return _bytes(self.network.represent(self._tensor(rows))[: len(rows)])

    def _advanced(self, contents: Contents, actions: tuple[npt.NDArray[Any], ...]) -> Advanced:
        count, network = len(contents), self.network
        with torch.inference_mode():
            index = self._tensor(actions[0].astype(np.int64) - network.distribution.start)
            found = network.step(self._tensor(contents.view(np.float32)), index)
            rewards = network.rewards.decode(found.reward)[:count].cpu().numpy()
            over = np.zeros(count, np.bool_)
            if found.ending is not None:
                over = (found.ending[:count] > 0.0).cpu().numpy()
            return Advanced(_bytes(found.latent[:count]), rewards.astype(np.float64), over)

    def _seen(self, contents: Contents) -> tuple[npt.NDArray[Any], ...]:
        # Another array than the states' own: a caller may write to either.
        return (contents.view(np.float32).copy(),)

    def _tensor(self, rows: npt.NDArray[Any]) -> Any:
        """Return a tensor of the rows, filled up with zeros to a multiple of `ROWS`."""
        more = -len(rows) % ROWS
        whole = np.zeros((len(rows) + more, *rows.shape[1:]), rows.dtype)
        whole[: len(rows)] = rows
        return torch.from_numpy(whole).to(self._device)


def _bytes(latent: Any) -> Contents:
    rows: npt.NDArray[np.float32] = latent.cpu().numpy()
    return np.ascontiguousarray(rows).view(np.uint8)
