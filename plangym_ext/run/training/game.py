"""One place at the table: the games that are played there, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.records import EpisodeRecord, EpisodeRecorder
from plangym_ext.planners.plans import Budget, Plan

#: What the record of a game in progress is saved as, if there is any of it.
_PARTS = ("actions", "rewards", "root_values", "observations", "policies", "visits", "q", "legal")


def episode_seed(run_seed: int, slot: int, episode: int) -> int:
    """Return the seed of the n-th episode of a slot, whoever plays it."""
    sequence = np.random.SeedSequence(run_seed, spawn_key=(slot, episode))
    return int(sequence.generate_state(1, np.uint32)[0])


class Game:
    """A slot, and the episode that is being played in it.

    What is played depends on the run's seed, the slot, and the network: not on who else
    plays, or in which process.

    Args:
        slot: number of the slot, among all of the run.
        run_seed: of the run.
    """

    def __init__(self, slot: int, run_seed: int) -> None:
        self.slot, self.run_seed = slot, run_seed
        self.episode = -1

    def begin(self, env: Any) -> None:
        """Reset to the next episode."""
        self.episode += 1
        seed = episode_seed(self.run_seed, self.slot, self.episode)
        self.state, self.obs, info = env.reset(seed=seed)
        self.legal = info.get("action_mask")
        # A child of the seed, as `planners.play` has it.
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        self.recorder = EpisodeRecorder(seed, self.obs, self.legal)
        self.ended = False

    def take(
        self, plan: Plan, state: Any, obs: Any, reward: float, over: bool, cut: bool, legal: Any
    ) -> None:
        """Take in a step; arguments as `EpisodeRecorder.add` has them."""
        self.state, self.obs, self.legal = state, obs, legal
        self.ended = over or cut
        self.recorder.add(plan, obs, reward, terminated=over, truncated=cut, legal=legal)

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save: nested dicts of arrays and plain values."""
        found: dict[str, Any] = {
            "slot": self.slot,
            "episode": self.episode,
            "state": np.array(self.state),
            "obs": np.array(self.obs),
            "legal": None if self.legal is None else np.array(self.legal),
            "rng": rng_state(self.rng),
            "seed": self.recorder.seed,
            "record": None,
        }
        if len(self.recorder):
            record = self.recorder.record()
            found["record"] = {name: getattr(record, name) for name in _PARTS}
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with a game that was saved."""
        self.episode = state["episode"]
        self.state, self.obs, self.legal = state["state"], state["obs"], state["legal"]
        self.obs = self.obs[()]  # a scalar observation is not an array of no dimensions
        self.rng = rng_from(state["rng"])
        self.recorder = _recorder(state)
        self.ended = False


def _recorder(state: Mapping[str, Any]) -> EpisodeRecorder:
    """Play a saved record into a recorder again."""
    record = state["record"]
    if record is None:
        return EpisodeRecorder(state["seed"], state["obs"], state["legal"])
    observations, masks = record["observations"], record["legal"]
    recorder = EpisodeRecorder(state["seed"], observations[0], None if masks is None else masks[0])
    length = len(record["actions"])
    for t in range(length):
        last = t == length - 1
        following = state["legal"] if last else None if masks is None else masks[t + 1]
        recorder.add(
            Plan(
                action=record["actions"][t],
                value=float(record["root_values"][t]),
                budget=Budget(),
                visits=_row(record["visits"], t),
                q=_row(record["q"], t),
                weights=_row(record["policies"], t),
            ),
            observations[t + 1],
            float(record["rewards"][t]),
            terminated=False,
            truncated=False,
            legal=following,
        )
    return recorder


def _row(rows: Any, t: int) -> Any:
    return None if rows is None else rows[t]


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return a generator's state; numbers of 128 bits as text, which any file can hold."""
    state: Mapping[str, Any] = rng.bit_generator.state
    return {**state, "state": {name: str(value) for name, value in state["state"].items()}}


def rng_from(state: Mapping[str, Any]) -> np.random.Generator:
    """Return the generator that `rng_state` described."""
    rng = np.random.default_rng()
    numbers = {name: int(value) for name, value in state["state"].items()}
    rng.bit_generator.state = {**state, "state": numbers}
    return rng


class Finished:
    """An episode that has ended, and when.

    Attributes:
        move: of the round, in which it ended.
        slot: where it was played.
        record: what was played.
    """

    __slots__ = ("move", "record", "slot")

    def __init__(self, move: int, slot: int, record: EpisodeRecord) -> None:
        self.move, self.slot, self.record = move, slot, record


def stacked_masks(games: list[Game]) -> npt.NDArray[np.bool_] | None:
    """Return `[B, A]` what the games allow, None if none of them says so."""
    known = [game.legal for game in games if game.legal is not None]
    if not known:
        return None
    everything = np.ones(len(known[0]))
    rows = [everything if game.legal is None else game.legal for game in games]
    return np.array(rows).astype(np.bool_)
