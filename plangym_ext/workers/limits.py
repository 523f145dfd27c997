"""Limits of workers: how often they may die, and every timeout."""

from __future__ import annotations

# Deaths ------------------------------------------------------------------------------

#: Workers that one row may kill before it is held to be the cause.
MAX_KILLS = 2
#: Workers with sub-envs that a signal which others send, too, may end during one call: such at the
#: same row's step, and such at any other moment, if they have gone on for some seconds, too. On a
#: busy machine workers may be killed faster than they start.
MAX_SIGNALS_AT_ROW, MAX_SIGNALS, SIGNALS_SECONDS = 3, 30, 300.0
#: Rounds of a batch in a row that may lose workers without any row being done or suspected.
MAX_IDLE_ROUNDS = 3
#: Times that a worker may be started for one batch, on average.
MAX_STARTS = 3
#: Ray actors that may die, one after the other, before one has built its env.
MAX_ACTOR_DEATHS = 5
#: Times that a run of a sweep is started again after a signal killed it.
RUN_RETRIES = 2

# Seconds -----------------------------------------------------------------------------

#: That a new worker may take to build its env.
START_TIMEOUT = 120.0
#: That a worker may spend on one row, unless told otherwise: steps of the slowest simulators
#: take one or two.
ROW_TIMEOUT = 30.0
#: That a worker may leave a request unread.
SEND_TIMEOUT = 300.0
#: That a worker may take to read its first message, if that is larger than a socket.
FIRST_MESSAGE_TIMEOUT = 120.0
#: That the fork server may take to answer; its own imports, and those of torch, come first.
SERVER_TIMEOUT = 60.0
#: Without a running worker, after which the fork server ends.
SERVER_IDLE = 60.0
#: That workers may take to end with the fork server's parent.
ORPHAN_GRACE = 2.0
#: That a worker may take to write its stack.
STACK_TIMEOUT = 0.15
#: That a worker may take to leave, and a Ray actor to end its workers, before it is killed.
CLOSE_GRACE, ACTOR_CLOSE_GRACE = 1.0, 5.0
#: Within which one Ray actor has to be ready when none is.
ACTOR_START_TIMEOUT = 90.0
#: That a Ray worker may wait for a processor of its own before it shares one with others.
PROCESSOR_PATIENCE = 15.0
#: Between two looks at workers, and at Ray actors, that have not answered.
LOOK, ACTOR_LOOK = 0.1, 0.25
#: Between two looks at samplers' workers, other learners, and the process of a Ray task.
SLOW_LOOK = 0.5
#: That a learner may take to say why it has left the others.
LEARNER_GRACE = 5.0
#: That the run of a Ray task whose process died may take to end.
TASK_GRACE = 30.0

#: A row may take so many times as long as the longest one that was seen to end.
_TIMES_SLOWEST = 3


def start_limit(timeout: float | None) -> float | None:
    """Return the time limit of a worker's start, from the limit of a row."""
    return None if timeout is None else max(START_TIMEOUT, timeout)


def row_limit(
    timeout: float | None, *, first: bool, slowest: float = 0.0, steps: int = 1
) -> float | None:
    """Return the time limit of a row, after which its worker counts as hung.

    A limit below the default is taken at its word. Else the first rows, in which envs compile and
    load, have the limit of a start, and envs with slow rows have a longer one.

    Args:
        timeout: as the user has set it, for a row of up to 30 steps.
        first: whether no row of such a worker has ended yet.
        slowest: seconds of the longest row that was seen to end.
        steps: of the row.
    """
    if timeout is None or timeout < ROW_TIMEOUT:
        return timeout
    known = max(timeout, timeout / ROW_TIMEOUT * steps, _TIMES_SLOWEST * slowest)
    return max(known, START_TIMEOUT) if first else known
