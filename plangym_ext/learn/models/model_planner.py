"""Learned models as backends, and ModelPlanner, which searches in them for a real env."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.options import Range
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.network_agent import ROWS
from plangym_ext.learn.evaluator import NetworkEvaluator
from plangym_ext.learn.models.ensemble_network import EnsembleNetwork
from plangym_ext.learn.models.latent_network import LatentNetwork, OfLatents
from plangym_ext.learn.models.mixed_model import MixedModel
from plangym_ext.learn.models.model_env import TESTED, Advanced, Contents, ModelEnv
from plangym_ext.learn.torch_extra import check_device, torch
from plangym_ext.planners.base import Planner
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.planners.request import PlanRequest

Words = npt.NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mixed(words: Words) -> Words:
    """Return `[...]` uint64 that look random, one for each number; fresh.

    Source: splitmix64 of Steele, Lea & Flood 2014.
    """
    with np.errstate(over="ignore"):
        z = words * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Words = z ^ (z >> np.uint64(31))
    return found


def normals(keys: Words, count: int) -> npt.NDArray[np.float32]:
    """Return `[N, count]` float32 standard normal numbers, a row for each of `[N]` keys; fresh."""
    pairs = -(-count // 2)
    with np.errstate(over="ignore"):
        seeds: Any = mixed(keys)[:, None] + np.arange(1, 2 * pairs + 1, dtype=np.uint64)
    # In (0, 1]: the logarithm of 0 is none. By Box and Muller.
    uniform: Any = ((mixed(seeds) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[:, :pairs]))
    angle = 2.0 * np.pi * uniform[:, pairs:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :count].astype(np.float32)


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

    exactness = TESTED

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

    exactness = TESTED

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


@dataclass(eq=False)
class ModelPlanner(Planner):
    """Plans for a real env by its observations: the model is stepped in its place.

    Plans are those of the planner; their model steps are the model's. The limits are the
    planner's own: those of this class mean nothing.

    With `correct` each real step is compared with what was expected of it: the model answers what
    came about from then on, and what a kept tree has below a wrong expectation is cut off.
    `Budget.dropped` counts those nodes. A right expectation is one of the same bytes, as a model
    of numbers hardly ever has. `MCTS` goes on with what remains; other planners drop the row's
    whole tree. All is forgotten at `reset`.

    Args:
        planner: that searches; one that asks an evaluator has one of the model's observations.
        model: that it searches in.
        true_steps: how many steps of a search are those of the real env, before the model's.
        correct: for envs without chance. Rewards are those of `take_rewards`, as `play` tells them.

    Raises:
        InvalidOption: `correct` with `true_steps`.

    Source: `EnvModel.correct` of Alpacka.
    """

    num_simulations: int | None = None
    _: KW_ONLY
    planner: Planner
    model: ModelEnv
    true_steps: Annotated[int, Range(0, 255)] = 0
    correct: bool = False

    def __post_init__(self) -> None:
        """Take over the planner's numbers, which others ask for."""
        super().__post_init__()
        self.num_simulations, self.discount = None, self.planner.discount
        self._mixed: MixedModel | None = None
        #: The states and actions of the last plans, and what these have paid.
        self._last: tuple[Any, list[Any], npt.NDArray[np.float64]] | None = None
        if self.correct and self.true_steps:
            raise InvalidOption(
                f"ModelPlanner: true_steps must be 0 with correct, as true steps are no "
                f"predictions; got {self.true_steps}."
            )

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Search from where the model begins at the observations."""
        self.planner.updates = self.updates
        states = self.model.states_of(request.needed_obs("a learned model"))
        seen = self.model.obs_of(states)
        model: Any = self.model
        dropped = self._corrected(states) if self.correct else [0] * len(states)
        begun = states
        if self.true_steps:
            if self._mixed is None or self._mixed.env is not request.env:
                self._mixed = MixedModel(request.env, self.model, self.true_steps)
            model, begun = self._mixed, self._mixed.states_of(request.states)
        plans = self.planner.plan_batch(
            model, begun, rngs=request.rngs, obs=seen, legal=request.legal
        )
        if not self.correct:
            return plans
        self._last = states, [plan.action for plan in plans], np.full(len(plans), np.nan)
        budgets = (plan.budget + Budget(dropped=n) for plan, n in zip(plans, dropped, strict=True))
        return list(map(_with_budget, plans, budgets))

    def _corrected(self, following: npt.NDArray[np.uint8]) -> list[int]:
        """Learn what the last actions have led to; return how many nodes that cost each row."""
        last, self._last = self._last, None
        if last is None or len(last[1]) != len(following):
            return [0] * len(following)
        states, actions, rewards = last
        on = [row for row, action in enumerate(actions) if action is not None]
        played = self.model.layout.action.stack([actions[row] for row in on])
        self.model.correct(states[on], played, following[on], rewards[on])
        dropped = [0] * len(following)
        for row in on:
            told = self.model, row, states[row], actions[row]
            dropped[row] = self.planner.cut_wrong(*told, (following[row], rewards[row]))
        return dropped

    def reset(self) -> None:
        """Drop everything kept between moves; see `Planner.reset`."""
        self._last = None
        self.model.forget_corrections()
        self.planner.reset()

    def keep_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep only these rows; see `Planner.keep_rows`."""
        if self._last is not None:
            states, actions, rewards = self._last
            self._last = states[rows], [actions[row] for row in rows], rewards[rows]
        self.planner.keep_rows(rows)

    def forget_rows(self, rows: npt.NDArray[np.intp]) -> None:
        """Drop the kept search of some rows; see `Planner.forget_rows`."""
        if self._last is not None:
            for row in rows.tolist():
                self._last[1][row] = None
        self.planner.forget_rows(rows)

    def take_rewards(self, rewards: npt.NDArray[np.float64]) -> None:
        """Pass rewards on; see `Planner.take_rewards`."""
        if self._last is not None:
            self._last = *self._last[:2], np.array(rewards, np.float64)
        self.planner.take_rewards(rewards)


def _with_budget(plan: Plan, budget: Budget) -> Plan:
    return dataclasses.replace(plan, budget=budget)


def model_planner(
    network: LatentNetwork | EnsembleNetwork,
    make: Callable[[Any], Planner],
    *,
    device: str = "cpu",
    **options: Any,
) -> ModelPlanner:
    """Return a planner that searches in a network, and shares its weights.

    Args:
        network: of the model.
        make: returns the planner that searches, given the evaluator of its leaves; None, where
            the network rates none.
        device: of the network.
        **options: of `ModelPlanner`.
    """
    if isinstance(network, EnsembleNetwork):
        model: ModelEnv = EnsembleModel(network, device=device)
        return ModelPlanner(planner=make(None), model=model, **options)
    evaluator = NetworkEvaluator(OfLatents(network), device=device)
    model = LatentModel(network, device=device)
    return ModelPlanner(planner=make(evaluator), model=model, **options)
