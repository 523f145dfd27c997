"""States of an env with another snapshot in them: what a clever stranger could send."""

from __future__ import annotations

import array
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.part import get_block, put_block
from plangym_ext.states.snapshot import SnapshotPart
from plangym_ext.states.trust import DIGEST_BYTES


@dataclass
class Blocks:
    """A graph, taken apart; see `states.graph.writer` for what the blocks hold."""

    table: list[Any]
    ops: list[int]
    floats: list[float]
    blob: bytes
    digest: bytes = bytes(DIGEST_BYTES)
    #: Written in place of the table, where the table is to be no JSON of ours.
    head: bytes = b""
    sizes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Blocks:
        """Take apart what `GraphWriter.data` returned."""
        ends = np.cumsum([16, *array.array("I", data[:16])])
        head, ops, floats, blob = (data[a:b] for a, b in itertools.pairwise(ends))
        numbers = array.array("i", ops).tolist(), array.array("d", floats).tolist()
        return cls(json.loads(head), *numbers, blob)

    def data(self) -> bytes:
        """Return the snapshot, with kind and digest before it."""
        head = self.head or json.dumps(self.table).encode()
        blocks = [
            head,
            array.array("i", self.ops).tobytes(),
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
    """Return the present snapshot of an env, as it would be in a row."""
    scratch = memoryview(bytearray(1 << 20))
    snapshot_of(env).capture(scratch, 0, len(scratch))
    data, _ = get_block(scratch, 0)
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
    writer.put_all(layers, [layer.name for layer in snapshot._layers])
    blocks = Blocks.of(writer.data())
    for entry in (*blocks.table[1], *blocks.table[2]):
        entry[:2] = renamed.get(tuple(entry[:2]), entry[:2])
    return sealed(env, blocks.data())
