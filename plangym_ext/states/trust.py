"""Keyed digests that mark this session's pickles as trusted.

A state that holds a pickle carries a keyed digest of it. The key is drawn when the
process starts and handed to its workers, so a row from a file, a network or another
program cannot carry a valid one and is refused unless the caller vouches for it.
"""

from __future__ import annotations

import hashlib
import hmac
import os

DIGEST_BYTES = 16

_key = os.urandom(32)


def session_key() -> bytes:
    """Return this session's key, for a worker to `join_session` with."""
    return _key


def join_session(key: bytes) -> None:
    """Use the key of the process that started this one."""
    global _key
    _key = key


def digest(data: bytes | memoryview) -> bytes:
    """Return the keyed digest of `data`, `DIGEST_BYTES` long."""
    return hashlib.blake2b(data, key=_key, digest_size=DIGEST_BYTES).digest()


def is_ours(data: bytes | memoryview, claimed: bytes) -> bool:
    """Return whether `claimed` is the digest of `data` in this session."""
    return hmac.compare_digest(digest(data), claimed)
