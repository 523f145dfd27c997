"""Envelope: header, checksum and fingerprint around every state row.

A state row is `uint8`, as wide for every row of an env. Where states vary in size an
env may widen its rows later; narrower ones stay good, and zeros may follow them.

    offset  size  field
    0       4     magic, b"PGXS"
    4       2     format version
    6       2     header size in bytes
    8       4     payload length in bytes
    12      4     width of the row when it was captured
    16      16    fingerprint of the env (id, arguments, simulator version, ...)
    32      8     checksum
    40      1     way of capture, its number in `WAYS`, for messages; 0: not said
    41      7     reserved, zero
    48      ...   payload, then zeros up to the width

All numbers are little-endian. The checksum is a sum modulo 2**64 of every other
8-byte word of the row, folded, times a fixed odd weight of its own. Folding (the
upper half is added to the lower by exclusive or) and an odd weight are invertible,
so any change confined to one word, every single-bit flip among them, changes the
sum. Without folding the top bits of any two words would cancel each other: 2**63
times an even number is 0. Independent weights catch swapped words. Unlike a CRC the
sum is computed for a whole batch by one matrix product.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays.nested import as_array
from plangym_ext.errors import DamagedState, ForeignState, StateError
from plangym_ext.states.content_hash import content_digest

MAGIC = b"PGXS"
VERSION = 2
HEADER = 48
_WORD = 8
_CHECKSUM_WORD = 4
_LENGTH_HALF = 2  # of 4-byte words
_U4, _U8 = np.dtype("<u4"), np.dtype("<u8")
_HALF_BITS = np.array(32, _U8)  # of a plain number each use would make an array
#: Words that are equal in all own rows of one width, but for the length in the second.
_OWN_WORDS = 4
_LENGTH, _WIDTH, _FINGERPRINT = slice(8, 12), slice(12, 16), slice(16, 32)
_WAY = 40
#: Ways of capture; a row has the number of its own.
WAYS = ("", "codec", "own", "simulator", "snapshot", "replay", "approximate")


def fingerprint(identity: dict[str, Any]) -> bytes:
    """Return 16 bytes that differ whenever `identity` (JSON-like, any key order) differs."""
    text = json.dumps(identity, sort_keys=True, default=_plain)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def difference(there: Any, here: Any) -> tuple[str, Any, Any]:
    """Return the first place at which two identities differ, and both values.

    It leads as deep as both have the same keys: `parts > TimeLimit > max_episode_steps`. Of dicts
    that have not, only what differs is returned.
    """
    path: list[str] = []
    while isinstance(there, dict) and isinstance(here, dict):
        # One by one as the whole: values may be arrays, which have no plain equality.
        keys = [
            key
            for key in here | there
            if fingerprint({key: there.get(key)}) != fingerprint({key: here.get(key)})
        ]
        if not keys:
            break
        if path and not (keys[0] in here and keys[0] in there):
            there, here = ({k: one[k] for k in keys if k in one} for one in (there, here))
            break
        path.append(str(keys[0]))
        there, here = there.get(keys[0]), here.get(keys[0])
    return " > ".join(path), there, here


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks, in a form equal in every process."""
    return ["content", content_digest(value)]


def _weights(num_words: int) -> np.ndarray:
    # splitmix64 (Steele, Lea & Flood 2014) of the word's index: the same in any
    # numpy version, which a state kept on disk needs.
    z = np.arange(1, num_words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    weights = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    weights[_CHECKSUM_WORD] = 0
    return weights


def _sums(words: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return `[B]` checksums of `[B, W]` words; zeros at the end of a row do not count."""
    folded = np.right_shift(words, _HALF_BITS)
    np.bitwise_xor(folded, words, folded)
    sums: np.ndarray = folded.dot(weights)
    return sums


#: Identities of the last envelopes that were made here, by fingerprint: for messages alone.
_identities: dict[bytes, dict[str, Any]] = {}
_MOST_IDENTITIES = 64


def _remember(found: bytes, identity: dict[str, Any]) -> None:
    """Keep an identity, for as long as not too many others follow."""
    # Taken out first, so that it moves to the end and counts as the newest.
    _identities.pop(found, None)
    _identities[found] = identity
    while len(_identities) > _MOST_IDENTITIES:
        _identities.pop(next(iter(_identities)), None)


#: In the identity of an env whose futures depend on them, and so in what refuses its states.
OF_TEXTS = "hashes of texts, which PYTHONHASHSEED decides, set before Python starts,"


class Envelope:
    """Seals and checks the state rows of one env configuration.

    Args:
        identity: what a state belongs to; see `fingerprint`.
        payload_width: most bytes that a payload can take.
        way: of capture, out of `WAYS`.
    """

    def __init__(self, identity: dict[str, Any], payload_width: int, way: str = "") -> None:
        self.identity, self.way = identity, way
        self.width = HEADER + -(-payload_width // _WORD) * _WORD
        self._weights = _weights(self.width // _WORD)
        header = np.zeros(HEADER, np.uint8)
        header[:4] = np.frombuffer(MAGIC, np.uint8)
        header[4:6] = np.frombuffer(VERSION.to_bytes(2, "little"), np.uint8)
        header[6:8] = np.frombuffer(HEADER.to_bytes(2, "little"), np.uint8)
        header[_WIDTH].view("<u4")[0] = self.width
        header[_FINGERPRINT] = np.frombuffer(fingerprint(identity), np.uint8)
        header[_WAY] = WAYS.index(way)
        _remember(header[_FINGERPRINT].tobytes(), identity)
        self._header = header
        self._header_words = header.view("<u8").copy()
        #: Without the length.
        self._own_bytes = self._header_words[:_OWN_WORDS].tobytes()
        mask = np.full(4 * _OWN_WORDS // 2, 0xFFFFFFFF, np.uint32)
        mask[_LENGTH_HALF] = 0
        self._own_mask = mask.view(_U8)

    def widened(self, payload_width: int) -> Envelope:
        """Return an envelope of the same env for payloads of another width."""
        return Envelope(self.identity, payload_width, self.way)

    @property
    def weights(self) -> np.ndarray:
        """`[width / 8]` uint64: weight of each word of a row in its checksum."""
        return self._weights

    def seal(self, rows: np.ndarray, lengths: np.ndarray | int) -> None:
        """Write header and checksum around payloads already in place.

        Args:
            rows: `[B, width]` uint8, each row contiguous; written in place.
            lengths: `[B]` payload bytes used in each row; the rest must be zero.
        """
        words = rows.view(_U8)
        if isinstance(lengths, int):
            # The width is the upper half of the word. The length may stay there: no check of
            # another row compares it.
            self._header_words[_LENGTH_HALF // 2] = self.width << 32 | lengths
            words[:, : HEADER // _WORD] = self._header_words
        else:
            words[:, : HEADER // _WORD] = self._header_words
            rows.view(_U4)[:, _LENGTH_HALF] = lengths
        words[:, _CHECKSUM_WORD] = _sums(words, self._weights)

    def check(self, states: Any, where: str) -> np.ndarray:
        """Refuse everything except intact rows of this env.

        Args:
            states: `[B, width]` uint8; the width may be that of an earlier or later
                moment of an env that widened its rows.
            where: method name, for messages.

        Returns:
            The same rows, each contiguous (a copy only if they were not), without zeros that were
            put after what was captured: rows that are kept would all have them.

        Raises:
            DamagedState: a row is not what was once captured.
            ForeignState: a whole row, but of another env, configuration,
                simulator version or format.
            ValueError: not a 2-D uint8 array.
        """
        rows = self.shaped(states, where)
        if not self.holds_own(rows):
            self._refuse(rows, where)
            # Whole words, whatever a forged row says.
            own = -(-int(rows[:, _WIDTH].view("<u4").max(initial=0)) // _WORD) * _WORD
            rows = np.ascontiguousarray(rows[:, : max(self.width, own)])
        return rows

    def shaped(self, states: Any, where: str) -> np.ndarray:
        """Return rows `[B, S]`, each in one piece, checked but for their content; see `check`."""
        rows = states
        if type(rows) is not np.ndarray:
            rows = as_array(states, f"{where}: states", StateError)
        width = rows.shape[-1] if rows.ndim == 2 else 0
        if rows.dtype != np.uint8 or width < HEADER or width % _WORD:
            raise self._misshapen(rows, where)
        return rows if rows.strides[1] == 1 else np.ascontiguousarray(rows)

    def _misshapen(self, rows: np.ndarray, where: str) -> StateError:
        """Return the error for an array that holds no rows."""
        if rows.ndim != 2 or rows.dtype != np.uint8:
            one = ". One state is a batch of one row as state[None]." if rows.ndim == 1 else ""
            return StateError(
                f"{where}: states must be (B, {self.width}) uint8, rows from get_state; "
                f"got {rows.shape} {rows.dtype}{one}"
            )
        return DamagedState(
            f"{where}: states must be {self.width} bytes wide for {self.identity.get('id')}; "
            f"got {rows.shape[1]}. They are truncated, extended, or no "
            "states at all. Pass rows exactly as get_state or step_batch returned them."
        )

    def holds_own(self, rows: np.ndarray) -> bool:
        """Return whether `shaped` rows are whole, of this env, and of exactly its width.

        The quick look: rows of another width, which may be good, are refused too.
        """
        if rows.shape[1] != self.width:
            return False
        # Compared as bytes: of a few rows that takes a fraction of the time.
        words = rows.view(_U8)
        sums = _sums(words, self._weights)
        heads = np.bitwise_and(words[:, :_OWN_WORDS], self._own_mask)
        return sums.tobytes() == words[
            :, _CHECKSUM_WORD
        ].tobytes() and heads.tobytes() == self._own_bytes * len(rows)

    def _refuse(self, rows: np.ndarray, where: str) -> None:
        """Raise for the first bad row, if there is one."""
        width = rows.shape[1]
        words = rows.view(_U8)
        weights = self._weights if width == self.width else _weights(width // _WORD)
        whole = _sums(words, weights) == words[:, _CHECKSUM_WORD]
        whole &= (rows[:, :4] == self._header[:4]).all(axis=1)
        # Zeros do not count in the sum: of a row whose end was cut off, the width alone may tell.
        whole &= rows[:, _WIDTH].view("<u4")[:, 0] <= width
        if not whole.all():
            raise DamagedState(
                f"{where}: states[{int(np.argmin(whole))}] is damaged: its checksum, magic or "
                f"width does not fit its {width} bytes. Pass rows exactly as get_state or "
                "step_batch returned them."
            )
        # Version, header size and fingerprint; the lengths in between may differ.
        same = (rows[:, 4:8] == self._header[4:8]).all(axis=1)
        same &= (words[:, 2:4] == self._header_words[2:4]).all(axis=1)
        if not same.all():
            raise self._foreign(rows[int(np.argmin(same))], int(np.argmin(same)), where)

    def _foreign(self, row: np.ndarray, index: int, where: str) -> ForeignState:
        version = int(row[4:6].view("<u2")[0])
        if version != VERSION:
            return ForeignState(
                f"{where}: states[{index}] has format version {version}; expected {VERSION}. "
                "Capture it again with this version of plangym-ext."
            )
        return ForeignState(
            f"{where}: states[{index}] belongs to another env: {self._differing(row)}. States "
            f"of {self.identity.get('id')} fit envs of the same arguments, wrappers and simulator."
        )

    def _differing(self, row: np.ndarray) -> str:
        """Return the difference between a foreign row's env and this one."""
        theirs = _identities.get(row[_FINGERPRINT].tobytes())
        way = WAYS[row[_WAY]] if row[_WAY] < len(WAYS) else ""
        captured = way and self.way and way != self.way
        ways = (
            f"it was captured by {way!r}, and this env captures by {self.way!r} (made with "
            f"capture={way!r} it would take it)"
        )
        if theirs is None:
            told = {k: v for k, v in self.identity.items() if k in ("id", "arguments", OF_TEXTS)}
            other = f"one that was not made in this process; here it is {told}"
            return f"{ways}; {other}" if captured else other
        where, there, here = difference(theirs, self.identity)
        if captured and where.partition(" ")[0] in ("layers", "parts", "enclosed"):
            return ways
        return f"its {where} is {there!r} there and {here!r} here"


def stacked(rows: Sequence[Any], where: str) -> np.ndarray:
    """Return rows of one env as `[B, S]` uint8, those from before a widening followed by zeros.

    Args:
        rows: `[S]` uint8 each, of any widths.
        where: method name, for messages.

    Raises:
        DamagedState: a row is narrower than it was when it was captured.
        ValueError: a row is no vector of bytes.
    """
    arrays = [as_array(row, f"{where}: states[{i}]", StateError) for i, row in enumerate(rows)]
    found = np.zeros((len(arrays), max((row.size for row in arrays), default=0)), np.uint8)
    for i, row in enumerate(arrays):
        if row.ndim != 1 or row.dtype != np.uint8:
            raise StateError(
                f"{where}: states[{i}] must be [S] uint8 from get_state; "
                f"got {row.shape} {row.dtype}"
            )
        own = int.from_bytes(row[_WIDTH].tobytes(), "little")
        # After a row that was cut off, zeros could hide that something is missing.
        if row.size < own:
            raise DamagedState(
                f"{where}: states[{i}] must be {own} bytes wide, as it was captured; "
                f"got {row.size}. It is truncated."
            )
        found[i, : row.size] = row
    return found


def as_wide(rows: np.ndarray, width: int) -> np.ndarray:
    """Return `[B, S]` rows as `[B, width]`, padded with zeros.

    The result is the same array if it is that wide already, or wider; else it is fresh.
    """
    narrow = rows.shape[1]
    if narrow >= width:
        return rows
    found = np.zeros((len(rows), width), np.uint8)
    found[:, :narrow] = rows
    return found


def stacked_rows(states: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return `[S]` states as fresh `[B, S]`, with zeros after narrower ones.

    `[B, S]` are returned as they are.
    """
    if isinstance(states, np.ndarray):
        return states
    width = max(map(len, states))
    return np.concatenate([as_wide(state[None], width) for state in states])


def state_content(row: np.ndarray) -> bytes:
    """Return the identifying content of a `[S]` row, independent of its width.

    That is all but the zeros at the end and the width at which it was captured, which the
    checksum counts too. A row that no envelope was put around is taken whole.
    """
    if not is_sealed(row):
        return row.tobytes()
    head = row[_LENGTH].tobytes() + row[_FINGERPRINT].tobytes()
    return head + payload(row).tobytes().rstrip(b"\0")


def telling(row: np.ndarray) -> np.ndarray:
    """Return `[S]` bool, the bytes of a zero-padded row that `state_content` has."""
    found = np.ones(len(row), np.bool_)
    if is_sealed(row):
        found[:HEADER] = False
        found[_LENGTH] = found[_FINGERPRINT] = True
    return found


def is_sealed(row: np.ndarray) -> bool:
    """Return whether a row begins with the bytes of an envelope."""
    return row[: len(MAGIC)].tobytes() == MAGIC


def payload(row: np.ndarray) -> np.ndarray:
    """Return a view `[width - 48]` uint8 of the payload area of a row, padding included."""
    return row[HEADER:]
