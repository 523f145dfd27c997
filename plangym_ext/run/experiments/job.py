"""Program of one sweep run: `train` pinned to its share of the processors.

    python -m plangym_ext.run.experiments.job PARENT CORES ARGUMENTS...

It ends when the sweep's process dies in whatever way; what it had saved stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, linux/prctl.h


def main(argv: Sequence[str]) -> int:
    """Run `plangym-ext` with the arguments after the first two; return the exit status."""
    parent, cores, *arguments = argv
    # Processes of Ray have it blocked, and so has what they start.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if not _ends_with(int(parent)):
        return 1
    if cores:
        # Where processors cannot be chosen, all runs share all of them.
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    from plangym_ext.run.cli import main as run

    return run(arguments)


def _ends_with(parent: int) -> bool:
    """Bind this process's life to its parent's; return False if the parent is dead."""
    if sys.platform == "linux":
        import ctypes

        # Not SIGINT: shells have programs in the background ignore it.
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    # After the request: a parent that died before it sends no signal, but is another one by now.
    return os.getppid() == parent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
