"""ParallelEnv: the process backend, one local env with copies in worker processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from plangym_ext.core.backend_env import BackendEnv
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.inherited_options import raise_if_unknown
from plangym_ext.core.numbers import at_least, check_flags, seconds_or_none
from plangym_ext.errors import EnvClosed, IncompleteState, WrongKind
from plangym_ext.states.envelope import difference
from plangym_ext.states.layer_attributes import Binding
from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.batch_run import WorkerStepper
from plangym_ext.workers.channel import check_descriptors
from plangym_ext.workers.limits import ROW_TIMEOUT
from plangym_ext.workers.scheduling import default_n_workers


class ParallelEnv(WorkerStepper, BackendEnv):
    """The process backend: batches run on worker processes.

    A local env does everything but the batches; its copies run in worker processes
    that write into shared memory.

    Args:
        env_class: callable that returns a gymnasium env, such as `gymnasium.make`;
            called here and in every worker as `env_class(name, **kwargs)`. Lambdas
            and local classes travel by cloudpickle.
        name: the env's id, or None for a callable that takes none.
        frameskip: env steps for which one control step holds an action.
        autoreset: whether an env or row that ended is reset before its next step.
        delay_setup: build nothing until `setup` or first use.
        n_workers: worker processes; as many as there are processors if None.
        blocking: run batches in one worker after another rather than in parallel.
        timeout: seconds that a worker may spend on one row before it is held to hang:
            it is stopped, replaced and named. None waits for ever. Building an env may take
            as long, and two minutes at least.
        state, check, trust, audit: how states are captured; see `GymEnv`.
        invalid: what batches do about values that are not a number; see `GymEnv`.
        binding: of an equal env, which spares the proof; see `GymEnv`.
        kwargs: further arguments for `env_class`.

    Raises:
        ValueError: `n_workers` is below 1.
        Exception: whatever `env_class` raised, with the worker's traceback.
    """

    backend = "process"
    slot_storage = "shared"

    def __init__(
        self,
        env_class: Callable[..., Any],
        name: str | None = None,
        frameskip: int = 1,
        autoreset: bool = True,
        delay_setup: bool = False,
        n_workers: int | None = None,
        blocking: bool = False,
        *,
        timeout: float | None = ROW_TIMEOUT,
        capture: str = "auto",
        check: bool | float = True,
        trust: bool = False,
        audit: str = "raise",
        invalid: str = "raise",
        binding: Binding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not callable(env_class):
            raise WrongKind(
                "ParallelEnv: env_class must be a callable that returns a gymnasium env; got "
                f"{env_class!r}. For a name use plangym_ext.make({env_class!r}, n_workers=...), or "
                f"ParallelEnv(gymnasium.make, {env_class!r})."
            )
        flags = {"autoreset": autoreset, "delay_setup": delay_setup, "blocking": blocking}
        check_flags("ParallelEnv", trust=trust, **flags)
        if n_workers is None:
            n_workers = default_n_workers()
        n_workers = at_least("ParallelEnv: n_workers", n_workers, 1)
        self._arguments = {
            "env_class": env_class,
            "name": name,
            "frameskip": frameskip,
            "autoreset": autoreset,
            "n_workers": n_workers,
            "blocking": blocking,
            "timeout": timeout,
            "capture": capture,
            "check": check,
            "trust": trust,
            "audit": audit,
            "invalid": invalid,
            **kwargs,
        }
        self.n_workers, self._blocking = n_workers, blocking
        self._timeout = seconds_or_none("ParallelEnv: timeout", timeout)
        self.frameskip, self.autoreset = frameskip, autoreset
        make = functools.partial(env_class, *([] if name is None else [name]), **kwargs)
        self._constructor = functools.partial(
            GymEnv,
            make,
            name=getattr(name, "id", name),
            frameskip=frameskip,
            autoreset=autoreset,
            capture=capture,
            check=check,
            trust=trust,
            audit=audit,
            invalid=invalid,
            binding=binding,
        )
        self._given_name = name
        self._closed = False
        self._plan_env = None
        self._batch_env: BatchEnv | None = None
        if not delay_setup:
            self.setup()

    @classmethod
    def around(cls, env: GymEnv, n_workers: int, *, timeout: float | None = ROW_TIMEOUT) -> Self:
        """Return a parallel env around `env`; workers start with the first batch.

        Args:
            env: the local env; it belongs to the result.
            n_workers: worker processes.
            timeout: seconds that a worker may spend on one row.
        """
        arguments = dict(env._arguments)
        make = arguments.pop("make")
        found = cls(make, n_workers=n_workers, delay_setup=True, timeout=timeout, **arguments)
        found._plan_env = env
        return found

    def setup(self) -> None:
        """Build the local env and the workers, unless that has been done."""
        if self._closed:
            raise EnvClosed(f"setup: this {self.name} env is closed. Make a new one.")
        if self._batch_env is not None:
            return
        check_descriptors(self.n_workers)
        workers: list[ExternalProcess] = []
        try:
            # First, as what it proves of its states holds for the workers' envs, too.
            if self._plan_env is None:
                self._plan_env = self._built()
            constructor = functools.partial(self._constructor, binding=self._plan_env.binding)
            # All workers start before any is waited for.
            for index in range(self.n_workers):
                workers.append(ExternalProcess(constructor, index=index))
                workers[-1].build()
            batch_env = BatchEnv(
                workers,
                self._blocking,
                timeout=self._timeout,
                on_widening=self._widened,
                one_caller=self._one_caller,
            )
            check_equal(
                "ParallelEnv", self._plan_env.envelope.identity, batch_env.envelope.identity
            )
            self._batch_env = batch_env
        except BaseException:
            for worker in workers:
                worker.begin_close()
            for worker in workers:
                worker.end()
            if self._plan_env is not None:
                self._plan_env.close()
            raise

    def _built(self) -> GymEnv:
        import gymnasium as gym

        try:
            return self._constructor()
        except TypeError as error:
            called, name = self._constructor.args[0].func, self._given_name
            if called is gym.make and name in gym.registry:
                given = self._constructor.args[0].keywords
                raise_if_unknown(error, type(self), given, gym.spec(name))
            raise

    @property
    def exact(self) -> bool | None:
        if self._plan_env is None:  # `repr` is no reason to build anything
            if self._arguments["capture"] == "approximate":
                return False
            return self._arguments["check"] or None
        return self._plan_env.exact

    @property
    def incomparable(self) -> str:
        return self.plan_env.incomparable

    @property
    def plan_env(self) -> GymEnv:
        # One that is closed says so itself, and which method was called.
        if self._plan_env is None:
            self.setup()
        assert self._plan_env is not None
        return self._plan_env

    @property
    def batch_env(self) -> BatchEnv:
        """The worker processes."""
        if self._closed or self._batch_env is None:
            self.setup()
        assert self._batch_env is not None
        return self._batch_env

    @property
    def blocking(self) -> bool:
        """Whether batches run in one worker after another."""
        return self._blocking

    @property
    def name(self) -> str:  # type: ignore[override]
        """The env's id."""
        return self._given_name or (self._plan_env.name if self._plan_env else "unnamed")

    # Rows -----------------------------------------------------------------------

    def _end_abandoned(self) -> None:
        if self._batch_env is not None:
            self._batch_env._end_abandoned()

    def _owner(self) -> BatchEnv:
        env, batch_env = self._plan_env, self._batch_env
        if self._closed or env is None or batch_env is None or batch_env._closed:
            self.plan_env._check_open("step_batch")
            return self.batch_env._owner()
        # Either side's states may have grown since; or an interrupt came before both were told.
        here, there = env.layout.state_width, batch_env.layout.state_width
        if here != there:
            self.widen(max(here, there))
        return batch_env

    def set_row_states(self, states: np.ndarray) -> None:
        self.plan_env._check_open("set_state")
        super().set_row_states(states)

    def _widened(self, width: int) -> None:
        """Note that the workers have made their rows wider."""
        if width > self.plan_env.state_width:
            self.plan_env.widen(width)

    def widen(self, width: int) -> None:
        """Make room for states of `width` bytes, here and in every worker."""
        self.plan_env.widen(width)
        # Workers that start later learn of it with their first batch.
        if self._batch_env is not None and self._batch_env.state_width != width:
            self._batch_env.widen(width)

    # Life -----------------------------------------------------------------------

    def clone(self, **overrides: Any) -> Self:
        """Return a new env with workers of its own and the same settings; see `PlanEnv.clone`."""
        return type(self)(**{**self._arguments, **overrides})

    def __reduce__(self) -> Any:
        """Travel as the arguments, which build it anew, as long as nothing is built."""
        if self._closed or self._plan_env is not None:
            return self._one_caller.__reduce__()
        return functools.partial(type(self), **{**self._arguments, "delay_setup": True}), ()

    def close(self) -> None:
        self._closed = True
        if self._batch_env is not None:
            self._batch_env.close()
        if self._plan_env is not None:
            self._plan_env.close()


def check_equal(where: str, here: dict[str, Any], there: dict[str, Any]) -> None:
    """Check that states of this env and of the workers are interchangeable."""
    what, theirs, ours = difference(there, here)
    if what:
        raise IncompleteState(
            f"{where}: the env in the workers differs from the one here in {what}: "
            f"{theirs} there, {ours} here. If the way to "
            "capture its state differs, the workers cannot import its classes: define them in a "
            "module on sys.path, or choose a way with capture=..."
        )
