"""Choice and construction of a vector env's backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plangym_ext.arrays.storage import told_of_memory
from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.core.make_words import with_wrappers
from plangym_ext.core.numbers import at_least, told
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import InvalidOption, UnknownName, WrongKind, suggestion
from plangym_ext.vector.backend import VectorBackend
from plangym_ext.vector.state_backend import StateBackend
from plangym_ext.vector.sub_envs.env_backend import EnvBackend
from plangym_ext.vector.vector_env import PlanVectorEnv
from plangym_ext.workers.scheduling import default_n_workers

#: Sub-envs that an index of a row can count.
_MOST_ENVS = 2**31 - 1
BACKENDS = ("auto", "serial", "process", "kernel", "mujoco", "ray")

Make = Callable[[], Any]


def vector_env(
    make: Make | Sequence[Make],
    num_envs: int | None,
    *,
    wrappers: tuple[Any, ...],
    n_workers: int | None,
    backend: str,
    settings: dict[str, Any],
    timeout: float | None = None,
    invalid: str = "off",
    **options: Any,
) -> PlanVectorEnv:
    """Make the vector env described by `make_vec`'s arguments.

    Args:
        make: constructor of every env, or of each.
        num_envs: how many; None for as many as there are constructors.
        wrappers: what each env is wrapped with.
        n_workers: see `make_vec`.
        backend: see `make_vec`.
        settings: how states are captured; see `EnvRows`.
        timeout: see `make_vec`.
        invalid: see `make_vec`.
        options: for `PlanVectorEnv`.
    """
    n_workers = _checked_workers(n_workers, backend)
    makes = _constructors(make, num_envs)
    if wrappers:
        wrapped: dict[Any, Any] = {}
        for one in makes:  # rows that shared a constructor go on sharing one
            wrapped.setdefault(one, with_wrappers(one, wrappers))
        makes = [wrapped[one] for one in makes]
    with told_of_memory("make_vec", len(makes), make[0] if isinstance(make, Sequence) else make):
        rows = EnvBackend(makes, n_workers, settings, timeout=timeout, invalid=invalid)
        return _built(rows, len(makes), options)


def native_vector_env(env: PlanEnv, num_envs: int | None, options: dict[str, Any]) -> PlanVectorEnv:
    """Return a vector env whose rows are states that `env` steps; it belongs to the result."""
    assert isinstance(env, LiveStepper)
    try:
        num = _checked_number(num_envs) or 1
    except BaseException:
        env.close()
        raise
    return _built(StateBackend(env, num), num, options)


def _built(rows: VectorBackend, num_envs: int, options: dict[str, Any]) -> PlanVectorEnv:
    """Return the vector env of a backend that is not built yet, and that is closed if it fails."""
    try:
        # Built before the vector env: spaces are those of the envs.
        rows.build()
        return PlanVectorEnv(rows, num_envs, **options)
    except BaseException:
        rows.close()
        raise


def _checked_workers(n_workers: int | None, backend: str) -> int | None:
    """Return the number of worker processes; None for none."""
    if backend not in BACKENDS:
        raise UnknownName(
            f"make_vec: backend must be one of {', '.join(BACKENDS)}; got {backend!r}"
            f"{suggestion(str(backend), BACKENDS)}"
        )
    if backend == "serial" and n_workers is not None:
        raise InvalidOption(
            f"make_vec: the serial backend has no workers; got n_workers={n_workers!r}. "
            "Leave it out, or choose backend='process'."
        )
    if backend == "process" and n_workers is None:
        n_workers = default_n_workers()
    return None if n_workers is None else at_least("make_vec: n_workers", n_workers, 1)


def _checked_number(num_envs: int | None) -> int | None:
    if num_envs is None:
        return None
    if at_least("make_vec: num_envs", num_envs, 1) > _MOST_ENVS:
        raise InvalidOption(
            f"make_vec: num_envs must be at most {_MOST_ENVS:,}; got {told(num_envs)}."
        )
    return int(num_envs)


def _constructors(make: Make | Sequence[Make], num_envs: int | None) -> list[Make]:
    """Return one constructor for each sub-env."""
    num_envs = _checked_number(num_envs)
    if callable(make):
        return [make] * (num_envs or 1)
    makes = list(make)
    if not makes or num_envs not in (None, len(makes)):
        raise InvalidOption(
            f"make_vec: expected {num_envs or 'some'} constructors, one for each sub-env; "
            f"got {len(makes)}"
        )
    for row, one in enumerate(makes):
        if not callable(one):
            raise WrongKind(
                f"make_vec: constructor {row} must be a callable that returns a gymnasium env; "
                f"got {one!r}"
            )
    return makes
