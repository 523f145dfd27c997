"""Diagnosis of a failed restore: variables outside the state that differ.

Called only after a capture method has failed, in a temporary process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from plangym_ext.states.trials.subject import Subject
from plangym_ext.states.trials.surroundings import changed, surroundings, what_no_state_holds

#: Steps after which the marks are compared: one names the cause best, many reach a rare one.
_AFTER = (1, 64)
_MOST_NAMES = 3


def blamed(subject: Subject, actions: Sequence[Any], seed: int, has_reset: bool) -> str:
    """Return a sentence with the variables that a state leaves out, or that none was found.

    Args:
        subject: whose restored states led elsewhere; it is reset and played.
        actions: that were played before that; None is a reset.
        seed: of the reset.
        has_reset: whether the env was reset between the restore and what differs.
    """
    with contextlib.suppress(Exception):  # an env that was restored wrongly may raise anything
        names = _not_brought_back(subject, actions, seed)
        if names:
            return f". The state does not bring back {', '.join(names[:_MOST_NAMES])}"
    with contextlib.suppress(Exception):
        held = what_no_state_holds(subject.env)
        pickled = [f"a pickle, for {one}" for one in _pickled_for(subject)]
        if held or pickled:
            return f". What differs may lie in {', '.join([*held, *pickled][:_MOST_NAMES])}"
    if has_reset:
        return (
            ". A reset without a seed may draw one from the system, as random.Random() and "
            "numpy.random.default_rng() do: make a generator in reset only `if seed is not None`"
        )
    return (
        ". Nothing that was looked at in the process differs: it may be the time, an address, "
        "memory of compiled code, a table of a library, or a generator that spawns others"
    )


def _pickled_for(subject: Subject) -> list[str]:
    found = (getattr(part, "pickled_for", "") for part in subject.codec.parts)
    return [reason for reason in found if reason]


def _not_brought_back(subject: Subject, actions: Sequence[Any], seed: int) -> list[str]:
    """Return the names of what is another after a restore than where the state was captured."""
    subject.env.reset(seed=seed)
    at = 0
    for steps in _AFTER:
        before = surroundings(subject.env, deep=True)
        state = subject.save()
        for action in actions[at : at + steps]:
            subject.play_reset() if action is None else subject.play(action)
        at += steps
        with contextlib.suppress(Exception):  # that it cannot be restored shows in the marks too
            subject.restore(state)
        names = changed(before, surroundings(subject.env, deep=True), grown=True)
        if names:
            return names
    return []
