"""File-descriptor checks before workers start: enough of them, standard ones open."""

from __future__ import annotations

import os

from plangym_ext.errors import StorageError

#: What a worker takes for as long as it lives: its socket, its lifeline, its process.
PER_WORKER = 3
#: What there has to be beside: queues and memory of a few batches, and what starting a
#: process takes for a moment.
SPARE = 20


def check_descriptors(num_workers: int) -> None:
    """Check that there are enough file descriptors for the workers.

    Args:
        num_workers: how many are about to be started.

    Raises:
        StorageError: this process may not open that many files more.
    """
    limit, used = _limit(), _used()
    if limit is None or used is None:
        return
    needed = PER_WORKER * num_workers + SPARE
    if used + needed > limit:
        fit = max(0, (limit - used - SPARE) // PER_WORKER)
        advice = f"Use at most {fit}" if fit else "There is room for none"
        raise StorageError(
            f"{num_workers} worker{'s' * (num_workers != 1)} would need {needed} file descriptors, "
            f"{PER_WORKER} each and {SPARE} beside; {used} of the {limit} that this process may "
            f"have are in use. {advice}; close files, or raise the limit: ulimit -n "
            f"{used + needed}."
        )


def open_standard_ones() -> None:
    """Open closed standard streams (input, output, errors) as the null device.

    A socket or pipe would take such a number, and what a library prints would go there.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest that is free: this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _limit() -> int | None:
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _used() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd")) - 1  # the listing's own
    except OSError:
        return None
