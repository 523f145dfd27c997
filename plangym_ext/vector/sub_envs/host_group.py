"""HostGroup: all processes of a vector env's sub-envs, built, described and closed together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from plangym_ext.arrays.storage import SharedBlock, told_of_memory
from plangym_ext.errors import WorkerDied, add_note, text_of
from plangym_ext.vector.backend import RowsDescription, no_envs
from plangym_ext.vector.memory.row_memory import MemoryForm, RowMemory
from plangym_ext.vector.sub_envs.checkpoint import FROM_OTHERS
from plangym_ext.vector.sub_envs.hosts import HostedRows, LocalHost, RowHost, WorkerHost
from plangym_ext.vector.sub_envs.row_states import agreed
from plangym_ext.workers.channel import check_descriptors
from plangym_ext.workers.protocol import ForgetBlock, ForgetLayout


def row_ranges(num_rows: int, num_hosts: int) -> list[range]:
    """Return the rows of each host, in order and of equal number up to one; no host is empty."""
    num_hosts = min(num_rows, num_hosts)
    ends = [num_rows * k // num_hosts for k in range(num_hosts + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


class HostGroup:
    """One host in this process, or a worker for each range of rows.

    Args:
        makes: constructor of each row's env.
        n_workers: processes to share them, at most one for each row; None for this one.
        settings: for `EnvRows`: how states are captured.
        timeout: seconds that a worker may take for a row; see `start_limit`.

    Attributes:
        hosts: of the rows, in their order; they grow during `build`.
        ranges: numbers of the rows of each.
        in_workers: whether they are workers.
        described: what each says of its rows, once it is built; see `EnvRows.description`.
        nbytes: of the memory that rows write to, once there is some.
    """

    described: list[dict[str, Any]]
    nbytes: int

    def __init__(
        self,
        makes: Sequence[Callable[[], Any]],
        n_workers: int | None,
        settings: dict[str, Any],
        timeout: float | None = None,
    ) -> None:
        self._timeout = timeout
        self.ranges = row_ranges(len(makes), n_workers or 1)
        self.in_workers = n_workers is not None
        self._hosted = [HostedRows(makes[r.start : r.stop], r.start, settings) for r in self.ranges]
        self.hosts: list[RowHost] = []
        self._block: SharedBlock | None = None
        self._closed = False

    def build(self) -> None:
        """Build the envs; `close` has to be called if it fails.

        Raises:
            Exception: what the constructor of an env raised; others that did have a note each.
            StorageError: there are too few descriptors left for so many processes.
        """
        if self.in_workers:
            # Before the first one starts: a failure half-way would name whatever came to lack one.
            check_descriptors(len(self.ranges))
        for index, rows in enumerate(self._hosted):
            host = WorkerHost(rows, index, self._timeout) if self.in_workers else LocalHost(rows)
            host.build()
            self.hosts.append(host)
        # All workers start before any is waited for.
        found, errors = [], []
        # All of them, even after an error, which gets a note of the others.
        for index, rows in enumerate(self._hosted):
            try:
                found.append(self._description(index, rows))
            except Exception as error:  # of an env's constructor, or how the worker ended
                errors.append(error)
        if errors:
            raise one_error(errors)
        self.described = found
        proved = agreed(row for one in found for row in one["proved"])
        for index, each in enumerate(self.ranges):
            self.hosts[index].proved = proved[each.start : each.stop]

    def _description(self, index: int, hosted: HostedRows) -> dict[str, Any]:
        """Return a host's description; build it without states if those kill it.

        An env may end its process in a step that is made only to find how its state is
        captured.
        """
        try:
            return self.hosts[index].describe()
        except WorkerDied as death:
            # A signal that others send proves nothing about states.
            if hosted.settings["capture"] == "off" or death.exit_status in FROM_OTHERS:
                raise
            self.hosts[index].close()
            reason = f"its state cannot be captured: to try it has ended its process: {death}"
            host = WorkerHost(hosted.without_states(reason), index, self._timeout)
            host.build()
            self.hosts[index] = host
            try:
                return host.describe()
            except Exception:  # so it is not the states that it died of
                raise death from None

    @property
    def description(self) -> RowsDescription:
        """See `VectorBackend`."""
        first = self.described[0]
        return RowsDescription(
            first["name"],
            [space for found in self.described for space in found["observation_spaces"]],
            [space for found in self.described for space in found["action_spaces"]],
            first["metadata"],
            first["render_mode"],
        )

    @property
    def note(self) -> str:
        """The rows without states, and the reason; "" if all have states."""
        reasons: dict[str, list[int]] = {}
        for row, one in enumerate(row for host in self.hosts for row in host.proved):
            if one.note:
                reasons.setdefault(one.note, []).append(row)
        return "\n".join(f"sub-envs {rows}: {reason}" for reason, rows in reasons.items())

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """See `VectorBackend`."""
        host = self.hosts[0]
        if isinstance(host, LocalHost):
            return host.envs
        raise no_envs("process")

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """See `VectorBackend`."""
        if self._closed:
            return ()
        workers = [host.worker for host in self.hosts if isinstance(host, WorkerHost)]
        return tuple(worker.process.pid for worker in workers)

    def use(self, space: spaces.Space[Any], *, strict: bool) -> RowMemory:
        """Return the memory that all rows write to from now on, shared with workers; once."""
        actions = self.description.action_spaces[0]
        form = MemoryForm(space, self.ranges[-1].stop, len(self.ranges), strict, actions)
        self.nbytes = form.nbytes
        if self.in_workers:
            rows, name = self.ranges[-1].stop, self.description.name
            with told_of_memory("make_vec", rows, name, form.nbytes):
                self._block = SharedBlock.create(form.nbytes)
        memory = form.memory(self._block)
        for index, host in enumerate(self.hosts):
            host.use(form, memory, self._block, index)
        return memory

    def expire(self, message: ForgetBlock | ForgetLayout) -> None:
        """Make workers drop arrays of earlier `out`s."""
        for host in self.hosts:
            if isinstance(host, WorkerHost):
                host.expire(message)

    def kill(self) -> None:
        """End workers under a call of another thread, which fails; `close` follows."""
        for host in self.hosts:
            if isinstance(host, WorkerHost):
                host.worker.kill()

    def close(self) -> list[BaseException | None]:
        """Close all envs and return each host's error; further calls do nothing."""
        # Told before any is waited for: workers leave beside each other.
        for host in self.hosts:
            host.begin_close()
        errors = [host.close() for host in self.hosts]
        self._closed = True
        if self._block is not None:
            self._block.close()  # views of it stay valid
            self._block = None
        return errors


def one_error(errors: Sequence[Exception]) -> Exception:
    """Return the first of several errors, with a note on each of the others."""
    first, *others = errors
    for error in others:
        add_note(first, f"another worker failed, too: {text_of(error)}")
    return first
