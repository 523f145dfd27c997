"""`check_env`: test that an env restores its states exactly, with a report of differences."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import PlangymExtError, WrongKind
from plangym_ext.states.trials.disturbed import DisturbedSubject
from plangym_ext.states.trials.fork import Fork, Line
from plangym_ext.states.trials.fresh import tried
from plangym_ext.states.trials.round_trip import Plan, RoundTrip, check_round_trip
from plangym_ext.states.trials.subject import RemoteSubject, Subject
from plangym_ext.states.trials.trial import place_of, reason_of, sendable


@dataclass(frozen=True)
class EnvReport:
    """The result of `check_env`.

    Attributes:
        name: the env's id.
        layers: `(layer, method, bytes)` of every part of the state.
        state_width: bytes of a row.
        round_trip: outcome of the comparison.
        no_second: why there was no second instance, such as the error of its constructor; ""
            if there was one.
        elsewhere: whether states were restored in another process too. What draws with OpenGL
            has no working copy for that.
    """

    name: str
    layers: tuple[tuple[str, str, int], ...]
    state_width: int
    round_trip: RoundTrip
    no_second: str = ""
    elsewhere: bool = True

    @property
    def exact(self) -> bool:
        """Whether every restored future equalled the real one."""
        return self.round_trip.exact

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for layer, method, width in self.layers:
            yield f"  state of     {layer}: {method}, at most {width} bytes"
        yield f"  state row    {self.state_width} bytes, envelope included"
        found = self.round_trip
        if found.exact:
            other = " and in another one" if self.elsewhere else ""
            second = "" if self.no_second else ", and in a second instance"
            yield (
                f"  round trip   exact so far: {found.steps:,} steps, {found.episodes:,} episodes; "
                f"{found.transitions:,} transitions after a restore equal the first run byte for "
                f"byte, in the same process{other}{second}"
            )
        else:
            yield f"  round trip   NOT EXACT: {found.difference}"
        if self.no_second:
            yield f"  no second    instance could be constructed: {self.no_second}"


def check_env(
    env: PlanEnv,
    *,
    seed: int = 0,
    num_steps: int = 300,
    seconds: float = 10.0,
    progress: Callable[[int, int], None] | None = None,
) -> EnvReport:
    """Test that an env's restored states lead to the same future, on copies of the env.

    The env itself is not touched. States are restored in the copy that has played, in a
    process that has not, and in a second instance. Where a copy of this process hangs, as one
    does that draws with OpenGL, two instances are constructed in a new process.

    Args:
        env: any `PlanEnv`; of one with workers the local env is checked.
        seed: of the resets and the random actions.
        num_steps: steps that are played at most.
        seconds: that it takes at most, but for a step in each instance.
        progress: called from time to time with the step that is played, and of how many; not
            from a new process.

    Returns:
        The report. What the env raises in a copy is its difference.

    Raises:
        PlangymExtError: a value of the env is refused; or, as `ForkFailed`, a copy of this process
            hung or died, and so did a new one.
    """
    local = env if isinstance(env, GymEnv) else getattr(env, "plan_env", None)
    if local is None:
        raise WrongKind(f"check_env: env must be an env from make; got {type(env).__name__}")
    plan = Plan(seconds, num_steps, seed=seed)
    # As its states are captured here, which is what is to be checked: not proved anew.
    known: dict[str, Any] = {"check": False, "capture": local.exactness.method}
    report: Any
    report, _ = tried(
        local.gym_env,
        lambda line: _sent_report(local, plan, line),
        functools.partial(local.constructor, **known),
        functools.partial(_report, plan=plan, forks=False),
        progress or (lambda *_: None),
    )
    if isinstance(report, BaseException):
        raise report
    trip = report.round_trip
    if trip.exact and local.exact is not False:
        local.exactness = dataclasses.replace(
            local.exactness,
            proved=local.exactness.proved or "fork",
            steps=trip.steps,
            episodes=trip.episodes,
            transitions=trip.transitions,
        )
    return report


def _sent_report(local: GymEnv, plan: Plan, line: Line) -> EnvReport | BaseException:
    plan.busy = lambda done, total: line.busy((done, total))
    try:
        return _report(local, plan)
    except Exception as error:
        return sendable(error)


def _report(local: GymEnv, plan: Plan, *, forks: bool = True) -> EnvReport:
    subject = Subject(local.gym_env, local.codec)
    others: list[tuple[str, Any]] = []
    with contextlib.ExitStack() as stack:
        if forks:
            there = DisturbedSubject(local.gym_env, local.codec)
            other = stack.enter_context(Fork(there.serve))
            others.append(("another process", RemoteSubject(other.line)))
        no_second = ""
        try:
            second = local.clone()
        except Exception as error:  # of the env's constructor, which has gone well before: told
            no_second = f"{type(error).__name__}: {error}"
        else:
            others.append(("a second instance", Subject(second.gym_env, second.codec)))
        try:
            trip = check_round_trip(subject, others, plan)
        except PlangymExtError:
            raise
        except (Exception, SystemExit) as error:  # of the env
            reason = reason_of(error) or f"it has raised {place_of(error)}"
            trip = RoundTrip(exact=False, transitions=0, difference=reason)
    layers = tuple((name, part.method, part.width) for part, name in local.codec.described())
    return EnvReport(local.name, layers, local.state_width, trip, no_second, forks)
