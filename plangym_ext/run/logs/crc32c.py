"""CRC32C, the checksum of TensorBoard's event files, in compiled code.

Source: RFC 3720, appendix B.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.core.compiling.jit import kernel

#: The polynomial of Castagnoli, lowest bit first.
_POLYNOMIAL = np.uint32(0x82F63B78)


def crc32c(content: bytes) -> int:
    """Return the checksum of some bytes."""
    return int(_crc32c(np.frombuffer(content, np.uint8), _TABLE))


@kernel
def _crc32c(content: Any, table: Any) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


def _table() -> Any:
    """Return `[256]` uint32, what each byte does to the checksum."""
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = np.where(found & 1, found >> 1 ^ _POLYNOMIAL, found >> 1)
    return found.astype(np.uint32)


_TABLE = _table()
