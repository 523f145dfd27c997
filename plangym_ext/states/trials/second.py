"""Trial of states in a second instance, which is constructed in a fork.

Constructors may draw random numbers that no reset draws again. States that do not hold these fit
one instance alone, and are of no use to a worker, to another session or after a crash.
"""

from __future__ import annotations

from collections.abc import Callable

from plangym_ext.errors import IncompleteState
from plangym_ext.states.trials.fork import SILENCE, Fork, ForkFailed, Line
from plangym_ext.states.trials.round_trip import Plan, check_round_trip
from plangym_ext.states.trials.subject import Subject

#: Seconds for its constructor and the comparison: of an env that takes longer there is none.
_PATIENCE = SILENCE / 3
#: Its share of the time of a proof, and steps that are played at most.
_SHARE, _STEPS = 0.1, 64


def second_differs(subject: Subject, construct: Callable[[], Subject], seconds: float) -> str:
    """Return the first difference in a second instance.

    It is "" if it does not, or if no second instance can be constructed in a fork.

    Args:
        subject: the first one, which is not moved.
        construct: returns the second one.
        seconds: that the proof may take in all.
    """

    def run(line: Line) -> None:
        try:
            second = construct()
        except IncompleteState as error:  # it is made of other parts
            line.send(f"a second instance: {error}")
            return
        plan = Plan(_SHARE * seconds, _STEPS, seed=2, around=False)
        line.send(check_round_trip(subject, [("a second instance", second)], plan).difference)

    try:
        with Fork(run) as fork:
            found: str = fork.line.receive(_PATIENCE)
            return found
    except ForkFailed:
        # Its constructor raised, hung, or reached outside: there may be one instance alone.
        return ""
