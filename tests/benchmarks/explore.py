"""What Go-Explore finds where rewards are sparse, and in how many steps.

    python tests/benchmarks/explore.py --page docs/benchmarks.md
    python tests/benchmarks/explore.py --only memory --minutes 30 --frames 100000000

Montezuma's Revenge: rooms, the first key and the first 2,500 points against frames, for archives
and particles, whose cells are small screens or what the game's memory says. KeyCorridor of
MiniGrid: an archive, PPO at equal steps, and PPO by the curriculum backwards from the trajectory
that the archive found. An exploration is saved every minute and goes on where it stopped; what is
finished is kept in the folder and not run again.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from table.sections import write_section

from plangym_ext import StateSet, make, make_vec
from plangym_ext.explore import GoExplore, cells_named, demonstration, verify
from plangym_ext.run.files import write_json

_FRAMES_A_STEP = 4
_ROOMS_A_LEVEL = 24
_SAVE_EVERY = 60.0  # seconds


class Game(NamedTuple):
    """An exploration of Montezuma's Revenge."""

    name: str
    cell: str
    kind: str
    obs_type: str


_MEMORY = "info:room,level,keys,x/8,y/16"
GAMES = (
    Game("memory, archive", _MEMORY, "archive", "ram"),
    Game("memory, particles", _MEMORY, "particles", "ram"),
    Game("screens, archive", "frames", "archive", "grayscale"),
    Game("screens, particles", "frames", "particles", "grayscale"),
)
_MARKS = (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)
MAZE = "MiniGrid-KeyCorridorS3R3-v0"
_LIMIT = 120  # steps of an episode in the maze


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="parts by name")
    parser.add_argument("--frames", type=int, default=2_000_000, help="of each Montezuma")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="of each Montezuma, at most"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--levels", nargs="+", type=int, default=[0, 1, 2], help="of the maze")
    parser.add_argument("--steps", type=int, default=150_000, help="of each run in the maze")
    parser.add_argument("--rows", type=int, default=128, help="explored side by side")
    parser.add_argument("--n-workers", type=int, default=2, metavar="W")
    parser.add_argument("--out", type=Path, default=Path("runs/explore"), help="folder of results")
    parser.add_argument("--finished", action="store_true", help="run nothing, show what was run")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


# Montezuma's Revenge ---------------------------------------------------------------------


class Watched:
    """A cell function that notes which rooms and how many keys the infos tell of.

    Args:
        cell: the function.
        rooms: that were seen before.
        keys: the most that were carried before.
    """

    def __init__(self, cell: Any, rooms: list[int], keys: int) -> None:
        self._cell, self.rooms, self.keys = cell, set(rooms), keys

    def __call__(self, obs: Any, infos: Any) -> Any:
        """Return the cells."""
        self.rooms |= set(np.unique(_ROOMS_A_LEVEL * infos["level"] + infos["room"]).tolist())
        self.keys = max(self.keys, int(infos["keys"].max()))
        return self._cell(obs, infos)


def explored(options: argparse.Namespace, game: Game, seed: int, stem: Path) -> dict[str, Any]:
    """Explore the game until so many frames; the curve is in `stem`.json, the rest in .npz."""
    file, saved = stem.with_suffix(".json"), stem.with_suffix(".npz")
    begun = file.exists() and saved.exists()
    found: dict[str, Any] = {"curve": [], "rooms": [], "keys": 0, "verified": False}
    if begun:
        found = json.loads(file.read_text())
    env = make(
        "ALE/MontezumaRevenge-v5",
        n_workers=options.n_workers,
        obs_type=game.obs_type,
        repeat_action_probability=0.0,
        episodic_life=True,
    )
    with env:
        cell = Watched(cells_named(game.cell), found["rooms"], found["keys"])
        if begun:
            explorer = GoExplore.load(saved, env, cell=cell)
        else:
            explorer = GoExplore(env, cell, kind=game.kind, rows=options.rows, seed=seed)
        keeper = _Keeper(explorer, game, found, saved, file, 60 * options.minutes)
        if not keeper.time_is_up:
            explorer.run(-(-options.frames // _FRAMES_A_STEP), callback=keeper)
        verify(explorer, explorer.archive.best)
        found["verified"] = True
        keeper.save()
    return found


class _Keeper:
    """Notes after each round what was found, saves now and then, and ends when the time is up."""

    def __init__(
        self,
        explorer: GoExplore,
        game: Game,
        found: dict[str, Any],
        saved: Path,
        file: Path,
        seconds: float,
    ) -> None:
        self._explorer, self._game, self._found = explorer, game, found
        self._saved, self._file, self._seconds = saved, file, seconds
        # The curve may be of later rounds than what was saved: both are written apart.
        curve = [one for one in found["curve"] if one["steps"] <= explorer.steps_taken]
        found["curve"] = curve
        self._before = curve[-1]["seconds"] if curve else 0.0
        self._next = time.monotonic() + _SAVE_EVERY

    def __call__(self, progress: Any) -> bool:
        """Note a round; return whether the time is up."""
        cell: Any = self._explorer.cell
        row = {
            "steps": progress.steps,
            "seconds": round(self._before + progress.seconds, 1),
            "cells": progress.cells,
            "score": progress.score,
            "length": progress.length,
            "rooms": len(cell.rooms),
            "keys": cell.keys,
        }
        self._found["curve"].append(row)
        if time.monotonic() > self._next:
            self.save()
            print(
                f"{self._game.name}: {_FRAMES_A_STEP * progress.steps:,} frames, {row}", flush=True
            )
        return self.time_is_up

    @property
    def time_is_up(self) -> bool:
        """Whether all rounds together took as long as they may."""
        curve = self._found["curve"]
        return bool(curve) and curve[-1]["seconds"] >= self._seconds

    def save(self) -> None:
        """Write the exploration, and what was found."""
        self._next = time.monotonic() + _SAVE_EVERY
        cell: Any = self._explorer.cell
        self._explorer.save(self._saved)
        self._found |= {"rooms": sorted(cell.rooms), "keys": cell.keys}
        write_json(self._file, self._found)


# A maze ----------------------------------------------------------------------------------


class OneLevel(gym.Wrapper[Any, Any, Any, Any]):
    """Begins every episode in the same level."""

    def __init__(self, env: gym.Env[Any, Any], level: int) -> None:
        super().__init__(env)
        self._level = level

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin the level; `seed` is not looked at."""
        del seed
        return self.env.reset(seed=self._level, options=options)


class Categories(gym.ObservationWrapper[Any, Any, Any]):
    """Shows of every field which kind of thing it holds, in which colour and state: 0 or 1 each.

    As numbers they would say that a key lies between a door and a ball.
    """

    _COUNTS = (11, 6, 4)

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        height, width, _ = env.observation_space.shape or ()
        size = height * width * sum(self._COUNTS)
        self.observation_space = gym.spaces.Box(0, 1, (size,), np.uint8)

    def observation(self, observation: Any) -> Any:
        """Return `[height * width * 21]` uint8."""
        parts = [
            np.eye(count, dtype=np.uint8)[observation[..., i]]
            for i, count in enumerate(self._COUNTS)
        ]
        return np.concatenate(parts, axis=-1).ravel()


def maze(level: int) -> gym.Env[Any, Any]:
    """Return a level of the maze, of which all is seen."""
    from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper

    env = ImgObsWrapper(FullyObsWrapper(OneLevel(gym.make(MAZE, max_steps=_LIMIT), level)))
    return Categories(env)


def solved(options: argparse.Namespace, level: int, stem: Path) -> dict[str, Any]:
    """Explore a level until its reward was found; PPO at as many steps; and backwards from it."""
    file = stem.with_suffix(".json")
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if "archive" not in found:
        found["archive"] = _explored_maze(options, level, stem)
        write_json(file, found)
    for kind in ("backward", "ppo"):
        if kind not in found:
            found[kind] = _trained(options, level, kind, stem)
            print(f"{MAZE}, level {level}, {kind}: {found[kind]}", flush=True)
            write_json(file, found)
    return found


def _explored_maze(options: argparse.Namespace, level: int, stem: Path) -> dict[str, Any]:
    began = time.monotonic()
    with make(functools.partial(maze, level), n_workers=options.n_workers) as env:
        explorer = GoExplore(env, "obs", rows=64, horizon=30, repeat=0.3)
        archive = explorer.run(options.steps, callback=lambda progress: progress.score > 0)
        best = archive.best
        verify(explorer, best)
        if archive.scores[best] > 0:
            demonstration(explorer, every=2).save(stem.with_suffix(".npz"), env)
        return {
            "steps": explorer.steps_taken,
            "cells": len(archive),
            "return": float(archive.scores[best]),
            "length": int(archive.steps[best]),
            "seconds": round(time.monotonic() - began, 1),
        }


def _trained(options: argparse.Namespace, level: int, kind: str, stem: Path) -> dict[str, Any]:
    """Train PPO, from resets or backwards from the trajectory; returns of episodes after it."""
    import torch

    from plangym_ext import learn

    torch.set_num_threads(1)
    began = time.monotonic()
    make_env = functools.partial(maze, level)
    starts = None
    if kind == "backward":
        if not stem.with_suffix(".npz").exists():
            return {"steps": 0, "rewarded": 0, "place": -1, "return": 0.0}
        with make(make_env, n_workers=0) as env:
            states = StateSet.load(stem.with_suffix(".npz"), env)
        # Half of the episodes have to succeed, and most places remain when one is left: where
        # nothing is earned for long, the policy forgets what it knew.
        starts = learn.BackwardStarts(
            states, share=0.9, window=8, step=1, success=0.5, episodes=20, slack=0.2
        )
    venv = make_vec(make_env, 16, n_workers=options.n_workers, autoreset_mode="same_step")
    spaces = venv.single_observation_space, venv.single_action_space
    shape = learn.AgentConfig(activation="tanh", init="orthogonal")
    network = learn.make_agent_network(*spaces, shape, seed=0)
    config = learn.PPOConfig(
        learning_rate=5e-4, epochs=8, batch_size=256, entropy_weight=0.01, discount=0.99
    )
    agent, algorithm = learn.ActorCriticAgent(network), learn.PPO(network, config, seed=0)
    steps, rewarded = 0, 0
    with learn.SerialSampler(venv, agent, 64, seed=0, starts=starts) as sampler:
        while steps < options.steps:
            collected = sampler.collect(version=algorithm.updates)
            steps += collected.cost.model_steps
            rewarded += int((np.asarray(collected.episodes["return"]) > 0).sum())
            algorithm.take(collected)
            algorithm.train()
        place = -1 if sampler.starts is None else sampler.starts.place
    judge = make_vec(make_env, 10, n_workers=0, autoreset_mode="same_step")
    # Nothing is left to chance here: the best action alone may go back and forth for ever.
    drawn = learn.ActorCriticAgent(network, sample_in_eval=True)
    with learn.EvaluationSampler(judge, drawn, 10, seed=1_000_000, max_steps=_LIMIT) as evaluation:
        returns = evaluation.evaluate().episodes["return"]
    return {
        "steps": steps,
        "rewarded": rewarded,
        "place": place,
        "return": float(np.mean(returns)),
        "seconds": round(time.monotonic() - began, 1),
    }


# The table -------------------------------------------------------------------------------


def _first(curve: list[dict[str, Any]], reached: Callable[[dict[str, Any]], bool]) -> str:
    """Return the frames after which something was reached; they are looked at once a round."""
    steps = next((one["steps"] for one in curve if reached(one)), None)
    return "-" if steps is None else f"{_FRAMES_A_STEP * steps:,}"


def _rooms(curve: list[dict[str, Any]], frames: int) -> str:
    """Return how many rooms were known after so many frames; "" if it did not get there."""
    if _FRAMES_A_STEP * curve[-1]["steps"] < frames:
        return ""
    return str(max(o["rooms"] for o in curve if _FRAMES_A_STEP * o["steps"] <= frames))


def games_part(found: list[tuple[Game, int, dict[str, Any]]]) -> list[str]:
    """Return the table of Montezuma's Revenge."""
    lines = [
        "Montezuma's Revenge (four frames a step, no sticky actions, episodes end with a life).",
        "Frames are all that were emulated, and are looked at once a round of rows times 100",
        "steps; rooms are those that any row came through; the best trajectory was played again",
        "from the reset, bit for bit, by single steps. Frames a second are those of a machine of",
        "two cores on which other programs ran; minutes are of the wall clock.",
        f"Cells of the memory are `{_MEMORY}`, of screens 11 by 8 pixels of 8 levels.",
        "",
        "| cells, kind | seed | first key | 2,500 points | rooms at "
        + " | ".join(f"{mark / 1e6:g} M" for mark in _MARKS)
        + " | rooms | frames | minutes | best | cells | frames/s |",
        "|---|---:|---:|---:|" + "---:|" * len(_MARKS) + "---:|---:|---:|---:|---:|---:|",
    ]
    for game, seed, one in found:
        curve, last = one["curve"], one["curve"][-1]
        frames = _FRAMES_A_STEP * last["steps"]
        rooms = " | ".join(_rooms(curve, mark) for mark in _MARKS)
        lines.append(
            f"| {game.name} | {seed} | {_first(curve, lambda o: o['keys'] > 0)} | "
            f"{_first(curve, lambda o: o['score'] >= 2500)} | {rooms} | {last['rooms']} | "
            f"{frames:,} | {last['seconds'] / 60:.1f} | {last['score']:,.0f} | "
            f"{last['cells']:,} | {frames / last['seconds']:,.0f} |"
        )
    return lines


def _judged(one: dict[str, Any]) -> list[str]:
    """Return the cells of a run of PPO."""
    return [f"{one['steps']:,}", str(one["rewarded"]), f"{one['return']:.2f}"]


def maze_part(found: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Return the table of the maze."""
    lines = [
        "",
        f"`{MAZE}`, {_LIMIT} steps an episode, one level a line. The archive",
        "stops at the first reward; PPO has the steps that are told, and is judged by 10 episodes",
        "that begin by a reset, with actions drawn as while it learned.",
        "Backwards: nine of ten episodes begin on the trajectory that the archive found. The state",
        "that they have come back to is told as its place among those of the trajectory.",
        "",
        "| level | archive: steps | return | PPO: steps | episodes with a reward | return | "
        "backwards: place | steps | episodes with a reward | return |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for level, one in found:
        archive, ppo, back = one["archive"], one.get("ppo"), one.get("backward")
        cells = [f"{archive['steps']:,}", f"{archive['return']:.2f}"]
        cells += _judged(ppo) if ppo else [""] * 3
        cells += [f"{back['place']} of {archive['length'] // 2}"] if back else [""]
        cells += _judged(back) if back else [""] * 3
        lines.append(f"| {level} | {' | '.join(cells)} |")
    return lines


def _wanted(options: argparse.Namespace, name: str, stem: Path) -> bool:
    """Return whether a part was asked for and, with --finished, is there."""
    there = not options.finished or stem.with_suffix(".json").exists()
    return there and any(text in name for text in options.only)


def _known(stem: Path) -> dict[str, Any]:
    """Return what a part has written."""
    found: dict[str, Any] = json.loads(stem.with_suffix(".json").read_text())
    return found


def main() -> None:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    games, levels = [], []
    for number, game in enumerate(GAMES):
        for seed in options.seeds:
            stem = options.out / f"montezuma-{number}-{seed}"
            if _wanted(options, f"Montezuma, {game.name}", stem):
                found = _known(stem) if options.finished else explored(options, game, seed, stem)
                games.append((game, seed, found))
    for level in options.levels:
        stem = options.out / f"maze-{level}"
        if _wanted(options, MAZE, stem):
            levels.append(
                (level, _known(stem) if options.finished else solved(options, level, stem))
            )
    lines = ["## Exploring where rewards are sparse", "", "`tests/benchmarks/explore.py`."]
    lines += [*games_part(games)] if games else []
    lines += [*maze_part(levels)] if levels else []
    print("\n".join(lines))
    if options.page:
        write_section(options.page, "explore", "\n".join(lines))


if __name__ == "__main__":
    main()
