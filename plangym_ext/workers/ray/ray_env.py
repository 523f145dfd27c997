"""RayEnv: the ray backend, one local env with rows in Ray actors."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.backend_env import NO_OUT, LiveStepper
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch, InfoColumn, InfoWriter
from plangym_ext.core.numbers import at_least
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import ONE_STEP, RowRequest
from plangym_ext.errors import BackendUnavailable, EnvClosed
from plangym_ext.states.envelope import as_wide
from plangym_ext.workers.batch_run import Runs, WorkerStepper
from plangym_ext.workers.limits import ROW_TIMEOUT, row_limit
from plangym_ext.workers.parallel_env import ParallelEnv, check_equal
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.ray.actors import ActorPool
from plangym_ext.workers.ray.cluster import (
    actor_sizes,
    connection,
    node_here,
    processors_of_nodes,
    ray_module,
)
from plangym_ext.workers.ray.ray_rows import RayRows
from plangym_ext.workers.ray.row_actor import RowActor
from plangym_ext.workers.scheduling import default_n_workers
from plangym_ext.workers.shared_batch import Pages


def reset_columns(env: GymEnv) -> tuple[InfoColumn, ...] | None:
    """Return the infos of a reset, if they are numbers of the same types every time.

    Returns:
        The fields, in the env's order; None if some have no column, or that of a step's info of
        the same name is of another type.
    """
    here = env.get_state()
    # Two, as one alone says nothing of whether types stay the same.
    infos = [env.reset()[2] for _ in range(2)]
    env.set_state(here)
    columns = InfoWriter(infos[0]).columns
    if any(not _fits(info, columns) for info in infos):
        return None
    of_steps = {column.key: column for column in env.info_writer.columns}
    if any(of_steps.get(column.key, column) != column for column in columns):
        return None
    return columns


def _fits(info: dict[str, object], columns: tuple[InfoColumn, ...]) -> bool:
    return InfoWriter(info).columns == columns and len(info) == len(columns)


def with_reset_infos(
    found: RowResults, resets: np.ndarray, columns: tuple[InfoColumn, ...]
) -> RowResults | None:
    """Return results with the infos of reset rows as columns.

    Args:
        found: with these infos as the rows' own.
        resets: `[B]` bool.
        columns: of the infos of resets.

    Returns:
        The same results; None if a row has an info that fits no columns.
    """
    own = found.infos.own
    if any(not resets[row] or not _fits(info, columns) for row, info in own.items()):
        return None
    arrays = {key: found.infos[key] for key in found.infos.keys()}  # noqa: SIM118
    for column in columns:
        if column.key not in arrays:
            arrays[column.key] = np.zeros((len(resets), *column.shape), column.dtype)
        for row, info in own.items():
            arrays[column.key][row] = info[column.key]
    return found._replace(infos=InfoBatch(arrays, {}))


#: Makes the backend of an actor: from the constructor of the gymnasium env, the number of
#: workers, the seconds that one may spend on a row, and the settings of `GymEnv`.
MakeRows = Callable[[Callable[[], Any], int, float | None, dict[str, Any]], PlanEnv]


def process_rows(
    make: Callable[[], Any], n_workers: int, timeout: float | None, settings: dict[str, Any]
) -> PlanEnv:
    """Return the process backend for an actor without a faster one."""
    return ParallelEnv(make, n_workers=n_workers, timeout=timeout, **settings)


class RayEnv(WorkerStepper, LiveStepper):
    """Step an env on the machines of a Ray cluster.

    A local env does everything but the batches, whose rows run in actors, one for each node,
    that hold worker processes or a native backend. An actor on this machine reads and writes the
    batch's memory; to others, states travel through Ray's object store.

    Args:
        make: callable that returns a gymnasium env; travels to the actors by cloudpickle.
        n_workers: of all actors together; None for all processors of the cluster.
        address: of the cluster, as for `ray.init`. None for the one that this process has joined
            or that RAY_ADDRESS names; else one of this machine alone is started, and ended
            with the last env that uses it.
        workers_per_actor: the most that one actor holds; None for as many as its node has.
        timeout: seconds that a worker may spend on one row, and an actor may not answer, before
            it is held to hang: it is ended, replaced and named. None waits for ever.
        rows: makes the backend of an actor.
        settings: of `GymEnv`: `frameskip`, `autoreset`, `capture`, `check`, `trust`, `invalid`.

    Raises:
        MissingExtra: Ray is not installed.
        ValueError: the cluster has fewer processors than `n_workers`.
        Exception: whatever `make` raised, here or in an actor.
    """

    backend = "ray"
    transport = RayRows

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        n_workers: int | None = None,
        address: str | None = None,
        workers_per_actor: int | None = None,
        timeout: float | None = ROW_TIMEOUT,
        rows: MakeRows = process_rows,
        **settings: Any,
    ) -> None:
        super().__init__()
        ray_module()
        if n_workers is not None:
            at_least("RayEnv: n_workers", n_workers, 1)
        if workers_per_actor is not None:
            at_least("RayEnv: workers_per_actor", workers_per_actor, 1)
        self._arguments = {
            "make": make,
            "n_workers": n_workers,
            "address": address,
            "workers_per_actor": workers_per_actor,
            "timeout": timeout,
            "rows": rows,
            **settings,
        }
        # Ray's connection does not survive a fork.
        self._one_caller.bind_to_process()
        self._closed, self._knows_resets = False, False
        # As an actor may take for its first rows: those within it have limits of their own.
        self._timeout, self.row_timeout = timeout, row_limit(timeout, first=True)
        self.pages, self.runs = Pages(), Runs()
        self._plan_env = GymEnv(make, **settings)
        self.frameskip, self.autoreset = self._plan_env.frameskip, self._plan_env.autoreset
        try:
            connection.join(address)
        except BaseException:
            # Not all of `close`, which would leave a connection that was not joined.
            self._plan_env.close()
            raise
        try:
            self.pool = self._started(n_workers, workers_per_actor)
            self.pool.ready()
        except BaseException:
            self.close()
            raise

    def _started(self, n_workers: int | None, workers_per_actor: int | None) -> ActorPool:
        arguments = dict(self._arguments)
        make, rows = arguments["make"], arguments["rows"]
        for key in ("make", "n_workers", "address", "workers_per_actor", "timeout", "rows"):
            del arguments[key]
        arguments["binding"] = self.plan_env.binding
        if connection.started:
            sizes = [n_workers or default_n_workers()]
            if workers_per_actor is not None:
                sizes = actor_sizes(sizes[0], workers_per_actor, sizes)
        else:
            nodes = processors_of_nodes()
            sizes = actor_sizes(n_workers or sum(nodes), workers_per_actor, nodes)
        self.n_workers = sum(sizes)
        here = node_here()
        self._probe = SharedBlock.create(1)  # held as long as actors may be started

        def service(count: int) -> Service:
            made = functools.partial(rows, make, count, self._timeout, arguments)
            return Service(functools.partial(RowActor, made, here, pickle.dumps(self._probe)))

        return ActorPool(sizes, service, reserves=not connection.started, check=self._check_equal)

    def _check_equal(self, description: dict[str, Any]) -> None:
        check_equal("RayEnv", self.plan_env.envelope.identity, description["identity"])

    @property
    def name(self) -> str:  # type: ignore[override]
        """The env's id."""
        return self.plan_env.name

    # Rows -----------------------------------------------------------------------

    def check_open(self) -> None:
        """Refuse a batch if the env is closed."""
        if self._closed:
            raise EnvClosed(f"RayEnv: this {self.name} env is closed. Make a new one.")

    def _owner(self) -> RayEnv:
        self.check_open()
        return self

    def _end_abandoned(self) -> None:
        self.runs.end_abandoned()

    def widen(self, width: int) -> None:
        """Make room for states of `width` bytes; actors do so when they meet them."""
        self.plan_env.widen(width)

    # Rows of a vector env -------------------------------------------------------

    def check_live(self) -> None:
        """Refuse to be the backend of a vector env if its rows cannot be states.

        Raises:
            BackendUnavailable: actions or observations are nested, or infos are no numbers.
        """
        layout = self.layout
        if not (layout.obs.is_flat and layout.action.is_flat):
            what = "a nested space"
        elif not self.plan_env.info_writer.holds_all:
            what = "infos that are not numbers"
        else:
            return
        raise BackendUnavailable(
            f"make_vec: {self.name} has {what}, which the ray backend cannot store. Choose "
            "backend='process', or leave them out with a wrapper."
        )

    def step_live(
        self,
        actions: np.ndarray,
        states: np.ndarray,
        resets: np.ndarray,
        *,
        whole: bool,  # noqa: ARG002 - states have their seal, wherever they go
        same_step: bool = False,  # noqa: ARG002 - rows that end are reset by another call
        infos: str = "numeric",
        out: Mapping[str, np.ndarray] = NO_OUT,  # noqa: ARG002 - results are copied there
    ) -> RowResults | None:
        if not self._knows_resets:
            self.reset_columns, self._knows_resets = reset_columns(self.plan_env), True
        if resets.any() and self.reset_columns is None:
            return None
        leaf = self._live_actions(actions, resets)
        # 0 steps stand for a reset; see `RowActor._played`.
        dt = (~resets).astype(np.int32) if resets.any() else ONE_STEP
        request = RowRequest((leaf[:, None],), states, dt, infos=infos)
        return with_reset_infos(self._run(request), resets, self.reset_columns or ())

    def seeded_rows(
        self, states: np.ndarray, fresh: np.ndarray, seeds: Sequence[int | None]
    ) -> None:
        """Return None: the env itself resets rows with seeds; see `LiveStepper`."""

    def sealed(self, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = as_wide(rows, self.state_width)
        return found.copy() if found is rows else found

    # Life -----------------------------------------------------------------------

    def clone(self, **overrides: Any) -> Self:
        """Return a new env with actors of its own and the same settings; see `PlanEnv.clone`."""
        return type(self)(**{**self._arguments, **overrides})

    def close(self) -> None:
        """Close the env and end its actors; the cluster is left as it was found."""
        if self._closed or self._one_caller.inherited:
            return
        self._closed = True
        self.runs.cancel(EnvClosed("RayEnv: closed before this batch was done."))
        if hasattr(self, "pool"):
            self.pool.close()
        connection.leave()
        # After the actors, which may have written there to their end.
        self.pages.close()
        self.plan_env.close()
