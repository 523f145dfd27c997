"""Choice of an env's capture method: the first that passes its trial, or a cheaper one.

Every way is tried in a fork of this process, on its copy of the env. The env itself is not
reset, stepped or looked into, and stays as its constructor made it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from plangym_ext.errors import IncompleteState, InvalidOption, UnknownName, suggestion
from plangym_ext.states.codec import METHODS, candidate_methods, layers
from plangym_ext.states.families import custom_families, family_of, is_own_class
from plangym_ext.states.in_place.part import remember
from plangym_ext.states.layer_attributes import Binding, Cost
from plangym_ext.states.outside import module_of
from plangym_ext.states.replay import ResetRecorder
from plangym_ext.states.trials.digests import digest
from plangym_ext.states.trials.fork import SILENCE, Fork, ForkFailed, Line
from plangym_ext.states.trials.fresh import class_name, tried
from plangym_ext.states.trials.round_trip import Plan
from plangym_ext.states.trials.trial import Failed, Raised, Trial, sendable
from plangym_ext.states.wrapper_parts import STATELESS, wrapper_part

#: Seconds that the proof of a way may take, but for a step in each process: the default.
PROOF_SECONDS = float(os.environ.get("PLANGYM_EXT_PROOF_SECONDS", "1"))
#: Steps of a simulator whose codec comes with the library, and is tested with it; fewer if they
#: take long.
_CERTIFIED_STEPS = 8
#: Seconds beside it for constructing the env, and for all ways together.
_PATIENCE = 90.0

#: Another way has to cost that many times less. Less than these seconds are not asked of it, nor
#: less than a step takes: rows of so little cost stay as they are.
_WORTH_IT, _CHEAP = 3.0, 500e-6
#: What was proved in this process, by kind of env, and how often for each stack of classes.
_proved: dict[tuple[Any, ...], Binding] = {}
_times: dict[tuple[Any, ...], int] = {}
#: By the first exact way, the others, and the classes of the layers: the way that was taken
#: instead, if any.
_order: dict[tuple[str, ...], tuple[str, ...]] = {}


def check_way(capture: str, *others: str) -> None:
    """Refuse an unknown name of a capture method.

    Raises:
        UnknownName: it is none of "auto", `METHODS`, "approximate" and the others.
    """
    known = ("auto", *METHODS, "approximate", *others)
    if not isinstance(capture, str) or capture not in known:
        raise UnknownName(
            f"capture must be one of {', '.join(known)}; got {capture!r}"
            f"{suggestion(capture, known)}"
        )


def prove(
    env: gym.Env[Any, Any],
    capture: str,
    *,
    check: bool | float,
    trusted: bool,
    make: Callable[[], Any] | None = None,
) -> Binding:
    """Return the proved capture method of an env, which stays unchanged.

    Args:
        env: as its constructor made it.
        capture: "auto", one of `METHODS`, or "approximate".
        check: whether a way must prove itself, or the seconds that this may take; not asked of
            "approximate".
        trusted: open pickles that another session made.
        make: constructor of the env, which is called in a fork for a second instance, and in a
            new process where a fork of this one cannot try it; None for neither.

    Raises:
        IncompleteState: no way applies and passes; the message says what differs.
        UnknownName: `capture` is none of the above.
        Exception: what the env raises however its state is captured.
    """
    check_way(capture)
    if not isinstance(check, bool | int | float) or not 0 <= check < math.inf:
        raise InvalidOption(f"check must be True, False or a number of seconds; got {check!r}.")
    if not isinstance(trusted, bool):
        raise InvalidOption(f"trust must be True or False; got {trusted!r}.")
    stack = (str(env.spec), *map(class_name, layers(env)), capture, check, trusted)
    # A digest does not look into spaces, on which a way depends: a replay stores actions.
    seen = f"{getattr(env, 'action_space', None)!r} {getattr(env, 'observation_space', None)!r}"
    digests = (digest(vars(layer)) for layer in layers(env))
    kind = (*stack, re.sub(" at 0x[0-9a-f]+", "", seen), *digests)
    if kind not in _proved:
        # Envs of one class that differ in their attributes mostly differ in nothing that counts.
        _times[stack] = _times.get(stack, 0) + 1
        seconds = PROOF_SECONDS if check is True else float(check)
        plan = Plan(seconds / _times[stack])
        if is_certified(env):
            plan = Plan(0.0, _CERTIFIED_STEPS)
        trial = Trial(capture, plan if check else None, trusted, make=make)
        _proved[kind] = _first_way(trial, env, make)
    return _proved[kind]


def prove_unbuilt(
    make: Callable[[], Any], capture: str, *, check: bool | float, trusted: bool
) -> Binding:
    """Return the proved capture method of an env that is constructed only in a fork.

    Raises:
        Exception: what the constructor raises there, and as `prove`.
        ForkFailed: the fork hung or died.
    """

    def run(line: Line) -> None:
        try:
            found: Any = prove(make(), capture, check=check, trusted=trusted, make=make)
            # For the env proper, when that is constructed.
            found = next((kind, one) for kind, one in _proved.items() if one is found)
        except (Exception, SystemExit) as error:
            found = sendable(error)
        line.send(found)

    with Fork(run) as fork:
        found = fork.line.receive(SILENCE + _PATIENCE)
    if isinstance(found, BaseException):
        raise found
    kind, binding = found
    return _proved.setdefault(kind, binding)


def is_audited(env: gym.Env[Any, Any], binding: Binding) -> bool:
    """Return whether the states of an env are audited in use.

    All are, proved or not, but for those that the library's tests cover or that are known to be
    inexact.
    """
    return binding.exactness.exact is not False and not is_certified(env)


def is_certified(env: gym.Env[Any, Any]) -> bool:
    """Return whether codecs of this library, which its tests cover, capture the whole env."""
    *above, simulator = layers(env)
    family = family_of(simulator)
    if family is None or family.hosts or family in custom_families():
        return False
    if not is_own_class(simulator):
        return False
    return all(
        module_of(type(layer)).partition(".")[0] in ("gymnasium", "plangym_ext")
        and (type(layer) in STATELESS or wrapper_part(layer) is not None)  # type: ignore[arg-type]
        for layer in above
        if not isinstance(layer, ResetRecorder)  # what a replay needs
    )


def _first_way(trial: Trial, env: gym.Env[Any, Any], make: Callable[[], Any] | None) -> Binding:
    failures: list[str] = []
    raised: list[BaseException] = []
    faults: list[str] = []
    if trial.capture in ("auto", "simulator"):
        remember(layers(env))  # by which a simulator is known that the env holds
    waiting = [*candidate_methods(env)] if trial.capture == "auto" else [trial.capture]
    while waiting:
        method = waiting.pop(0)
        found = _outcome(dataclasses.replace(trial, method=method), env, make)
        if isinstance(found, Binding):
            # Another way works, which is slower or holds more: the cause would not be looked for.
            for fault in faults:
                warnings.warn(f"{fault}. The way {method!r} is taken instead.", stacklevel=2)
            return _cheapest(trial, found, waiting, env, make)
        failures.append(f"{method}: {found}")
        if isinstance(found, Raised):
            raised.append(found.error)
            if found.place:
                faults.append(f"{method}: a fault of plangym_ext, please report it: {found}")
    if len(raised) == len(failures):
        # The same with each way: it is the env that cannot be stepped.
        raise raised[0]
    name = env.spec.id if env.spec else type(env.unwrapped).__qualname__
    tried = "\n  ".join(failures)
    raise IncompleteState(
        f"{name}: its state cannot be captured exactly.\n  {tried}\n"
        "Give the env get_state and set_state, leave out the wrapper that differs, or register "
        "a codec; capture='approximate' takes a family's inexact way if it has one."
    )


def _cheapest(
    trial: Trial,
    first: Binding,
    others: list[str],
    env: gym.Env[Any, Any],
    make: Callable[[], Any] | None,
) -> Binding:
    """Return the exact way whose rows cost least, if those of the first one are dear.

    Another way has to cost less than a third of it: measured times vary, and states of one way
    do not fit envs that take another.
    """
    if trial.plan is None or first.method == "codec" or first.exactness.proved != "fork":
        return first
    kind = (first.method, *others, *map(class_name, layers(env)))
    bound = first.cost.row / _WORTH_IT
    if kind in _order:
        # Envs of the same classes are captured in the same way, whatever a measure says again.
        order, bound = _order[kind], math.inf
    elif bound < max(_CHEAP, first.step_seconds or 0.0):
        order = ()
    else:
        order = _by_cost(trial, first, others, env, bound)
    for method in order:
        again = _outcome(dataclasses.replace(trial, method=method), env, make)
        if isinstance(again, Binding) and again.cost.row < bound:
            _order[kind] = (method,)
            why = f"a row takes {again.cost} by {method}, and {first.cost} by {first.method}"
            return dataclasses.replace(again, note="; ".join(filter(None, [why, again.note])))
    _order.setdefault(kind, ())
    return first


def _by_cost(
    trial: Trial, first: Binding, others: list[str], env: gym.Env[Any, Any], bound: float
) -> tuple[str, ...]:
    """Return the ways whose rows cost less than a bound, the cheapest first."""
    # A second measure of the first way: a machine that is busy for a moment makes rows dear.
    again = _row_seconds(trial, first.method, env)
    bound = min(bound, again / _WORTH_IT)
    if bound < max(_CHEAP, first.step_seconds or 0.0):
        return ()
    measured: dict[str, float] = {}
    for method in others:
        # Of a replay a short play shows less than what it costs.
        least = 0.0
        if method == "replay":
            least = (first.step_seconds or 0.0) * _depth(env, first.cost)
        if least < bound and (row := _row_seconds(trial, method, env)) < bound:
            measured[method] = max(row, least)
    return tuple(sorted(measured, key=lambda method: measured[method]))


def _row_seconds(trial: Trial, method: str, env: gym.Env[Any, Any]) -> float:
    """Return the seconds of a row in a short play in a fork; infinite where that fails."""
    this = dataclasses.replace(trial, method=method)
    with contextlib.suppress(ForkFailed):
        with Fork(lambda line: line.send(this.cost(env, line))) as fork:
            found = fork.line.receive(SILENCE)
        if isinstance(found, Cost):
            return found.row
    return math.inf


def _depth(env: gym.Env[Any, Any], cost: Cost) -> float:
    """Return the steps that a replay plays again for a state in the middle of an episode."""
    if cost.episodes:
        return cost.length / 2
    found = (getattr(layer, "_max_episode_steps", None) for layer in layers(env))
    # Without a limit an episode, and so a replay, may become as long as it likes.
    return min([limit for limit in found if limit is not None], default=math.inf) / 2


def _outcome(
    trial: Trial, env: gym.Env[Any, Any], make: Callable[[], Any] | None
) -> Binding | Failed:
    """Return what came of a trial: in a fork, or in a new process where a fork cannot do it."""
    found: Binding | Failed
    try:
        found, reason = tried(env, lambda line: trial.outcome(env, line), make, trial.outcome)
    except ForkFailed as error:
        return Failed(str(error))
    if not reason or isinstance(found, Failed):
        return found
    # Of a codec of the library it stays "library": this was no proof of it.
    proved = "worker" if found.exactness.proved == "fork" else found.exactness.proved
    exactness = dataclasses.replace(found.exactness, proved=proved, notes=(reason,))
    return dataclasses.replace(found, exactness=exactness)
