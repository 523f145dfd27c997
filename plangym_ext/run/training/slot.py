"""One slot of a collector: the episodes that are played in it, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.learn.records import EpisodeRecord, EpisodeRecorder
from plangym_ext.planners.games import Game
from plangym_ext.planners.plans import Budget, Plan

#: What `Slot.state_dict` returns: nested dicts of arrays and plain values.
SlotState = dict[str, Any]

#: What the record of a game in progress is saved as, if there is any of it.
_PARTS = ("actions", "rewards", "root_values", "observations", "policies", "visits", "q", "legal")


class Finished(NamedTuple):
    """An episode that has ended, and when."""

    move: int  # of the round, in which it ended
    slot: int  # where it was played
    record: EpisodeRecord  # what was played


def episode_seed(run_seed: int, slot: int, episode: int) -> int:
    """Return the seed of the n-th episode of a slot, in whichever process it is played."""
    # By slot and number: no process draws for another, so any number of them plays the same
    # episodes.
    sequence = np.random.SeedSequence(run_seed, spawn_key=(slot, episode))
    return int(sequence.generate_state(1, np.uint32)[0])


class Slot:
    """A slot of a run, and the episode that is being played in it.

    What is played depends on the run's seed, the slot, and the network: not on
    the other slots, or on the process that plays it.

    Args:
        number: of the slot, among all of the run.
        run_seed: of the run.
    """

    def __init__(self, number: int, run_seed: int) -> None:
        self.number, self.run_seed = number, run_seed
        self.episode = -1

    def begin(self, env: Any) -> None:
        """Begin the next episode, by resetting the env."""
        self.episode += 1
        self.game = Game(env, episode_seed(self.run_seed, self.number, self.episode))
        self.recorder = EpisodeRecorder(self.game.seed, self.game.obs, self.game.legal)

    def state_dict(self, first: int = 0) -> SlotState:
        """Return all there is to save: nested dicts of arrays and plain values.

        Args:
            first: the first step of the episode to include; see `later_state`.
        """
        game = self.game
        found: SlotState = {
            "slot": self.number,
            "episode": self.episode,
            # Copies: the game goes on, and its arrays with it.
            "state": np.array(game.state),
            "obs": np.array(game.obs),
            "legal": None if game.legal is None else np.array(game.legal),
            "rng": rng_state(game.rng),
            "seed": self.recorder.seed,
            "record": None,
        }
        if len(self.recorder) > first:
            record = self.recorder.since(first).record()
            found["record"] = {name: getattr(record, name) for name in _PARTS}
        return found

    def change(self, episode: int, steps: int) -> SlotState:
        """Return `state_dict` without the first steps of the record, if it is of this episode."""
        # Of another episode than the one that is known nothing can be left out.
        first = steps if episode == self.episode else 0
        return {**self.state_dict(first), "first": first}

    def load_state_dict(self, state: SlotState) -> None:
        """Go on with an episode that was saved."""
        self.episode = state["episode"]
        obs = state["obs"][()]  # a scalar observation is not an array of no dimensions
        self.game = Game.resumed(
            state["seed"], rng_from(state["rng"]), state["state"], obs, state["legal"]
        )
        self.recorder = _recorder(state)


def steps_of(state: SlotState) -> int:
    """Return how many steps of its episode a saved slot knows, those left out included."""
    record = state["record"]
    return int(state.get("first", 0)) + (0 if record is None else len(record["actions"]))


def later_state(before: SlotState | None, change: SlotState) -> SlotState:
    """Return the `Slot.state_dict` that a `Slot.change` was made of.

    Args:
        before: the one before, with the steps that were left out; None if there were none.
        change: what has come since; its arrays may be used.
    """
    found = {name: value for name, value in change.items() if name != "first"}
    if change["first"]:
        assert before is not None
        old, new = before["record"], change["record"]
        both = new is not None
        found["record"] = {n: _joined(n, old[n], new[n]) for n in old} if both else old
    return found


def _joined(name: str, old: Any, new: Any) -> Any:
    """Return a field of a record of all steps; None if it is not known of some."""
    if old is None or new is None:
        return None
    # The last observation of the one is the first of the other.
    return np.concatenate([old[:-1] if name == "observations" else old, new])


def _recorder(state: SlotState) -> EpisodeRecorder:
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
            # An episode in progress has ended in no step; the next one sets both.
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
