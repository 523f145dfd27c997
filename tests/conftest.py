"""Every test leaves the process as it found it: see `leaks`."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("contract.env_contract", "contract.backend_contract")

import leaks  # noqa: E402 - helpers are registered first

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request):
    """Fail a test that leaves processes, descriptors or shared memory behind."""
    before = leaks.snapshot()
    yield
    if request.node.stash.get(_FAILED, False):
        return  # the traceback itself keeps the test's objects alive
    found = leaks.leaked(before)
    assert not found, "left behind:\n  " + "\n  ".join(found)
