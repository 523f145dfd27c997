"""What capturing and restoring a state costs, family by family.

    python tests/benchmarks/states.py --out runs/states.json

Prints for each env how its state is captured, whether that is exact, the width of a
row, and microseconds to get, set and step; beside them the simulator's own copy, where
it has one, and plangym's, where it is installed:

    pip install plangym==0.1.32 "plangym-ext[box2d,highway,minigrid,mujoco]"

`row` and `deepcopy` are microseconds of processor time for the next state from a kept one: a row
of `step_batch`, 64 of them in a call in this process, and `copy.deepcopy(env).step(action)`, in
turn; a dash where a deep copy is a fresh env (EzPickle) or fails. Envs that the library has no
codec for are at the end, those of other packages where they are installed:

    pip install flappy-bird-gymnasium minatar tetris-gymnasium

`--page FILE` writes these two as a section in Markdown.

Operations take turns, each after a step that is not timed, since what was captured or
restored before may be known already. The fastest time counts: the machine's noise only
adds. `envelope` is what sealing a row and checking it add in a batch of 256.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import PlangymExtError
from plangym_ext.registry import find_spec, make_gym
from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.states.codec import layers
from plangym_ext.states.envelope import HEADER


class Numbers(gym.Env[Any, Any]):
    """Numbers, a grid, a list and `np_random`."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.grid, self.history = 0.0, np.zeros((8, 8), np.int64), []
        return np.float32([self.x, 0.0]), {}

    def drawn(self) -> float:
        return float(self.np_random.random())

    def step(self, action: Any) -> Any:
        self.x += self.drawn()
        self.grid[int(self.x) % 8, int(action)] += 1
        self.history = [*self.history[-20:], self.x]
        return np.float32([self.x, self.grid[0, 0]]), self.x, False, False, {}


class PythonsGenerator(Numbers):
    """The same, drawing from a `random.Random`."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        shown = super().reset(seed=seed)
        self.random = random.Random(int(self.np_random.integers(2**32)))
        return shown

    def drawn(self) -> float:
        return self.random.random()


class Crate:
    """Something on the floor of a warehouse."""

    def __init__(self, number: int) -> None:
        self.number, self.at, self.held_by = number, (number, 0), None


class Warehouse(gym.Env[Any, Any]):
    """Objects that know one another, rows of a board, positions, a dict."""

    observation_space = gym.spaces.Box(0, 99, (6, 6), np.int64)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.crates = [Crate(number) for number in range(8)]
        self.by_number = {crate.number: crate for crate in self.crates}
        self.board, self.at = [[0] * 6 for _ in range(6)], [0, 0]
        self.path = [(0, step) for step in range(9)]
        return np.array(self.board), {}

    def step(self, action: Any) -> Any:
        move = int(action)
        self.at[move % 2] = (self.at[move % 2] + 1) % 6
        self.board[self.at[0]][self.at[1]] = move
        self.path = [(self.at[0], self.at[1]), *self.path[:-1]]
        self.crates[move].at = (move, self.at[1])
        return np.array(self.board), 0.0, False, False, {}


OWN: dict[str, type[gym.Env[Any, Any]]] = {
    "numbers and a grid": Numbers,
    "with a random.Random": PythonsGenerator,
    "objects of a warehouse": Warehouse,
}
ENVS = [
    *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"),
    *("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1"),
    *("Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "HumanoidStandup-v5"),
    *("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Pusher-v5", "Reacher-v5"),
    *("Swimmer-v5", "Walker2d-v5"),
    *("ALE/MsPacman-v5", "ALE/Breakout-v5", "ALE/Pong-v5"),
    *("LunarLander-v3", "BipedalWalker-v3", "CarRacing-v3"),
    *("MiniGrid-DoorKey-5x5-v0", "highway-v0", "parking-v0"),
    *("plangym_ext/Sokoban-v0", "plangym_ext/NarrowPath-v0", "plangym_ext/ChainMDP-v0"),
    *("MiniGrid-FourRooms-v0", "MinAtar/Breakout-v1", "MinAtar/Asterix-v1"),
    *("flappy_bird_gymnasium:FlappyBird-v0", "tetris_gymnasium.envs:tetris_gymnasium/Tetris"),
    *OWN,
]
_DEPTH = 30  # steps played before anything is timed
_BATCH = 256  # rows that share one seal and one check
_LEAST_ROUNDS = 20
_NOTHING = "nothing"
_ROWS = 64  # of a batch beside as many deep copies
_LEAST_TURNS = 5

Timed = dict[str, Callable[[], Any]]


def fastest(groups: list[tuple[Callable[[], Any], Timed]], seconds: float) -> dict[str, float]:
    """Microseconds of each function, the least of many rounds, without those of the clock.

    Args:
        groups: functions in groups, each with what is called, untimed, before every one.
        seconds: that the rounds may take together, if `_LEAST_ROUNDS` do not take longer.
    """
    best: dict[str, float] = {}
    groups = [(before, {**functions, _NOTHING: _nothing}) for before, functions in groups]
    deadline, rounds = time.perf_counter() + seconds, 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() < deadline:
        rounds += 1
        for before, functions in groups:
            for name, function in functions.items():
                before()
                begun = time.perf_counter()
                function()
                taken = time.perf_counter() - begun
                best[name] = min(best.get(name, taken), taken)
    clock = best.pop(_NOTHING)
    return {name: round((taken - clock) * 1e6, 2) for name, taken in best.items()}


def _nothing() -> None:
    """What a call and the clock cost by themselves."""


def own_copy(env: GymEnv) -> Timed:
    """The simulator's own get and set, where it has them."""
    base: Any = env.gym_env.unwrapped
    if hasattr(base, "data") and hasattr(base, "model"):
        import mujoco

        what = mujoco.mjtState.mjSTATE_INTEGRATION
        row = np.zeros(mujoco.mj_stateSize(base.model, what))
        mujoco.mj_getState(base.model, base.data, row, what)
        return {
            "own get": lambda: mujoco.mj_getState(base.model, base.data, row, what),
            "own set": lambda: mujoco.mj_setState(base.model, base.data, row, what),
        }
    return {}


def emulator_copy(name: str) -> list[tuple[Callable[[], Any], Timed]]:
    """ALE's own clone and restore, generator included, in an env that is gymnasium's."""
    if not name.startswith("ALE/"):
        return []
    base: Any = make_gym(find_spec(name)).unwrapped
    base.reset(seed=0)
    step = stepper(base)
    for _ in range(_DEPTH):
        step()
    kept = base.ale.cloneState(include_rng=True)
    timed: Timed = {
        "own get": lambda: base.ale.cloneState(include_rng=True),
        "own set": lambda: base.ale.restoreState(kept),
    }
    return [(step, timed)]


def plangym_copy(name: str) -> list[tuple[Callable[[], Any], Timed]]:
    """plangym's get and set of the same env, if it is installed and has it."""
    try:
        import plangym

        peer = plangym.make(name)
        state, *_ = peer.reset()
        action = peer.sample_action()
        peer.step(action)
    except Exception:  # whatever a peer that does not fit raises
        return []
    timed: Timed = {
        "plangym get": peer.get_state,
        "plangym set": lambda: peer.set_state(state),
    }
    return [(lambda: peer.step(action), timed)]


def stepper(env: Any) -> Callable[[], None]:
    """Takes a step with the same action, and resets what is over."""
    env.action_space.seed(0)
    action = env.action_space.sample()

    def step() -> None:
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()  # without a seed, or else its generator would be a new one

    return step


def envelope_cost(env: GymEnv, state: np.ndarray) -> float:
    """Microseconds a row that sealing and checking take in a batch."""
    rows = np.stack([state] * _BATCH)
    lengths = np.full(_BATCH, int(state[8:12].view("<u4")[0]), np.uint32)
    timed: Timed = {
        "seal": lambda: env.envelope.seal(rows, lengths),
        "check": lambda: env.envelope.check(rows, "benchmark"),
    }
    return round(sum(fastest([(lambda: None, timed)], 0.1).values()) / _BATCH, 2)


def beside_deepcopy(env: GymEnv, seconds: float) -> dict[str, float]:
    """Microseconds of processor time of a row of a batch, and of a deep copy and a step."""
    bare = env.gym_env
    action = env.sample_action()
    state = env.get_state()
    states = np.stack([state] * _ROWS)
    actions = np.stack([np.asarray(action)] * _ROWS)
    ways: Timed = {"row": lambda: env.step_batch(actions, states)}
    if not any(isinstance(layer, gym.utils.EzPickle) for layer in layers(bare)):
        ways["deepcopy"] = lambda: copy.deepcopy(kept).step(action)
        try:
            # Where the rows begin: they leave the env elsewhere, and not all steps cost the same.
            kept = copy.deepcopy(bare)
            ways["deepcopy"]()
        except Exception:  # whatever the simulator's own copying raises
            del ways["deepcopy"]
        else:
            ways["copy"] = lambda: copy.deepcopy(kept)
    calls = {"row": 1, "deepcopy": _ROWS, "copy": _ROWS}
    best: dict[str, float] = {}
    deadline, rounds = time.perf_counter() + seconds, 0
    while rounds < _LEAST_TURNS or time.perf_counter() < deadline:
        rounds += 1
        for name, way in ways.items():
            begun = time.process_time()
            for _ in range(calls[name]):
                way()
            taken = time.process_time() - begun
            best[name] = min(best.get(name, taken), taken)
    return {name: round(taken * 1e6 / _ROWS, 1) for name, taken in best.items()}


def measure(name: str, seconds: float) -> dict[str, Any]:
    """One row of the table."""
    with plangym_ext.make(OWN.get(name, name), backend="serial") as env:
        assert isinstance(env, GymEnv)
        env.reset(seed=0)
        step = stepper(env.gym_env)
        for _ in range(_DEPTH):
            step()
        codec, row = env.codec, bytearray(env.state_width)
        buffer = memoryview(row)
        state = env.get_state()
        kept = memoryview(bytearray(state))
        timed: Timed = {
            "get": lambda: codec.capture(buffer, HEADER),
            "set": lambda: codec.restore(kept, HEADER),
            # With the envelope of a single row: what a caller of the public methods pays.
            "get_state": env.get_state,
            "set_state": lambda: env.set_state(state),
        }
        groups = [(step, timed | own_copy(env)), (lambda: None, {"step": step})]
        groups += emulator_copy(name) + plangym_copy(name)
        return {
            "method": codec.parts[-1].method,
            "exact": codec.exact,
            "width": env.state_width,
            **fastest(groups, seconds),
            "envelope": envelope_cost(env, state),
            **beside_deepcopy(env, seconds),
            "date": time.strftime("%Y-%m-%d"),
        }


def print_table(results: dict[str, Any]) -> None:
    """All rows, microseconds."""
    columns = ["get", "set", "envelope", "own get", "own set", "plangym get", "plangym set"]
    columns += ["get_state", "set_state", "step", "row", "deepcopy"]
    heads = "".join(f"{column:>12}" for column in columns)
    print(f"{'env':26} {'way':9} {'exact':5} {'bytes':>7}{heads}")
    for name, row in results.items():
        if "error" in row:
            print(f"{name:26} {row['error']}")
            continue
        cells = "".join(f"{row.get(column, '-'):>12}" for column in columns)
        exact = "yes" if row["exact"] else "NO"
        print(f"{name:26} {row['method']:9} {exact:5} {row['width']:7}{cells}")


def section(results: dict[str, Any]) -> str:
    """The section of the page, in Markdown."""
    rows = {name: row for name, row in results.items() if "deepcopy" in row}
    dates = sorted({row["date"] for row in rows.values()})
    lines = [
        "## Beside deepcopy",
        "",
        "Microseconds of processor time for the next state from a kept one, of envs that Python",
        f"can copy: a row of `step_batch` ({_ROWS} rows in a call, one process) and",
        "`copy.deepcopy(env).step(action)`, in turn, the least of many rounds. Both hold a step of",
        "the env: `limit` is what its share alone would leave of the ratio, if rows cost nothing.",
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))}.",
        "",
        "| env | way | bytes | row | deepcopy and step | ratio | limit |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, row in rows.items():
        ratio = row["row"] / row["deepcopy"]
        lines.append(
            f"| {name} | {row['method']} | {row['width']:,} | {row['row']:,.1f} | "
            f"{row['deepcopy']:,.1f} | {ratio:.2f} | {1 - row['copy'] / row['deepcopy']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each env")
    parser.add_argument("--out", type=Path, default=Path("runs/states.json"))
    parser.add_argument("--page", type=Path, help="file for the section beside deepcopy")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    results = kept.get("results", {}) if kept.get("version") == plangym_ext.__version__ else {}
    line = ProgressLine()
    for name in options.envs:
        if name in results:
            continue
        line.update(f"measuring {name}", force=True)
        try:
            results[name] = measure(name, options.seconds)
        except (PlangymExtError, ImportError, gym.error.Error) as error:
            results[name] = {"error": str(error).splitlines()[0]}
        write_json(options.out, {"version": plangym_ext.__version__, "results": results})
    line.end("done")
    print_table({name: results[name] for name in options.envs})
    if options.page:
        options.page.write_text(section({name: results[name] for name in options.envs}))


if __name__ == "__main__":
    main()
