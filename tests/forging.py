"""States of an env with another snapshot in them: what a clever stranger could send."""

from __future__ import annotations

import array
import enum
import itertools
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.graph.writer import GraphWriter, is_simple
from plangym_ext.states.part import put_block
from plangym_ext.states.snapshot import SnapshotPart
from plangym_ext.states.trust import DIGEST_BYTES


@dataclass
class Blocks:
    """A graph, taken apart; see `states.graph.writer` for what the blocks hold."""

    table: list[Any]
    kinds: bytearray
    ints: list[int]
    floats: list[float]
    blob: bytes
    digest: bytes = bytes(DIGEST_BYTES)
    #: Written in place of the table, where the table is to be no JSON of ours.
    head: bytes = b""
    sizes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Blocks:
        """Take apart what `GraphWriter.data` returned."""
        ends = np.cumsum([20, *array.array("I", data[:20])])
        head, kinds, ints, floats, blob = (data[a:b] for a, b in itertools.pairwise(ends))
        numbers = array.array("q", ints).tolist(), array.array("d", floats).tolist()
        return cls(json.loads(head), bytearray(kinds), *numbers, blob)

    def data(self) -> bytes:
        """Return the snapshot, with kind and digest before it."""
        head = self.head or json.dumps(self.table).encode()
        blocks = [
            head,
            bytes(self.kinds),
            array.array("q", self.ints).tobytes(),
            array.array("d", self.floats).tobytes(),
            self.blob,
        ]
        sizes = [self.sizes.get(i, len(block)) for i, block in enumerate(blocks)]
        return b"G" + self.digest + array.array("I", sizes).tobytes() + b"".join(blocks)


def snapshot_of(env: GymEnv) -> SnapshotPart:
    """Return the part of an env's codec that is a snapshot."""
    part = env.codec.parts[-1]
    assert isinstance(part, SnapshotPart)
    return part


def blocks_of(env: GymEnv) -> Blocks:
    """Return the present snapshot of an env, all of it as a graph."""
    data = snapshot_of(env)._graph(learns=False)
    assert data[:1] == b"G"
    blocks = Blocks.of(data[1 + DIGEST_BYTES :])
    blocks.digest = data[1 : 1 + DIGEST_BYTES]
    return blocks


def sealed(env: GymEnv, data: bytes) -> np.ndarray:
    """Return an `[S]` row around any snapshot, with a right checksum; it may widen the env."""
    room = env.state_width + -(-len(data) // 8) * 8
    if len(data) + HEADER + 64 > env.state_width // 2:
        env.widen(room)
    row = np.zeros((1, env.state_width), np.uint8)
    buffer, offset = row[0].data, HEADER
    for part in env.codec.parts[:-1]:
        offset = part.capture(buffer, offset, env.state_width)
    env.envelope.seal(row, put_block(buffer, offset, env.state_width, data) - HEADER)
    return row[0]


def namespaces(env: GymEnv) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield every dict that a snapshot is made of: of layers, of objects, and those that are dicts.

    A test that changes one and captures it has what a stranger could have written.
    """
    snapshot = snapshot_of(env)
    left: list[Any] = []
    for layer in snapshot._layers:
        yield f"layer {layer.name}", vars(layer.layer)
        left += layer.state().values()
    seen: dict[int, Any] = {}
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, dict):
            yield "a dict", thing
            left += [*thing, *thing.values()]
        elif isinstance(thing, list | tuple | deque):
            left += thing
        elif is_simple(type(thing)) and not isinstance(thing, gym.Env | enum.Enum):
            yield f"a {type(thing).__qualname__}", vars(thing)
            left += vars(thing).values()


def forged(env: GymEnv) -> np.ndarray:
    """Return an `[S]` row of the env as it is, with no pickle vouched for."""
    blocks = blocks_of(env)
    blocks.digest = bytes(DIGEST_BYTES)
    return sealed(env, blocks.data())


def strangers(writer: GraphWriter) -> bytes:
    """Return what a writer writes that does not care for finalisers."""
    with mock.patch("plangym_ext.states.graph.tables.finaliser_of", return_value=None):
        return writer.data()


def with_attribute(env: GymEnv, name: str, value: Any, renamed: dict[Any, Any]) -> np.ndarray:
    """Return a row in which the simulator has one more attribute.

    Args:
        env: it belongs to.
        name: of the attribute.
        value: whatever a graph takes.
        renamed: from what the graph names, `(module, name)`, to what it is to name instead.
    """
    snapshot = snapshot_of(env)
    layers = [layer.state() for layer in snapshot._layers]
    layers[-1][name] = value
    writer = GraphWriter(snapshot._names(), dict(snapshot._known), learns=True)
    writer.put_all(layers)
    blocks = Blocks.of(strangers(writer))
    for entry in (*blocks.table[1], *blocks.table[2]):
        entry[:2] = renamed.get(tuple(entry[:2]), entry[:2])
    return sealed(env, blocks.data())
