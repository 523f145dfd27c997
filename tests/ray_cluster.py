"""Ray clusters for tests: several nodes on one machine, with little memory each."""

from __future__ import annotations

import contextlib
import os

import leaks

#: Bytes of each node's object store.
STORE = 80 << 20
# Ray would otherwise leave a secret in the home folder, and tell its makers of its use.
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
#: Of an actor on a node that is gone, what to expect within seconds rather than a minute.
_QUICK = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 1000}


def ready_actors(env):
    """Return the actors of an env that are ready."""
    env.pool.ready()
    return [actor for actor in env.pool.actors if actor.description is not None]


def await_actors(env, count, timeout=80.0):
    """Wait until so many actors of an env are ready."""
    found = leaks.wait_until(lambda: len(ready_actors(env)) == count, timeout)
    assert found, f"{len(ready_actors(env))} of {count} actors are ready"


@contextlib.contextmanager
def running(nodes=(1, 1, 1)):
    """Give a cluster whose first node is this driver's, which has joined it.

    Args:
        nodes: processors of each.
    """
    import ray
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": nodes[0],
            "object_store_memory": STORE,
            "include_dashboard": False,
            "_system_config": _QUICK,
        },
    )
    try:
        for count in nodes[1:]:
            found.add_node(num_cpus=count, object_store_memory=STORE)
        ray.init(found.address, log_to_driver=False, logging_level="ERROR")
        yield found
    finally:
        ray.shutdown()
        found.shutdown()
