"""Ctrl-C at lines of a vector env whose rows are states: a call has happened, or has not."""

from __future__ import annotations

import random
import signal
import time

import numpy as np
import pytest
from interrupting import EVERY_LINE, InterruptAt, points

import plangym_ext
from plangym_ext.vector.state_backend import StateBackend

pytestmark = pytest.mark.slow

NUM_ENVS = 4
#: Short episodes: whether one has ended has to go with where it is.
ENVS = {"CartPole-v1": {"max_episode_steps": 5}}
if EVERY_LINE:
    ENVS["InvertedPendulum-v5"] = {"max_episode_steps": 5}

ALL_BUT_ONE = np.array([True, True, False, True])
CALLS = {
    "step": lambda venv: venv.step(actions(venv)),
    "some": lambda venv: venv.step(actions(venv)[:2], [3, 0]),
    "reset": lambda venv: venv.reset(seed=7),
    "mask": lambda venv: venv.reset(options={"reset_mask": ALL_BUT_ONE}),
    "fork": lambda venv: venv.fork(1, [0, 3]),
    "set_states": lambda venv: venv.set_states(venv.get_states()[::-1], ALL_BUT_ONE),
    "call": lambda venv: venv.call(lambda env: env.reset()),
}


def actions(venv):
    return np.zeros((NUM_ENVS, *venv.single_action_space.shape), venv.single_action_space.dtype)


def everything(venv):
    """All that a caller can see of where sub-envs are."""
    return venv.get_states(), venv.observations(), venv.ended


def same(got, expected):
    return all(a.tobytes() == b.tobytes() for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("name", list(ENVS))
def test_an_interrupt_at_any_line_leaves_a_call_done_or_not_begun(name, mode):
    def make():
        return plangym_ext.make_vec(name, NUM_ENVS, autoreset_mode=mode, **ENVS[name])

    with make() as venv, make() as twin:
        assert isinstance(venv._backend, StateBackend)
        done = begun = 0
        for one in (venv, twin):
            one.reset(seed=0)
            for _ in range(7):  # what is loaded or compiled at first is not counted
                one.step(actions(one))
        for call in CALLS.values():
            with InterruptAt(-1) as count:
                call(venv)
            call(twin)
            for number in points(count.lines, 6):
                venv.step(actions(venv))
                twin.step(actions(twin))
                before = everything(venv)
                try:
                    with InterruptAt(number):
                        call(venv)
                except KeyboardInterrupt:
                    begun += 1
                    if same(everything(venv), before):
                        continue
                done += 1
                call(twin)
                assert same(everything(venv), everything(twin)), number
        assert begun > done, "a call happens at one of its last lines"


def test_states_that_were_kept_outlive_interrupted_steps(monkeypatch):
    def interrupt(note):
        raise KeyboardInterrupt

    # A native call writes its states over those of the call before the last.
    with plangym_ext.make_vec("CartPole-v1", NUM_ENVS) as venv:
        venv.reset(seed=0)
        venv.step(actions(venv))
        before = everything(venv)
        for _ in range(4):
            with monkeypatch.context() as patch:
                patch.setattr(venv._backend, "keep", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    venv.step(actions(venv))
        assert same(everything(venv), before)


class Alarm:
    """Context that raises KeyboardInterrupt in the main thread after some seconds, wherever it is.

    As a real signal: the handler runs where Python heeds one, and not at every line.
    """

    def __init__(self, seconds):
        self._seconds = seconds

    def __enter__(self):
        self._armed = True
        self._before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_):
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _ring(self, *_):
        if self._armed:
            raise KeyboardInterrupt


def frames(error):
    """How many calls deep an error was raised."""
    found, depth = error.__traceback__, 0
    while found is not None:
        found, depth = found.tb_next, depth + 1
    return depth


@pytest.mark.parametrize("options", [{}, {"backend": "serial"}], ids=["kernel", "serial"])
@pytest.mark.parametrize("call", ["step", "mask", "call"])
def test_a_call_that_a_signal_ends_has_not_happened(options, call):
    chance, interrupted = random.Random(0), 0
    with plangym_ext.make_vec("CartPole-v1", NUM_ENVS, **options) as venv:
        venv.reset(seed=0)
        seconds = []
        for _ in range(20):
            began = time.perf_counter()
            CALLS[call](venv)
            seconds.append(time.perf_counter() - began)
        longest = 1.3 * sorted(seconds)[10] + 1e-5
        for _ in range(2000):
            venv.step(actions(venv))
            before = venv.get_states()
            try:
                with Alarm(chance.uniform(1e-6, longest)):
                    CALLS[call](venv)
            except KeyboardInterrupt as error:
                # Else it came when the call had returned, or before it began.
                if frames(error) > 3:
                    interrupted += 1
                    assert same([venv.get_states()], [before])
    assert interrupted > 100
