"""States with forged snapshots: what they could name, and what 100,000 of them do.

    python tests/benchmarks/forge.py --count 100000 --out runs/forge.json

For each env two tables are filled. *Scan*: every class and function that is loaded, under
its own name and under every dotted path from the env's own modules, is asked for as a
state would: what is granted must be harmless (see `states.nameable`). *Fuzz*: snapshots
are altered at random, get a right checksum and are restored. Each must raise `StateError`
and leave the env as it was, or load exactly what its bytes say; meanwhile nothing is
opened, imported, compiled or run. Any other outcome ends the program with an error.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import ordinary_envs
from forging import Blocks, blocks_of, sealed, snapshot_of

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import PlangymExtError, StateError
from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter, is_simple, name_of
from plangym_ext.states.nameable import AnyThing
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES
from plangym_ext.states.trust import DIGEST_BYTES

#: Envs that have snapshots: own ones, and ids by the package that they need.
OWN = {
    cls.__name__: cls for cls in (ordinary_envs.Maze, ordinary_envs.Files, ordinary_envs.Programs)
}
FAMILIES = {
    "MiniGrid-DoorKey-5x5-v0": "minigrid",
    "BabyAI-GoToObj-v0": "minigrid",
    "highway-fast-v0": "highway_env",
    "parking-v0": "highway_env",
    "dm_control/cartpole-swingup-v0": "dm_control",
}
_DEPTH = 4
_HOOKS = (
    *("__del__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__"),
    *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__class__"),
)
_WATCHED = ("open", "import", "exec", "compile", "os.", "subprocess.", "socket.", "shutil.")


def made(name: str) -> GymEnv:
    """The env, after a few steps."""
    env = GymEnv(OWN[name]) if name in OWN else plangym_ext.make(name, backend="serial")
    env.reset(seed=1)
    for action in (0, 1, 8 if name in OWN else 2):
        env.step(action if env.action_space.shape == () else env.sample_action())
    assert isinstance(env, GymEnv)
    return env


# Scan -----------------------------------------------------------------------------


def everything() -> Iterator[tuple[str, str]]:
    """Own names of all classes and functions that are loaded."""
    classes, left = {object}, [object]
    while left:
        for cls in type.__subclasses__(left.pop()):
            if cls not in classes:
                classes.add(cls)
                left.append(cls)
    yield from map(name_of, classes)
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
                yield module.__name__, name
                yield name_of(value)


def paths(module: str) -> Iterator[tuple[str, str]]:
    """Dotted paths from a module through whatever it leads to, each object once."""
    seen: set[int] = set()
    left = [("", sys.modules[module])]
    for _ in range(_DEPTH):
        further = []
        for path, thing in left:
            for name, value in list(getattr(thing, "__dict__", {}).items()):
                if id(value) in seen or not isinstance(name, str):
                    continue
                seen.add(id(value))
                yield module, f"{path}{name}"
                if isinstance(value, types.ModuleType | type):
                    further.append((f"{path}{name}.", value))
        left = further


def scan(env: GymEnv) -> dict[str, Any]:
    """Ask for all there is; count what is granted, and fail if any of it could do harm."""
    nameable = snapshot_of(env)._nameable
    wishes = set(everything())
    for module in nameable.modules & sys.modules.keys():
        wishes.update(paths(module))
    built, referred = set(), set()
    for wish in wishes:
        try:
            built.add(nameable.built(wish))
            assert name_of(nameable.built(wish)) == wish
        except StateError:
            pass
        try:
            referred.add(nameable.referred(*wish))
            assert name_of(nameable.referred(*wish)) == wish
        except StateError:
            pass
    for cls in built:
        above = [cls for cls in cls.__mro__[:-1] if not hasattr(cls, "__dataclass_params__")]
        assert not [name for name in _HOOKS for cls in above if name in vars(cls)], cls
        assert cls.__module__ in nameable.modules or name_of(cls) in nameable.known, cls
    functions = [thing for thing in referred if not isinstance(thing, type)]
    assert all(name_of(thing) in nameable.known for thing in functions)
    return {
        "asked for": len(wishes),
        "can be built": sorted(".".join(name_of(cls)) for cls in built if is_simple(cls)),
        "can be referred to": sorted(".".join(name_of(thing)) for thing in referred),
    }


# Fuzz -----------------------------------------------------------------------------


class Watch:
    """Notes what the interpreter is asked to do while it is on; a hook stays for ever."""

    def __init__(self) -> None:
        self.on, self.seen = False, set[str]()
        sys.addaudithook(self._see)

    def _see(self, event: str, _: Any) -> None:
        if self.on and event.startswith(_WATCHED):
            self.seen.add(event)


def altered(blocks: Blocks, rng: random.Random, words: list[str]) -> Blocks:
    """A copy with a few random changes, most of them in the table."""
    changed = copy.deepcopy(blocks)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice((_alter_table, _alter_table, _alter_table, _alter_head, _alter_rest))(
            changed, rng, words
        )
    return changed


def _alter_table(blocks: Blocks, rng: random.Random, words: list[str]) -> None:
    part = rng.choice([part for part in (blocks.table, *blocks.table[1:]) if part])
    part = rng.choice(part) if part is not blocks.table else blocks.table[0]
    if not part:
        return
    at = rng.randrange(len(part))
    kind = rng.randrange(6)
    if kind == 0:
        part.insert(at, rng.choice(words))
    elif kind == 1:
        del part[at]
    elif kind == 2:
        part[at] = rng.choice((None, 7, 1.5, [], {}, ["x"], True))
    elif kind == 3:
        other = rng.randrange(len(part))
        part[at], part[other] = part[other], part[at]
    else:
        part[at] = rng.choice(words)


def _alter_head(blocks: Blocks, rng: random.Random, _: list[str]) -> None:
    head = bytearray(blocks.head or json.dumps(blocks.table).encode())
    at = rng.randrange(len(head))
    if rng.random() < 0.5:
        head[at] ^= 1 << rng.randrange(8)
    else:
        head[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
    blocks.head = bytes(head)


def _alter_rest(blocks: Blocks, rng: random.Random, _: list[str]) -> None:
    kind = rng.randrange(5)
    if kind == 0:
        blocks.sizes[rng.randrange(5)] = rng.choice((0, 1, 2**31, 2**32 - 1, rng.randrange(4096)))
    elif kind == 1:
        blocks.blob = blocks.blob[: rng.randrange(len(blocks.blob) + 1)] + rng.randbytes(3)
    elif kind == 2:
        blocks.floats = blocks.floats[:-1] if rng.random() < 0.5 else [*blocks.floats, 1.5]
    else:
        at = rng.randrange(len(blocks.ints))
        blocks.ints[at] = rng.choice(
            (rng.randrange(24), -1, 2**63 - 1, -(2**63), rng.randrange(999))
        )
        if blocks.kinds and rng.random() < 0.5:
            blocks.kinds[rng.randrange(len(blocks.kinds))] = rng.randrange(40)


def vocabulary(env: GymEnv, blocks: Blocks) -> list[str]:
    """Words that a forger would try."""
    words = [
        *blocks.table[0],
        *_HOOKS,
        "__dict__",
        "__call__",
        "step",
        "reset",
        "close",
        "|O",
        "O8",
    ]
    words += ["(9999999,)i8", "|V999999999", "<U2147483647", "posix", "system", "builtins", "eval"]
    words += [word for part in (1, 2, 4) for entry in blocks.table[part] for word in entry]
    nameable = snapshot_of(env)._nameable
    for module in sorted(nameable.modules & sys.modules.keys()):
        words.append(module)
        words += [name for _, name in list(paths(module))[:300]]
    return words


def said(env: GymEnv, data: bytes) -> bytes:
    """What a snapshot says, read with every name granted, as the writer has it."""
    snapshot = snapshot_of(env)

    def named(layer: int, name: str) -> Any:
        return None if is_generator(env, (layer, name)) else snapshot._named(layer, name)

    reader = GraphReader(data[1 + DIGEST_BYTES :], named, AnyThing(snapshot._nameable.known))
    layers = reader.get()
    reader.end()
    return written(env, layers)


def written(env: GymEnv, layers: list[dict[str, Any]]) -> bytes:
    """Attributes as a graph in which generators are not named, but written."""
    snapshot = snapshot_of(env)
    names = {key: name for key, name in snapshot._names().items() if not is_generator(env, name)}
    writer = GraphWriter(names, snapshot._known)
    writer.put_all([dict(sorted(layer.items())) for layer in layers])
    return writer.data()


def is_generator(env: GymEnv, name: tuple[int, str]) -> bool:
    """Whether a state names the generator so."""
    return isinstance(snapshot_of(env)._named(*name), RANDOM_TYPES)


def fuzz(env: GymEnv, count: int, seed: int, watch: Watch, line: ProgressLine) -> dict[str, Any]:
    """Restore `count` altered snapshots; count the outcomes."""
    rng = random.Random(seed)
    good, blocks = env.get_state(), blocks_of(env)
    words, outcomes = vocabulary(env, blocks), Counter[str]()
    for _ in range(20):  # by then code is made for its own structure; none is for another
        env.set_state(good)
    loaded_modules = set(sys.modules)
    for at in range(count):
        data = altered(blocks, rng, words).data()
        row = sealed(env, data)
        watch.on = True
        try:
            env.set_state(row)
        except StateError as error:
            watch.on = False
            outcomes[type(error).__name__] += 1
            assert env.get_state()[: len(good)].tobytes()[48:] == good.tobytes()[48:], at
        else:
            watch.on = False
            outcomes["loaded"] += 1
            here = [layer.state() for layer in snapshot_of(env)._layers]
            assert written(env, here) == said(env, data), at
            env.set_state(good)
        assert not watch.seen, watch.seen
        if at % 1000 == 0:
            line.update(f"{env.name}: {at:,} of {count:,} {dict(outcomes)}")
    assert set(sys.modules) == loaded_modules
    return dict(outcomes)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Scan and fuzz every env that can be made here."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="altered states, in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[*OWN, *FAMILIES], help="envs")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    watch, found, line = Watch(), {}, ProgressLine()
    for name in options.only:
        try:
            env = made(name)
        except (ImportError, PlangymExtError) as error:
            found[name] = {"skipped": str(error).partition("\n")[0]}
            continue
        with env:
            outcomes = fuzz(env, -(-options.count // len(options.only)), options.seed, watch, line)
            found[name] = {"fuzz": outcomes, "scan": scan(env)}
    line.leave()
    for name, result in found.items():
        print(name, json.dumps(result.get("fuzz", result)))
        for what, granted in result.get("scan", {}).items():
            print(
                f"   {what}:", granted if isinstance(granted, int) else ", ".join(granted) or "none"
            )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.out, found)
    return found


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
