"""What comes of a connection on which something goes wrong in the middle of a message."""

import os
import pickle
import signal
import socket
import sys
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
import toy_envs
from batches import stop
from clock_bounds import within

import plangym_ext
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.workers.batch_env import ExternalProcess
from plangym_ext.workers.channel import Channel, ChannelClosed, ChannelDamaged, ChannelFull

#: Actions of `Interrupting`: stop or kill itself while it sends, write where it must not.
STOP, KILL, GARBAGE = 2, 3, 4


class Interrupting(gym.Env):
    """Env whose worker comes to grief in the middle of an answer of 100 MB."""

    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = toy_envs.Tame(5)  # whose samples are 0 and 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, "f"), {}

    def step(self, action):
        info = {}
        if action in (STOP, KILL):
            sign = signal.SIGSTOP if action == STOP else signal.SIGKILL
            threading.Thread(target=self._when_sending, args=(sign, threading.get_ident())).start()
            info = {"big": np.zeros(100_000_000, np.uint8)}
        if action == GARBAGE:
            for fd in sockets():
                os.write(fd, b"printed by some library" * 3)
        return np.zeros(1, "f"), 0.0, False, False, info

    def _when_sending(self, sign, main):
        while not sys._current_frames()[main].f_code.co_filename.endswith("channel.py"):
            time.sleep(5e-4)
        time.sleep(0.02)
        os.kill(os.getpid(), sign)


def sockets():
    """Descriptors of this process that are sockets."""
    names = os.listdir("/proc/self/fd")
    links = [(int(fd), os.path.realpath(f"/proc/self/fd/{fd}")) for fd in names]
    return [fd for fd, link in links if "socket:" in link]


@pytest.fixture
def venv():
    with plangym_ext.make_vec(Interrupting, 1, n_workers=1, capture="off") as found:
        found.reset(seed=0)
        yield found


def test_worker_stopped_in_the_middle_of_an_answer_is_late_like_any_other(venv):
    venv.step_async(np.array([STOP]))
    begun = time.monotonic()
    with pytest.raises(WorkerTimeout):
        venv.step_wait(timeout=1.0)
    assert within(time.monotonic() - begun, 5.0)


def test_worker_stopped_in_the_middle_of_an_answer_to_a_promise():
    with ExternalProcess(Interrupting) as process:
        process.reset(seed=0)
        promise = process.step(STOP, blocking=False)
        with pytest.raises(WorkerTimeout, match=r"within 1\.0 s"):
            promise(timeout=1.0)


def test_worker_killed_in_the_middle_of_an_answer_is_dead_at_once(venv):
    with pytest.raises(WorkerDied, match="SIGKILL"):
        venv.step(np.array([KILL]))


def test_garbage_on_the_connection_ends_the_worker_and_says_so():
    with ExternalProcess(Interrupting) as process:
        process.reset(seed=0)
        promise = process.step(GARBAGE, blocking=False)
        with pytest.raises(WorkerDied, match="written to a descriptor that is not its own"):
            promise(timeout=30.0)
        process.restart()
        process.reset(seed=0)


def test_worker_that_reads_nothing_is_late():
    with ExternalProcess(Interrupting) as process:
        process.send_timeout = 0.3
        process.describe()
        stop(process.process.pid)
        with pytest.raises(WorkerTimeout, match=r"did not answer 'call' within 0\.3 s"):
            process.call("echo", np.zeros(10_000_000, np.uint8))


# One end, without a process ----------------------------------------------------------


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    channel = Channel(one)
    yield channel, other
    channel.close()
    other.close()


def frame(message):
    """The bytes of a message, as the other end sends them."""
    one, other = socket.socketpair()
    with one, other:
        Channel(one).send(message)
        return other.recv(1 << 16)


def test_parts_of_messages_are_never_waited_for(ends):
    channel, other = ends
    data = frame("first") + frame("second")
    found = []
    for k in range(len(data)):
        assert channel.collect() == []
        other.send(data[k : k + 1])
        found += [message for message, _ in channel.collect()]
    assert found == ["first", "second"]


@pytest.mark.parametrize(
    "data",
    [b"\0" * 16, b"text of a library", frame("")[:16].replace(b"PGX", b"PGY")],
    ids=["zeros", "text", "another mark"],
)
def test_what_is_no_message_is_refused(data, ends):
    channel, other = ends
    other.send(data)
    with pytest.raises(ChannelDamaged):
        channel.collect()
    assert other.recv(1) == b"", "the other end sees a closed channel"


def test_message_that_is_no_pickle_is_refused(ends):
    channel, other = ends
    good = frame(b"12345678")
    other.send(good.replace(pickle.dumps(b"12345678", protocol=5)[:2], b"\xff\xff"))
    with pytest.raises(ChannelDamaged):
        channel.receive()


def test_sending_ends_with_its_time_or_with_the_other_process(ends):
    channel, _ = ends
    with pytest.raises(ChannelFull):
        channel.send(bytes(10_000_000), timeout=0.1)
    read, write = os.pipe()
    one, other = socket.socketpair()
    with other:
        watched = Channel(one, gone=read)
        os.close(write)  # as a process that is gone, whose child still holds the socket
        with pytest.raises(ChannelClosed):
            watched.send(bytes(10_000_000))
        watched.close()
        os.close(read)
