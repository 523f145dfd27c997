"""Threads that share the work of compiled code."""

from __future__ import annotations

import os
import threading

import pytest

from plangym_ext.native.compiled import SharingThreads


@pytest.fixture
def threads():
    found = SharingThreads(3)
    yield found
    found.close()


def test_results_are_in_the_order_of_the_shares(threads):
    assert threads.run(divmod, [(7, 2), (9, 4), (5, 5)]) == [(3, 1), (2, 1), (1, 0)]


def test_one_share_runs_here(threads):
    assert threads.run(threading.current_thread, [()]) == [threading.current_thread()]
    here, other = threads.run(threading.current_thread, [(), ()])
    assert here is threading.current_thread()
    assert other is not here


def test_more_shares_than_threads_were_thought_to_pay():
    # As when a process that was held to one processor may run on more.
    one = SharingThreads(1)
    assert one.run(divmod, [(7, 2), (9, 4), (5, 5)]) == [(3, 1), (2, 1), (1, 0)]
    one.close()


def test_an_error_is_raised_when_all_shares_have_ended(threads):
    begun, ended = threading.Event(), threading.Event()

    def first_fails(share):
        if share == 0:
            begun.wait()  # so that the other is on its way
            raise KeyError("first")
        begun.set()
        threading.Event().wait(0.05)
        ended.set()

    with pytest.raises(KeyError, match="first"):
        threads.run(first_fails, [(0,), (1,)])
    assert ended.is_set()
    with pytest.raises(ZeroDivisionError):
        threads.run(divmod, [(1, 1), (1, 0)])


def test_it_runs_again_after_it_was_closed(threads):
    threads.run(divmod, [(1, 1), (2, 1)])
    threads.close()
    threads.close()
    assert threads.run(divmod, [(1, 1), (2, 1)]) == [(1, 0), (2, 0)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
# Python 3.12 and later warn of any fork of a process with threads.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(threads):
    threads.run(divmod, [(1, 1), (2, 1)])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if threads.run(divmod, [(1, 1), (2, 1)]) == [(1, 0), (2, 0)]:
                threads.close()
                status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
