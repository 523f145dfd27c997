"""Every test leaves the process as it found it: see `leaks`."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest

pytest.register_assert_rewrite(
    "contract.env_contract",
    "contract.damaged_states",
    "contract.backend_contract",
)

import cloudpickle  # noqa: E402 - helpers are registered first
import leaks  # noqa: E402 - likewise
import no_skips  # noqa: E402 - likewise
from forked_scripts import ScriptServer  # noqa: E402 - likewise

# A shell's background job starts with interrupts ignored, and so would all that the
# tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Thousands of envs are made here, mostly of classes of their own, and in workers. Tests of the
# proof itself say how long it may take.
os.environ.setdefault("PLANGYM_EXT_PROOF_SECONDS", "0.05")

# Read when torch is loaded, here and in processes that tests start: threads that wait for each
# other on a busy machine make small networks ten times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from plangym_ext.states.trials import audit  # noqa: E402 - likewise

# An audit that begins in one test would be found as a process that it has left. See `test_audit`.
audit._FORK = 1e6

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
    no_skips.refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    no_skips.refuse(report)
    return report


def pytest_collection_modifyitems(items):
    """Begin with classes whose episodes take long to play.

    A process that has nothing left takes tests from the end of another's list, often in the middle
    of a class, whose episodes are then played again. What stands at the front is not taken.
    """
    items.sort(key=lambda item: item.get_closest_marker("episodes_take_long") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage among modules and tests that are made to stay: a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Look for garbage among what tests make, and not so often: thousands of tests stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(scope="module", autouse=True)
def envs_of_the_test_reach_the_workers(request):
    """Send a test module's own classes by value: workers cannot import test modules."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(scope="session")
def scripts():
    """Run scripts in interpreters that have imported torch already."""
    with ScriptServer() as server:
        yield server


@pytest.fixture(autouse=True)
def one_thread_per_process():
    """Have small networks computed by one thread: more wait for each other, and for tests."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def modules_are_found_where_they_were():
    """Put `sys.path` back: commands add the current folder, and its folders then are modules."""
    before = [*sys.path]
    yield
    sys.path[:] = before


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request):
    """Fail a test that leaves processes, descriptors or shared memory."""
    before = leaks.snapshot()
    yield
    if request.node.stash.get(_FAILED, False):
        return  # the traceback itself keeps the test's objects alive
    found = leaks.leaked(before)
    assert not found, "left behind:\n  " + "\n  ".join(found)
