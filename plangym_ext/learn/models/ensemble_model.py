"""EnsembleModel: the backend whose states are observations by member of an ensemble."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.core.infos import InfoColumn
from plangym_ext.learn.models.counted_noise import mixed, normals
from plangym_ext.learn.models.ensemble_network import EnsembleNetwork
from plangym_ext.learn.models.model_env import Advanced, Contents, ModelEnv
from plangym_ext.learn.torch_extra import check_device, torch


@final
class EnsembleModel(ModelEnv):
    """Steps rows of particles: observations, each with the member that it stays with.

    A state has `particles` of each of the M members. All take the same action. The reward is the
    mean of theirs, and the observation that of those that go on; a particle that has ended earns
    nothing more, and the state has ended when all have. `infos["disagreement"]` is the mean over
    an observation's numbers of the deviation between particles, in units of the observation's
    own; `disagreement` of the config times it is added to the reward.

    What is drawn follows from a key in the state: equal states have equal futures, and `reseeded`
    draws another key.

    Source: particles of Chua et al. 2018, "Deep reinforcement learning in a handful of trials
    using probabilistic dynamics models" (TS-infinity).

    Args:
        network: shared, not copied: what a learner changes is stepped at once.
        device: where it runs; it is moved there.
        starts: `[N, *obs]` observations of the real env to reset to; None: it cannot be reset.
    """

    def __init__(
        self, network: EnsembleNetwork, *, device: str = "cpu", starts: Any = None
    ) -> None:
        check_device(device, "EnsembleModel")
        self.network = network.to(device).eval()
        self._device = torch.device(device)
        config = network.config
        self._shape = config.members, config.particles, network.width
        self._particle = np.dtype([("obs", "<f4", network.width), ("over", "<f4")])
        particles = (self._particle, (config.members, config.particles))
        self._form = np.dtype([("key", "<u8"), ("of", *particles)])
        box = spaces.Box(-np.inf, np.inf, (network.width,), np.float32)
        identity = {"particles": list(self._shape), "actions": str(network.action_space)}
        column = InfoColumn("disagreement", float, "<f8")
        shown = box, network.action_space
        payload = self._form.itemsize
        super().__init__("EnsembleModel", shown, payload, identity, (column,), starts)

    def _begun(self, obs: Any) -> Contents:
        rows = np.asarray(obs, np.float32)
        found = np.zeros(len(rows), self._form)
        found["of"]["obs"] = rows[:, None, None]
        return found.view(np.uint8).reshape(len(rows), -1)

    def _advanced(self, contents: Contents, actions: tuple[npt.NDArray[Any], ...]) -> Advanced:
        rows = contents.copy().view(self._form)[:, 0]
        members, each, width = self._shape
        count = len(rows)
        obs, over = rows["of"]["obs"], rows["of"]["over"]
        # By member: [M, N * particles, ...].
        shown = obs.transpose(1, 0, 2, 3).reshape(members, count * each, width)
        with torch.inference_mode():
            network = self.network
            played = network.actions(self._tensor(actions[0])).repeat_interleave(each, 0)
            found = network.members(self._tensor(shown), played.expand(members, *played.shape))
            step = found.mean
            if network.config.sample:
                noise = self._tensor(self._noise(rows["key"], count))
                step = step + noise * (0.5 * found.log_variance).exp()
            unit = network.unit.cpu().numpy()
            moved = self._by_row(step.cpu().numpy(), count)
            earned = self._by_row(network.rewards(step[..., -1]).cpu().numpy(), count)
            ended = np.zeros((count, members, each), np.bool_)
            if found.ending is not None:
                ended = self._by_row((found.ending > 0.0).cpu().numpy(), count)
        going = over == 0.0
        rewards = np.where(going, earned, 0.0).mean(axis=(1, 2), dtype=np.float64)
        obs[...] = np.where(going[..., None], obs + moved[..., :-1] * unit, obs)
        over[...] = ~going | ended
        rows["key"] = mixed(rows["key"] + np.uint64(1))
        spread = (obs / unit).std(axis=(1, 2), dtype=np.float64).mean(axis=-1)
        rewards = rewards + network.config.disagreement * spread
        whole = rows.view(np.uint8).reshape(count, -1)
        all_over: Any = (over > 0).all(axis=(1, 2))
        return Advanced(whole, rewards, all_over, {"disagreement": spread})

    def _noise(self, keys: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.float32]:
        """Return `[M, N * particles, O + 1]` normal numbers by the keys of N rows."""
        members, each, width = self._shape
        drawn = normals(keys, members * each * (width + 1))
        by_member = drawn.reshape(count, members, each, width + 1).transpose(1, 0, 2, 3)
        return by_member.reshape(members, count * each, width + 1)

    def _by_row(self, found: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Return `[N, M, particles, ...]` of `[M, N * particles, ...]`."""
        members, each, _ = self._shape
        return found.reshape(members, count, each, *found.shape[2:]).swapaxes(0, 1)

    def _seen(self, contents: Contents) -> tuple[npt.NDArray[Any], ...]:
        rows = contents.view(self._form)[:, 0]["of"]
        going = (rows["over"] == 0.0)[..., None]
        # Where all have ended, it is the mean of all.
        going = going | ~going.any(axis=(1, 2), keepdims=True)
        total = np.where(going, rows["obs"], 0.0).sum(axis=(1, 2), dtype=np.float64)
        return ((total / going.sum(axis=(1, 2))).astype(np.float32),)

    def reseeded(self, states: Any, rng: np.random.Generator | None) -> npt.NDArray[np.uint8]:
        """Return states with new keys; see `PlanEnv.reseeded`."""
        contents = self._contents(self.checked_states(states, "reseeded"))
        keys = 0 if rng is None else rng.integers(2**63, size=len(contents), dtype=np.uint64)
        contents.view(self._form)["key"][:, 0] = keys
        return self._sealed(contents)

    def _tensor(self, rows: npt.NDArray[Any]) -> Any:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self._device)
