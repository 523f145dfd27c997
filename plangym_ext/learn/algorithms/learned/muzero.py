"""MuZero: training of a latent model on episodes that were played by searches in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.learn.algorithms.plan_config import MuZeroConfig
from plangym_ext.learn.algorithms.plan_learning import ModelLearning, Part
from plangym_ext.learn.models.latent import LatentNetwork
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.replay.base import Batch, Samples
from plangym_ext.learn.replay.uniform import RowReplay
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.targets import POLICY_TARGETS, root_value, value_after_last
from plangym_ext.learn.torch_extra import functional, torch
from plangym_ext.planners.base import Planner
from plangym_ext.planners.players import check_turns

# Training targets of windows of replayed steps ---------------------------------

#: Arrays of a row that windows are made of, beside the actions, policies and observations.
SCALARS = ("reward", "value", "left", "final", "terminated")


def rows_of_episode(record: EpisodeRecord, discount: float) -> dict[str, npt.NDArray[Any]]:
    """Return a row for each of the T steps of an episode, in their order.

    `obs` `[T, *obs]`, `action` `[T]`; float32 `policy` `[T, A]`, `reward`, `value` (of the search)
    and `final` (what followed the episode; 0 after a termination) `[T]`; bool `legal` `[T, A]` and
    `terminated` `[T]`; int32 `left` `[T]`, steps to the end, this one among them.
    """
    length = record.length
    policy = POLICY_TARGETS["weights"](record).astype(np.float32)
    legal = np.ones(policy.shape, np.bool_) if record.legal is None else record.legal
    return {
        "obs": record.observations[:-1],
        "action": np.asarray(record.actions, np.int64),
        "policy": policy,
        "legal": legal,
        "reward": record.rewards.astype(np.float32),
        "value": root_value(record, discount, 1).astype(np.float32),
        "left": np.arange(length, 0, -1, dtype=np.int32),
        "final": np.full(length, value_after_last(record, discount), np.float32),
        "terminated": np.full(length, record.terminated),
    }


def rewards(rows: Mapping[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.float32]:
    """Return the rewards of the first steps of windows, `[B, count]` float32, 0 after an end."""
    inside = np.arange(count) < rows["left"][:, :1]
    # Rows after the end belong to another episode.
    return np.where(inside, rows["reward"][:, :count], np.float32(0))


def value_targets(
    rows: Mapping[str, npt.NDArray[Any]], unroll: int, n_steps: int, discount: float
) -> npt.NDArray[np.float32]:
    """Return the value targets of the states of windows, `[B, K + 1]` float32, fresh.

    They are sums of n rewards and of the search's value after them. An episode that ends before
    is followed by `final`, and each state after its end is worth 0.

    Args:
        rows: `[B, K + n + 1]` of `SCALARS`, consecutive rows of a replay.
        unroll: K.
        n_steps: n.
        discount: gamma; -gamma of two players in turns, whose gains are each other's losses.
    """
    place = np.arange(unroll + n_steps + 1)
    left, final = rows["left"][:, :1], rows["final"][:, :1].astype(np.float64)
    reward = rewards(rows, unroll + n_steps)
    value = np.where(place < left, rows["value"], np.where(place == left, final, 0.0))
    powers = discount ** np.arange(n_steps)
    found = np.empty((len(left), unroll + 1))
    for k in range(unroll + 1):
        found[:, k] = (
            reward[:, k : k + n_steps] @ powers + discount**n_steps * value[:, k + n_steps]
        )
        # An end within the window: the value after the window is 0, and that of the end counts.
        ahead = left[:, 0] - k
        within = (ahead > 0) & (ahead < n_steps)
        found[:, k] += np.where(within, discount ** np.maximum(ahead, 0), 0.0) * final[:, 0]
        found[:, k] = np.where(ahead == 0, final[:, 0], np.where(ahead < 0, 0.0, found[:, k]))
    return found.astype(np.float32)


def masks(
    rows: Mapping[str, npt.NDArray[Any]], unroll: int, *, endings: bool
) -> dict[str, npt.NDArray[Any]]:
    """Return which targets of the states of windows count.

    Args:
        rows: `[B, N]` of `SCALARS`, N at least 1.
        unroll: K.
        endings: whether the model predicts endings. If not, what follows a termination is
            learned as well: a state that is worth nothing, and goes on for ever.

    Returns:
        Float32 0 or 1, of fresh memory: `policy_mask` and `value_mask` `[B, K + 1]`,
        `reward_mask`, `ending_mask` and `ending` `[B, K]`, of the steps that lead to states 1 to K.
    """
    left, terminated = rows["left"][:, :1], rows["terminated"][:, :1]
    place = np.arange(unroll + 1)
    absorbing = terminated & ~np.bool_(endings)
    last = (place == left) & ~terminated
    reached = place[1:] <= left
    found = {
        "policy_mask": place < left,
        "value_mask": (place < left) | last | absorbing,
        "reward_mask": reached | absorbing,
        "ending_mask": reached,
        "ending": (place[1:] == left) & terminated,
    }
    return {name: rows.astype(np.float32) for name, rows in found.items()}


@final
class WindowReplay:
    """Draws steps of a replay, each with its K next actions and their targets.

    Args:
        steps: of rows as `rows_of_episode` makes them, whole episodes one after the other.
        unroll: K.
        n_steps: of the values' targets.
        discount: gamma.
        first_action: the action that has number 0.
        endings: see `masks`.
    """

    def __init__(
        self,
        steps: RowReplay,
        *,
        unroll: int,
        n_steps: int,
        discount: float,
        first_action: int,
        endings: bool,
    ) -> None:
        self.steps = steps
        self._unroll, self._n_steps, self.discount = unroll, n_steps, discount
        self._first_action, self._endings = first_action, endings

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, samples: Samples) -> None:
        """Copy the rows of a whole episode in."""
        self.steps.add(samples)

    def sample(self, batch_size: int) -> Batch:
        """Draw windows, `[B, ...]`.

        `obs`; `action` `[B, K]` numbers of actions; `policy` `[B, K + 1, A]`, `value` `[B, K + 1]`,
        `reward` `[B, K]`; and what `masks` returns. Fresh arrays.
        """
        batch, unroll = self.steps.sample(batch_size), self._unroll
        scalars = self._following(batch.indices, unroll + self._n_steps + 1, SCALARS)
        played = self._following(batch.indices, unroll + 1, ("action", "policy"))
        samples = {
            "obs": batch.samples["obs"],
            "action": played["action"][:, :-1] - self._first_action,
            "policy": played["policy"],
            "reward": rewards(scalars, unroll),
            "value": value_targets(scalars, unroll, self._n_steps, self.discount),
            **masks(scalars, unroll, endings=self._endings),
        }
        return batch._replace(samples=samples)

    def _following(
        self, indices: npt.NDArray[np.int64], count: int, names: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return `[B, count, ...]` of rows and those that were added after them."""
        # Modulo the number of rows: rows after the newest are masked, as it ends an episode.
        return self.steps.rows((indices[:, None] + np.arange(count)) % len(self), names)

    def update_priorities(self, indices: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Set the priorities of rows; see `Replay.update_priorities`."""
        self.steps.update_priorities(indices, priorities)

    def state_dict(self) -> dict[str, Any]:
        """Return the complete content; see `Replay.state_dict`."""
        return self.steps.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one; see `Replay.load_state_dict`."""
        self.steps.load_state_dict(state)


#: Stream of the random numbers of searches from stored states.
STREAM = 5
PARTS = ("policy", "value", "reward", "ending")


class MuZero(ModelLearning):
    """Unrolls a latent model along played actions, and trains its rewards, values and policies.

    For planning where no simulator can be stepped from states, or where its steps are dear.

    A row of the replay is a step. An update draws rows, and lets the model take the K actions
    that were played from there: targets of policies are the searches' policies, targets of values n
    rewards and the search's value after them. The gradient is halved where it enters a step of the
    model, and the losses of the K steps count 1 / K each.

    Different from the source: endings may be predicted; priorities are the losses of a row above
    their least; reanalysis replaces stored policies and values instead of searching in each batch.

    Source: Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning with a
    learned model"; Danihelka et al. 2022, "Policy improvement by planning with Gumbel";
    Schrittwieser et al. 2021, "Online and offline reinforcement learning by planning with a
    learned model".

    Args:
        network: a `LatentNetwork`, changed in place.

    Raises:
        WrongKind: the network is no `LatentNetwork`; or episodes are of another number of players
            than its config says, or of two that do not move in turns.
    """

    config_class: ClassVar[type[MuZeroConfig]] = MuZeroConfig
    config: MuZeroConfig

    network_class = LatentNetwork
    made_by = "Set agent.name = 'latent', or call make_latent_network."

    def __init__(self, network: LatentNetwork, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self._new_rows = 0  # since states were searched again
        self._planner: Planner | None = None

    def _made_replay(self, seed: int) -> WindowReplay:
        config, network = self.config, self.network
        return WindowReplay(
            super()._made_replay(seed),
            unroll=config.unroll,
            n_steps=config.n_steps,
            discount=self._discount(),
            first_action=network.distribution.start,
            endings=network.config.endings,
        )

    def _discount(self) -> float:
        """Return the factor of the next state's value; below 0 where the other player moves."""
        discount = at(self.config.discount, self.updates)
        return -discount if self.network.config.num_players == 2 else discount

    def search_with(self, planner: Planner) -> None:
        """Set the planner of `reanalyze`: one that searches in the network; see `ModelPlanner`."""
        self._planner = planner

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        sides, players = record.sides, self.network.config.num_players
        if (sides is None) == (players == 2):
            raise WrongKind(
                f"MuZero: episodes must be of {players} players, as num_players of the network's "
                f"config says; got {1 if sides is None else 2}. Set agent.num_players."
            )
        if sides is not None:
            # After an ending there is no move.
            moves = record.length - record.terminated
            check_turns("MuZero", sides[1 : moves + 1] != sides[:moves])
        self._new_rows += record.length
        return rows_of_episode(record, self._discount())

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Search again from stored states, and make the updates of a round.

        Returns:
            What `PlanLearning.train` does, and "train/reanalyzed", states that were searched
            again.

        Raises:
            LossNotFinite: a loss or gradient is NaN or infinite; that update was not made.
            InvalidOption: states are to be searched again, and no planner was given.
        """
        # By rounds, as the planner's is.
        self.replay.discount = self._discount()
        count = self._reanalyze()
        found = super().train(progress)
        return found | {"train/reanalyzed": count} if self.config.reanalyze else found

    # Searching again ------------------------------------------------------------

    def _reanalyze(self) -> int:
        """Search again from some of the stored states; return from how many."""
        size = len(self.replay)
        count = min(size, round(self.config.reanalyze * self._new_rows))
        self._new_rows = 0
        if not count:
            return 0
        if self._planner is None:
            raise InvalidOption(
                "MuZero: reanalyze needs a planner that searches in the network; there is none. "
                "Call search_with(model_planner(network, make))."
            )
        rng = np.random.default_rng(
            np.random.SeedSequence(self._seed, spawn_key=(STREAM, self.updates))
        )
        places = rng.choice(size, count, replace=False)
        rows = self.replay.steps.rows(places, ("obs", "legal"))
        self._planner.updates = self.updates
        self._planner.reset()
        plans = self._planner.plan_batch(
            None,  # type: ignore[arg-type] # the model alone is asked
            np.zeros((count, 1), np.uint8),
            rngs=rng.spawn(count),
            obs=rows["obs"],
            legal=rows["legal"],
        )
        weights: list[Any] = [plan.weights for plan in plans]
        policy = np.stack(weights).astype(np.float32)
        value = np.array([plan.value for plan in plans], np.float32)
        self.replay.steps.replace(places, {"policy": policy, "value": value})
        return count

    # Losses ---------------------------------------------------------------------

    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Part]:
        """Return the parts of the loss of rows `[B]` and the K steps after each."""
        network, unroll, config = self.network, self.config.unroll, self.config
        value = batch["value"] / network.value_scale
        losses: dict[str, list[Any]] = {
            name: [] for name in ("policy", "value", "reward", "ending")
        }
        least: dict[str, list[Any]] = {name: [] for name in losses}

        def add(name: str, k: int, loss: Any, floor: Any, mask: Any) -> None:
            scale = mask if k == 0 else mask / unroll
            losses[name].append(loss * scale)
            least[name].append(floor * scale)

        latent = network.represent(batch["obs"])
        for k in range(unroll + 1):
            if k > 0:
                step = network.step(halved(latent), batch["action"][:, k - 1])
                latent, reward = step.latent, batch["reward"][:, k - 1]
                of_reward = network.rewards.loss(step.reward, reward)
                floor = network.rewards.least_loss(reward)
                add("reward", k, of_reward, floor, batch["reward_mask"][:, k - 1])
                if step.ending is not None:
                    ended = functional.binary_cross_entropy_with_logits(
                        step.ending, batch["ending"][:, k - 1], reduction="none"
                    )
                    add("ending", k, ended, torch.zeros_like(ended), batch["ending_mask"][:, k - 1])
            rated = network.predict(latent)
            wanted = batch["policy"][:, k]
            of_policy = network.distribution.loss(rated.policy_logits, wanted)
            floor = network.distribution.least_loss(rated.policy_logits, wanted)
            add("policy", k, of_policy, floor, batch["policy_mask"][:, k])
            of_value = network.values.loss(rated.value, value[:, k])
            floor = network.values.least_loss(value[:, k])
            add("value", k, of_value, floor, batch["value_mask"][:, k])
        return {
            name: Part(
                at(getattr(config, f"{name}_weight"), self.updates),
                torch.stack(parts).sum(0),
                torch.stack(least[name]).sum(0),
            )
            for name, parts in losses.items()
            if parts
        }


def halved(latent: Any) -> Any:
    """Return the tensor with its gradient halved."""
    return 0.5 * latent + 0.5 * latent.detach()
