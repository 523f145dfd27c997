"""What networks are taught, computed from records. Needs numpy alone.

Truncation is not termination: what would follow a cut is the record's `final_value` or,
where that is unknown, is read off the last plan's value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.records import EpisodeRecord

Floats = npt.NDArray[np.float64]

#: Name -> function of (record, discount, n_steps) to `[T]` float64.
VALUE_TARGETS: dict[str, Callable[[EpisodeRecord, float, int], Floats]] = {}
#: Name -> function of record to `[T, A]` float64 that sums to 1.
POLICY_TARGETS: dict[str, Callable[[EpisodeRecord], Floats]] = {}
