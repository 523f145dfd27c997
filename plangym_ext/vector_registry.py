"""`make_vec`: construction of a vector env by name, with its backend."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from plangym_ext.core.inherited_options import check_factory
from plangym_ext.errors import InvalidOption
from plangym_ext.registry import NATIVE, check_cluster, constructor_of, env_here, find_spec, ray_env

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plangym_ext.core.plan_env import PlanEnv
    from plangym_ext.states.layer_attributes import Binding
    from plangym_ext.vector.vector_env import PlanVectorEnv


def make_vec(
    name_or_factories: str | Callable[[], Any] | Sequence[Callable[[], Any]],
    num_envs: int | None = None,
    *,
    n_workers: int | None = None,
    backend: str = "auto",
    autoreset_mode: Any = "next_step",
    observation_mode: Any = "same",
    copy: bool = True,
    wrappers: Sequence[Any] = (),
    capture: str = "auto",
    check: bool | float = True,
    trust: bool = False,
    audit: str = "raise",
    timeout: float | None = 30.0,
    invalid: str = "raise",
    address: str | None = None,
    **kwargs: Any,
) -> PlanVectorEnv:
    """Make a `gymnasium.vector.VectorEnv` whose sub-envs can be saved, restored and branched.

    Args:
        name_or_factories: an id as for `make`, a callable that returns a gymnasium env, or
            one callable for each sub-env. Callables travel to workers by cloudpickle.
        num_envs: sub-envs; 1 if None, or as many as there are callables.
        n_workers: worker processes, which share the sub-envs evenly; with "auto", 0 for none.
        backend: "serial" (this process), "process" (workers; as many as there are
            processors if `n_workers` is None), "kernel" or "mujoco" (states stepped
            natively in this process), "ray" (states stepped on the machines of a Ray
            cluster; one name or callable, numeric infos), or "auto": "process" if
            `n_workers` is given, else "mujoco" or "kernel" where there is one for the name,
            else "process" if what a step costs, times the sub-envs, is worth it (only for a
            name without wrappers, as callables may share objects with this process), else
            "serial".
        autoreset_mode: "next_step", "same_step", "disabled" or gymnasium's `AutoresetMode`.
        observation_mode: "same", "different", or a tuple of batched and single space.
        copy: whether observations are fresh arrays; without, they are memory that the next
            call changes.
        wrappers: callables that wrap each env, or `(callable, arguments)`, innermost first.
        capture: how states are captured, as for `make`; "off" for no states at all.
        check: as for `make`.
        trust: as for `make`.
        audit: as for `make`.
        timeout: seconds that one sub-env in a worker may take for one step or reset before it
            counts as hung: its worker is stopped and replaced, and the call raises
            `WorkerTimeout`, which names it and shows its stack. None for no limit. Building a
            sub-env may take as long, and two minutes at least; from 30 on so may resets and steps
            until a worker has stepped, and later ones thrice as long as the longest so far.
        invalid: what is done about rewards and observations that are not a number, or infinite
            where the space has a bound: "raise" `InvalidObservation`, "mark" the sub-envs in
            infos under `invalid`, "off", or "strict": as "raise", and finite observations out
            of their space's bounds are refused as well. Unless "off", observations must have the
            shape of the space and be held by its type unchanged; "off" casts, as gymnasium's own
            vector envs do.
        address: of the cluster of the ray backend, as for `make`.
        kwargs: for the env's constructor; only with a name. Native backends take `frameskip`
            and `threads` too, as `make` does; `obs_type` and its kin are as for `make`.

    Returns:
        The vector env. Close it, or use it as a context manager.

    Raises:
        UnknownName: no such env, backend, mode, policy or option.
        MissingExtra: the simulator is not installed; the message says how to do so.
        RuntimeError: the spaces of sub-envs do not fit together.
    """
    from plangym_ext.core.invalid import checked_policy
    from plangym_ext.core.make_words import checked_wrappers, name_of, wrappers_of
    from plangym_ext.core.numbers import check_flags, seconds_or_none
    from plangym_ext.states.trials.audit import checked_audit
    from plangym_ext.states.trials.choice import check_way
    from plangym_ext.vector.make import native_vector_env, vector_env

    # On all backends alike, also where there is nothing that could hang or be looked for.
    seconds_or_none("make_vec: timeout", timeout)
    check_flags("make_vec", trust=trust, copy=copy)
    checked_policy(invalid, "make_vec")
    check_way(capture, "off")
    check_cluster("make_vec", backend, address)
    wrappers = checked_wrappers("make_vec", wrappers)
    name_or_factories, kwargs = name_of("make_vec", name_or_factories, kwargs)
    audit = checked_audit(audit, "make_vec")
    settings = {"capture": capture, "check": check, "trust": trust, "audit": audit}
    options = {"autoreset_mode": autoreset_mode, "observation_mode": observation_mode, "copy": copy}
    if backend == "ray":
        arguments = {**settings, "invalid": invalid}
        remote = _ray_env(
            name_or_factories,
            arguments,
            kwargs,
            wrappers=wrappers,
            timeout=timeout,
            n_workers=n_workers,
            address=address,
        )
        return _specified(native_vector_env(remote, num_envs, options), name_or_factories, kwargs)
    note, here = "", backend == "auto" and n_workers == 0
    n_workers = None if here else n_workers
    named = isinstance(name_or_factories, str)
    may_be_native = named and n_workers is None and not wrappers and capture != "off"
    if backend in NATIVE and not may_be_native:
        raise InvalidOption(
            f"make_vec: the {backend} backend takes a name, no workers, no wrappers and a state "
            "other than 'off'. Choose backend='process' or 'serial'."
        )
    if backend in ("auto", *NATIVE) and may_be_native:
        arguments = {**settings, "invalid": invalid}
        env, n_workers, note = _native_env(
            name_or_factories, backend, num_envs or 1, arguments, kwargs
        )
        if env is not None:
            return _specified(native_vector_env(env, num_envs, options), name_or_factories, kwargs)
        if here:
            n_workers, note = None, ""
        backend = "process" if n_workers else "serial"
    make: Any = name_or_factories
    if isinstance(name_or_factories, str):
        make = constructor_of(make_vec, name_or_factories, capture, None, kwargs)[0]
    else:
        kwargs, more = wrappers_of("make_vec", kwargs, None)
        check_factory("make_vec", make, kwargs)
        wrappers = (*more, *wrappers)
    found = vector_env(
        make,
        num_envs,
        wrappers=wrappers,
        n_workers=n_workers,
        backend=backend,
        settings=settings,
        timeout=timeout,
        invalid=invalid,
        **options,
    )
    found.choice_note = note
    return _specified(found, name_or_factories, kwargs)


def _specified(venv: PlanVectorEnv, name: Any, kwargs: dict[str, Any]) -> PlanVectorEnv:
    """Give a vector env the spec of its id, as `gymnasium.make_vec` does; factories have none."""
    if isinstance(name, str):
        venv.spec = copy.deepcopy(find_spec(name))
        venv.spec.kwargs |= kwargs
    return venv


def _native_env(
    name: Any, backend: str, num_envs: int, settings: dict[str, Any], kwargs: dict[str, Any]
) -> tuple[PlanEnv | None, int | None, str]:
    """Return the env on a native backend; if it has none, the workers that pay for `num_envs` rows.

    Returns:
        The env, or None if "auto" was asked for and it has none; the number of workers, None
        for none; and why there are any.
    """
    from plangym_ext.errors import BackendUnavailable, IncompleteState
    from plangym_ext.native.kernel.known import may_have_kernel
    from plangym_ext.workers.scheduling import chosen_workers, proved_seconds

    own = dict(kwargs)
    threads, frameskip = own.pop("threads", None), own.pop("frameskip", None)
    build, family, frameskip = constructor_of(make_vec, name, settings["capture"], frameskip, own)
    target = find_spec(name).entry_point
    if backend == "auto" and not may_have_kernel(target) and (family is None or not family.native):
        found = _tried_unbuilt(build, settings)
        if found is None:
            return None, None, ""
        n_workers, reason = chosen_workers(
            found.step_seconds, own.get("render_mode"), target, num_envs
        )
        return None, n_workers and min(n_workers, num_envs), reason if n_workers else ""
    settings = {**settings, "frameskip": frameskip}
    try:
        env: Any = env_here(build, family, backend, threads, settings)
    except IncompleteState:
        if backend in NATIVE:
            raise
        return None, None, ""
    if env.backend in NATIVE:
        if num_envs == 1 or _makes_equals(build, env, settings):
            return env, None, ""
        env.close()
        reason = "its constructor makes envs that differ, and rows of native backends are of one"
        if backend in NATIVE:
            raise BackendUnavailable(
                f"make_vec: {name} cannot be on the {backend} backend: {reason}. Use "
                "backend='serial' or 'process', or arguments that leave nothing to chance."
            )
        return None, None, reason
    try:
        mode = env.gym_env.render_mode
        n_workers, reason = chosen_workers(proved_seconds(env), mode, target, num_envs)
    finally:
        env.close()
    if n_workers is None:
        return None, None, ""
    return None, min(n_workers, num_envs), reason


def _tried_unbuilt(build: Any, settings: dict[str, Any]) -> Binding | None:
    """Return how the states of an env are captured that is constructed in a fork; None if unknown.

    So nothing is constructed here but the rows. Whatever is wrong they will tell.
    """
    from plangym_ext.states.trials.choice import prove_unbuilt

    try:
        return prove_unbuilt(
            build, settings["capture"], check=settings["check"], trusted=settings["trust"]
        )
    except Exception:
        return None


def _makes_equals(build: Any, env: Any, settings: dict[str, Any]) -> bool:
    """Return whether another env of a constructor is the same, but for its state."""
    from plangym_ext.core.gym_env import GymEnv
    from plangym_ext.states.envelope import fingerprint

    other = GymEnv(build, **{**settings, "check": False})
    try:
        return fingerprint(other.envelope.identity) == fingerprint(env.envelope.identity)
    finally:
        other.close()


def _ray_env(
    name_or_factory: Any,
    settings: dict[str, Any],
    kwargs: dict[str, Any],
    *,
    wrappers: Sequence[Any],
    **options: Any,
) -> PlanEnv:
    """Return the env on the ray backend whose states are the rows of a vector env."""
    one = isinstance(name_or_factory, str) or callable(name_or_factory)
    if not one or wrappers or settings["capture"] == "off":
        raise InvalidOption(
            "make_vec: the ray backend takes one name or callable, no wrappers and a state other "
            "than 'off'. Have a callable wrap the env, or choose backend='process'."
        )
    capture = settings["capture"]
    build, family, frameskip = constructor_of(make_vec, name_or_factory, capture, None, kwargs)
    env = ray_env(build, family, {**settings, "frameskip": frameskip}, **options)
    try:
        env.check_live()
    except BaseException:
        env.close()
        raise
    return env


def make_registered_vec(env_id: str, num_envs: int = 1, **kwargs: Any) -> PlanVectorEnv:
    """Make a vector env for `gymnasium.make_vec("plangym_ext/Vec-v0", env_id=...)`."""
    return make_vec(env_id, num_envs, **kwargs)
