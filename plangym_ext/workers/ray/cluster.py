"""Connection to a Ray cluster, sizes of its actors, and the driver's data for them."""

from __future__ import annotations

import os
import pickle
import re
import sys
import threading
import warnings
from typing import Any, NamedTuple, Self

import cloudpickle

from plangym_ext.errors import MissingExtra, installing
from plangym_ext.states import trust
from plangym_ext.states.families import custom_families, register_family
from plangym_ext.workers.processes.registrations import Registrations

#: Bytes of the object store of a cluster that is started here: what travels between processes
#: of one machine lies in memory of the library's own.
_STORE_BYTES = 256 << 20


def ray_module() -> Any:
    """Return the module `ray`.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(
            f"backend='ray' and --ray need Ray, which is not installed ({error}). "
            f"{installing('ray')}"
        ) from error
    return ray


#: Says whether Ray asks for a token, and a version that does by itself.
_AUTH, _WITH_TOKENS = "RAY_AUTH_MODE", (2, 60)


class _Connection:
    """This process's connection to Ray, with the number of envs that use it.

    Attributes:
        started: whether the cluster was started here, and ends with its last user.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._opened = False
        self.started = False

    def join(self, address: str | None) -> None:
        """Use the connection that there is; else join a cluster, or start one of this machine."""
        ray = ray_module()
        with self._lock:
            if not ray.is_initialized():
                address = address or os.environ.get("RAY_ADDRESS")
                _init(ray, address)
                self._users, self._opened, self.started = 0, True, address is None
            self._users += 1

    def leave(self) -> None:
        """Close the connection if it was opened here and this was its last user."""
        ray = ray_module()
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._opened:
                self._opened = self.started = False
                ray.shutdown()


def _init(ray: Any, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        ray.init(address=address, **quiet)
        return
    # Of processors Ray is told one: actors of such a cluster ask for none. Without "local" Ray
    # would look for a cluster that another program has started on this machine.
    own = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    _warn_without_token(ray)
    ray.init(address="local", **own, **quiet)


def _warn_without_token(ray: Any) -> None:
    """Warn that Ray's new cluster listens on all addresses.

    Later versions of Ray ask for a token by themselves, and run nothing for who has none.
    """
    if _AUTH in os.environ:  # decided by the user
        return
    if tuple(map(int, re.findall(r"\d+", ray.__version__)[:2])) < _WITH_TOKENS:
        warnings.warn(
            f"Ray {ray.__version__} starts a cluster that listens on all addresses of the machine, "
            f"and who reaches it can run programs as you. Upgrade to Ray "
            f"{'.'.join(map(str, _WITH_TOKENS))}, which asks for a token, or set {_AUTH}=token "
            f"before Python starts; {_AUTH}=disabled says that its ports are shut.",
            RuntimeWarning,
            stacklevel=2,
        )


#: The one connection that Ray allows a process.
connection = _Connection()


def actor_sizes(n_workers: int, workers_per_actor: int | None, nodes: list[int]) -> list[int]:
    """Return the number of workers in each actor: one actor per node, if possible.

    Args:
        n_workers: of all actors.
        workers_per_actor: the most that one may hold; None for as many as its node has.
        nodes: processors of each node.

    Raises:
        ValueError: there are not so many processors.
    """
    if n_workers > sum(nodes):
        raise ValueError(
            f"backend='ray': n_workers={n_workers} needs as many processors; the cluster has "
            f"{sum(nodes)}, on {len(nodes)} nodes. Add nodes, or ask for fewer workers."
        )
    given = [0] * len(nodes)
    for _ in range(n_workers):  # to the node with most processors left
        given[max(range(len(nodes)), key=lambda k: nodes[k] - given[k])] += 1
    sizes = []
    for count in given:
        most = count if workers_per_actor is None else workers_per_actor
        while count > 0:
            sizes.append(min(count, most))
            count -= sizes[-1]
    return sorted(sizes, reverse=True)


def processors_of_nodes() -> list[int]:
    """Return the number of processors of each living node that has any."""
    nodes = ray_module().nodes()
    found = [int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
    return [count for count in found if count]


def node_here() -> str:
    """Return the id of the node that this process is on."""
    found: str = ray_module().get_runtime_context().get_node_id()
    return found


class Driver(NamedTuple):
    """The sending process: import path, trust key, families, registrations.

    Attributes:
        path: its module path.
        key: of its session; see `states.trust`.
        families: pickle of the families that did not come with the library.
        registered: what it has registered with gymnasium.
    """

    path: list[str]
    key: bytes
    families: bytes
    registered: Registrations | None

    @classmethod
    def of_this_process(cls) -> Self:
        """Return this process's data for its actors."""
        return cls(
            [entry for entry in sys.path if entry],
            trust.session_key(),
            cloudpickle.dumps(custom_families()),
            Registrations.of_this_process(),
        )

    def meet(self) -> None:
        """Prepare this process, an actor's, to load the driver's pickles."""
        # Before families are loaded, whose modules may lie there; after the actor's own entries.
        sys.path += [entry for entry in self.path if entry not in sys.path]
        trust.join_session(self.key)
        for family in pickle.loads(self.families):
            register_family(family)
        if self.registered is not None:
            self.registered.install()
