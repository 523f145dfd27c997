"""`make`: construction of an env by name, with its family, wrappers and backend.

The façade that joins env families with backends. Simulators are imported when one
of their envs is asked for, never before.
"""

from __future__ import annotations

import copy
import functools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from plangym_ext.core.inherited_options import check_factory, import_module_of, raise_if_unknown
from plangym_ext.errors import (
    InvalidOption,
    MissingExtra,
    NoKernel,
    UnknownName,
    WrongKind,
    installing,
    suggestion,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from plangym_ext.core.gym_env import GymEnv
    from plangym_ext.core.plan_env import PlanEnv
    from plangym_ext.states.families import Family

BACKENDS = ("auto", "serial", "process", "kernel", "mujoco", "ray")

#: Those that run batches in this process, in compiled code.
NATIVE = ("kernel", "mujoco")


def make(
    name: str | Callable[[], Any] | None = None,
    *,
    n_workers: int | None = None,
    backend: str = "auto",
    frameskip: int | tuple[int, int] | None = None,
    autoreset: bool = True,
    capture: str = "auto",
    check: bool | float = True,
    trust: bool = False,
    audit: str = "raise",
    timeout: float | None = 30.0,
    invalid: str = "raise",
    threads: int | None = None,
    address: str | None = None,
    ray: bool = False,
    **kwargs: Any,
) -> PlanEnv:
    """Make an env that is stepped in batches from any saved state.

    Args:
        name: a gymnasium id, such as "CartPole-v1" or "ALE/MsPacman-v5"; one with the
            module that registers it, such as "my_package.envs:Corridor-v0"; a family's own,
            such as "dm_control/cheetah-run-v0"; or a callable that returns a gymnasium env,
            such as its class. Callables travel to workers by cloudpickle.
        n_workers: worker processes for batches; 0 for none, in which case "auto" chooses
            among the backends of this process; None leaves it to `backend`.
        backend: "serial" (a Python loop, the reference), "process" (workers), "kernel" (a compiled
            loop in this process), "mujoco" (MuJoCo's own threads, for envs that a task describes),
            "ray" (the machines of a Ray cluster, with `n_workers` on all together), or "auto":
            "process" if `n_workers` is given, else "mujoco" or "kernel" where there is one, else
            the faster of "process", on all processors that this process may use, and "serial".
            Its workers start with the first batch; only a name or a class that can be
            imported is given to them unasked. `env.backend` says which it is, and
            `env.backend_note` why. The results are the same bytes on each.
        frameskip: env steps for which one control step holds an action. None keeps
            the env's own (4 frames for `ALE/...-v5`); a number replaces it, so the
            frames are never multiplied. Atari takes a range to draw from too.
        autoreset: whether an env or row that ended is reset before its next step.
        capture: how the state is captured: "auto" for the first way that is proved to be
            exact, or "codec", "own", "simulator", "snapshot", "replay"; "approximate"
            is a family's inexact way and never chosen unless named here.
        check: whether the way must prove itself now, on a copy of the env; or the seconds that
            this may take, 1 by default.
        trust: open pickles in states that another session made. They can run any code.
        audit: what is done when an audit finds a difference. While states are in use, futures are
            played again in copies of the process, for at most 1 % of the time: "raise"
            `InexactState`, "warn", or "off" for no audits.
        timeout: seconds that a worker may spend on one row before it is held to hang: it is
            stopped, replaced and named. None waits for ever. Building an env may take as long, and
            two minutes at least; from 30 on so may the first rows, and later ones thrice as long as
            the longest so far, or a second a step. Backends without workers have no limit.
        invalid: what batches do about rewards and observations that are not a number, or
            infinite where the space has a bound: "raise" `InvalidObservation`, "mark" the
            rows in an info column `invalid`, "off", or "strict": as "raise", and finite
            observations out of their space's bounds are refused as well.
        threads: of the kernel backend, to share the rows of a batch; None lets the size
            of the batch decide.
        address: of the cluster of the ray backend, as for `ray.init`; None for the one that this
            process has joined or that RAY_ADDRESS names, else for one of this machine alone.
        ray: plangym's word for `backend="ray"`.
        kwargs: for the env's constructor, as in `gymnasium.make`, and the options of its
            family, such as `episodic_life` for Atari; only with an id. With a callable too:
            `wrappers`, of `env` or `(wrapper, arguments)`, innermost first; `obs_type`, for an env
            without its own: "coords", "rgb" or "grayscale" pictures; and `return_image`, a picture
            in each info as "rgb". With an id `remove_time_limit`; in its place dm_control's
            `domain_name` and `task_name`; of console games `state`, where episodes start. With
            `delay_setup` an env has workers, is built at first use, and pickles before.

    Returns:
        The env; every backend is a `PlanEnv`. Close it, or use it as a context manager.

    Raises:
        UnknownName: no such env, module, backend or option.
        MissingExtra: the simulator is not installed; the message says how to do so.
        IncompleteState: the env's state cannot be captured exactly.
        BackendUnavailable: the backend that was asked for cannot run this env.
    """
    from plangym_ext.core.make_words import name_of
    from plangym_ext.core.numbers import check_flags, seconds_or_none
    from plangym_ext.states.trials.audit import checked_audit

    seconds_or_none("make: timeout", timeout)  # also where there is nothing that could hang
    check_flags("make", trust=trust, autoreset=autoreset, ray=ray)
    backend = "ray" if ray and backend == "auto" else backend
    _check_choice(backend, n_workers, threads)
    check_cluster("make", backend, address, ray=ray)
    delayed = bool(kwargs.pop("delay_setup", False))
    if delayed and backend not in ("auto", "process"):
        raise InvalidOption(f"make: delay_setup is for workers; got backend={backend!r}.")
    named, kwargs = name_of("make", name, kwargs)
    build, family, frameskip = constructor_of(make, named, capture, frameskip, kwargs)
    settings: dict[str, Any] = {
        "frameskip": frameskip,
        "autoreset": autoreset,
        "capture": capture,
        "check": check,
        "trust": trust,
        "audit": checked_audit(audit, "make"),
        "invalid": invalid,
    }
    if backend == "ray":
        ray_options = {"n_workers": n_workers, "address": address, "timeout": timeout}
        return ray_env(build, family, settings, **ray_options)
    if backend == "process" or n_workers or delayed:
        from plangym_ext.workers.parallel_env import ParallelEnv

        settings |= {"timeout": timeout, "delay_setup": delayed}
        return ParallelEnv(build, n_workers=n_workers, **settings)
    env = env_here(build, family, backend, threads, settings)
    if backend == "auto" and n_workers is None and env.backend == "serial":
        return _with_workers(env, build if kwargs.get("wrappers") else named, timeout)
    return env


def _check_choice(backend: str, n_workers: int | None, threads: int | None) -> None:
    """Refuse a backend that there is not, and numbers that do not belong to it."""
    from plangym_ext.core.numbers import at_least

    if not isinstance(backend, str) or backend not in BACKENDS:
        raise UnknownName(
            f"make: backend must be one of {', '.join(BACKENDS)}; got {backend!r}"
            f"{suggestion(backend, BACKENDS)}"
        )
    if n_workers is not None:
        at_least("make: n_workers", n_workers, 0)
    if backend in ("serial", "kernel", "mujoco") and n_workers:
        raise InvalidOption(
            f"make: the {backend} backend has no worker processes; got n_workers={n_workers!r}. "
            "Leave it out, or choose backend='process'."
        )
    if threads is not None and (backend in ("serial", "process", "ray") or n_workers):
        raise InvalidOption(
            f"make: threads are for the kernel and the mujoco backend; got threads={threads!r} "
            f"with backend={backend!r}, n_workers={n_workers!r}. Leave one of them out."
        )


def check_cluster(where: str, backend: str, address: str | None, *, ray: bool = False) -> None:
    """Refuse options of the ray backend with another backend."""
    if backend != "ray" and (ray or address is not None):
        given = f"ray={ray!r}" if ray else f"address={address!r}"
        raise InvalidOption(
            f"{where}: {given} is for the ray backend; got backend={backend!r}. Leave one of them "
            "out, or choose backend='ray'."
        )


def ray_env(
    build: Callable[[], Any], family: Family | None, settings: dict[str, Any], **options: Any
) -> Any:
    """Return the env on the ray backend."""
    from plangym_ext.workers.ray.ray_env import RayEnv

    return RayEnv(build, rows=functools.partial(_rows_of_actor, family), **options, **settings)


def _rows_of_actor(
    family: Family | None,
    build: Callable[[], Any],
    n_workers: int,
    timeout: float | None,
    settings: dict[str, Any],
) -> PlanEnv:
    """Return the backend of an actor: a native one if there is one, else worker processes."""
    from plangym_ext.workers.parallel_env import ParallelEnv

    env: Any = env_here(build, family, "auto", n_workers, settings)
    if env.backend != "serial":
        return env
    found = ParallelEnv.around(env, n_workers, timeout=timeout)
    found.setup()
    return found


def constructor_of(
    called: Callable[..., Any], name: Any, capture: str, frameskip: Any, kwargs: dict[str, Any]
) -> tuple[Callable[[], Any], Family | None, Any]:
    """Return the env's constructor, its family if known by name, and the frameskip."""
    from plangym_ext.core.make_words import with_wrappers, wrappers_of
    from plangym_ext.states.families import family_of_entry_point

    spec = find_spec(name) if isinstance(name, str) else None
    kwargs, wrappers = wrappers_of(called.__name__, kwargs, spec and spec.entry_point)
    if spec is None:
        check_factory(called.__name__, name, kwargs)
        build = with_wrappers(name, wrappers)
        return build, family_of_entry_point(name), 1 if frameskip is None else frameskip
    family = family_of_entry_point(spec.entry_point)
    if frameskip is not None and family is not None and family.frameskip_argument:
        kwargs = {**kwargs, family.frameskip_argument: frameskip}
        frameskip = None
    # The spec itself is sent, so an env that is registered here alone is found there.
    build = functools.partial(make_gym, spec, capture, called, **kwargs)
    return with_wrappers(build, wrappers), family, 1 if frameskip is None else frameskip  # its own


def env_here(
    build: Callable[[], Any],
    family: Family | None,
    backend: str,
    threads: int | None,
    settings: dict[str, Any],
) -> PlanEnv:
    """Return the env on a native backend that is not excluded, else the serial one."""
    from plangym_ext.core.gym_env import GymEnv

    env, note = GymEnv(build, **settings), ""
    if backend == "mujoco" or (
        backend == "auto" and family is not None and family.is_run_by("mujoco")
    ):
        from plangym_ext.native.mujoco.env import make_native

        required = backend == "mujoco"
        native, note = make_native(env, threads, check=settings["check"], required=required)
        if native is not None:
            return native
    found = env if backend == "serial" else _on_kernel(env, backend, threads)
    found.backend_note = " ".join(filter(None, [note, env.binding.note]))
    return found


def _with_workers(env: Any, name: str | Callable[[], Any], timeout: float | None) -> PlanEnv:
    """Return the serial env, or one that plays it and has workers for its batches if they pay."""
    from plangym_ext.workers.parallel_env import ParallelEnv
    from plangym_ext.workers.scheduling import WAVE, chosen_workers, proved_seconds

    target = find_spec(name).entry_point if isinstance(name, str) else name
    n_workers, reason = chosen_workers(proved_seconds(env), env.gym_env.render_mode, target, WAVE)
    found = env if n_workers is None else ParallelEnv.around(env, n_workers, timeout=timeout)
    found.backend_note = f"{env.backend_note} {reason}".strip()
    return found


def _on_kernel(env: GymEnv, backend: str, threads: int | None) -> PlanEnv:
    """Return the env on its kernel; itself if it has none and "auto" was asked for."""
    from plangym_ext.native.kernel.kernel_env import KernelEnv

    try:
        return KernelEnv(env, threads=threads, strict=backend == "kernel")
    except NoKernel:
        if backend == "auto":
            return env
        env.close()
        raise


def register(module: str, codec: Any, *, name: str | None = None, **options: Any) -> None:
    """Teach the library how the state of your own simulator is captured exactly.

    An env with `get_state` and `set_state` needs no registration; a codec is for a
    simulator whose class you cannot change, or for more speed.

    Args:
        module: module of the simulator's class, or a package that it lies in.
        codec: callable from the unwrapped env to a `StatePart` bound to it, or its
            name as "module:name". Workers find it by cloudpickle, or by name.
        name: of the family, for reports; `module` if None.
        options: further fields of `Family`.
    """
    from plangym_ext.states.families import Family, register_family

    register_family(Family(name or module, module, codec, **options))


def make_gym(
    spec: Any, capture: str = "off", called: Callable[..., Any] = make, /, **kwargs: Any
) -> gym.Env[Any, Any]:
    """Return the gymnasium env that `make` builds on: quiet, and without the passive checker.

    Args:
        spec: of the env.
        capture: how its state will be captured, as for `make`, or "off" if it will not be.
        called: `make` or `make_vec`, which was given `kwargs`.
        kwargs: for its constructor, and the options of its family.

    Raises:
        MissingExtra: a package that its family needs is not installed.
        UnknownName: the constructor has no such argument.
    """
    import gymnasium as gym

    from plangym_ext.states.families import family_of_entry_point

    kwargs.setdefault("disable_env_checker", True)
    family = family_of_entry_point(spec.entry_point)
    names = family.options if family is not None else ()
    options = {name: kwargs.pop(name) for name in names if name in kwargs}
    try:
        building = None if family is None else family.load("building")
        with nullcontext() if building is None else building():
            env = gym.make(_preparing(spec, family, capture), **kwargs)
    except (ModuleNotFoundError, gym.error.DependencyNotInstalled) as error:
        if family is None or family.extra is None:
            raise
        raise MissingExtra(
            f"{spec.id}: needs a package that is not installed ({error}). "
            f"{installing(family.extra)}"
        ) from error
    except TypeError as error:
        raise_if_unknown(error, called, kwargs, spec, names)
        raise
    assert env.unwrapped.spec is not None
    env.unwrapped.spec.entry_point = spec.entry_point  # others may be built from it
    wrap = family.load("wrap") if family is not None else None
    return env if wrap is None else wrap(env, **options)


def _preparing(spec: Any, family: Family | None, capture: str) -> Any:
    """Return the spec, with the entry point that prepares the simulator for its codec."""
    if family is None or family.prepared is None or capture not in ("auto", "codec"):
        return spec
    entry_point, prepared = family.prepared
    if spec.entry_point == entry_point:
        spec = copy.copy(spec)
        spec.entry_point = prepared
    return spec


def find_spec(name: str) -> Any:
    """Return the registered spec of an id.

    Args:
        name: an id; one such as "my_module:Corridor-v0" has its module imported first.

    Raises:
        TypeError: not a name.
        UnknownName: there is none, or no such module; the message has the closest one.
        MissingExtra: its simulator is not installed.
    """
    if not isinstance(name, str):
        raise WrongKind(
            f"environment: expected a registered gymnasium id such as 'CartPole-v1'; got {name!r}"
        )
    import gymnasium as gym

    from plangym_ext.states.families import family_of_name, register_all_ids, registered_spec

    name = import_module_of(name)
    if name in gym.registry:
        return gym.spec(name)
    family = family_of_name(name)
    if family is not None:
        return family.spec(name)
    register_all_ids()
    return registered_spec(name)
