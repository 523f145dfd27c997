"""Choosing how an env's state is captured: the first way that proves itself."""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym

from plangym_ext.errors import IncompleteState, UnknownName, suggestion
from plangym_ext.states.codec import METHODS, StateCodec, candidate_methods, with_recorder
from plangym_ext.states.trials.round_trip import RoundTrip, Subject, check_round_trip

#: What the check at construction plays; `check_env` and the doctor play more. It is not
#: the episode that the codec was built in, so it meets what a reset draws anew.
_QUICK: dict[str, Any] = {"seed": 1, "save_points": (0, 2), "num_steps": 6}
#: Seconds that the checks of all ways together may take, but for two steps of each: well below
#: what a worker may take to start.
_CHECK_SECONDS = 20.0


def check_way(state: str, *others: str) -> None:
    """Refuse what names no way to capture a state.

    Args:
        state: the name.
        others: that are taken as well.

    Raises:
        UnknownName: it is none of "auto", `METHODS`, "approximate" and the others.
    """
    known = ("auto", *METHODS, "approximate", *others)
    if state not in known:
        raise UnknownName(
            f"state must be one of {', '.join(known)}; got {state!r}{suggestion(state, known)}"
        )


def choose_codec(
    env: gym.Env[Any, Any], state: str, *, check: bool, trusted: bool
) -> tuple[gym.Env[Any, Any], StateCodec]:
    """Return the env, perhaps with a recorder in its stack, and the codec bound to it.

    Args:
        env: reset at least once; it is reset and moved by the check.
        state: "auto", one of `METHODS`, or "approximate".
        check: whether a way must pass a short round trip; not asked of "approximate".
        trusted: open pickles that another session made.

    Raises:
        IncompleteState: no way applies and passes; the message says what differs.
        UnknownName: `state` is none of the above.
    """
    check_way(state)
    failures, raised = [], []
    until = time.monotonic() + _CHECK_SECONDS
    for method in candidate_methods(env) if state == "auto" else (state,):
        if method in ("replay", "approximate"):
            env = with_recorder(env, method)
            # A recorder that was just put in knows of no reset yet.
            env.reset(seed=0)
        try:
            codec = StateCodec(env, method, trusted=trusted)
            if not check or method == "approximate":
                return env, codec
            left = max(0.0, until - time.monotonic())
            outcome = check_round_trip(Subject(env, codec), [], time_limit=left, **_QUICK)
        except IncompleteState as error:
            failures.append(f"{method}: {error}")
            continue
        # An env that was restored wrongly may not be able to step on.
        except Exception as error:
            failures.append(f"{method}: {type(error).__name__}: {error}")
            raised.append(error)
            continue
        if outcome.exact:
            codec.step_seconds = outcome.step_seconds
            if not outcome.complete:
                codec.check_note = _stopped(outcome)
            return env, codec
        failures.append(f"{method}: {outcome.difference}")
    if len(raised) == len(failures):
        # The same with each way: it is the env that cannot be stepped.
        raise raised[0]
    name = env.spec.id if env.spec else type(env.unwrapped).__qualname__
    tried = "\n  ".join(failures)
    raise IncompleteState(
        f"{name}: its state cannot be captured exactly.\n  {tried}\n"
        "Give the env get_state and set_state, leave out the wrapper that differs, or register "
        "a codec; state='approximate' takes a family's inexact way if it has one."
    )


def _stopped(outcome: RoundTrip) -> str:
    """Return what to say of a check that its time limit has ended."""
    return (
        f"the check of its states was stopped after {_CHECK_SECONDS:g} s, for a step takes "
        f"{outcome.step_seconds:.2g} s: restored states led to the same future in the "
        f"{outcome.transitions} steps compared. `plangym_ext doctor` compares more."
    )
