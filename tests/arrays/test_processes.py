"""Shared arrays between real processes, and what is left when these end.

Every case is a program of its own: only so are its standard error, its exit
status and the death of its parent observed as a user would.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from plangym_ext.arrays import storage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not storage.ANONYMOUS, reason="needs memfd and /proc"),
]

METHODS = ["spawn", "forkserver"]

PRELUDE = """
import multiprocessing, os, pickle, signal, sys, time
import numpy as np
from plangym_ext.arrays import Array, ArrayDict, SharedBlock

def report(array):
    # The inode names the memory for as long as it is held.
    print(os.fstat(array._buffer.block.fd).st_ino, flush=True)

"""


@pytest.fixture
def start(tmp_path):
    """Start a program; the result has its standard output and error in pipes."""
    started = []

    def start(body, *arguments):
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + body)
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(file), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process, code=0):
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (code, ""), out
    return out.split()


def held(inode):
    """Whether any process of ours still has the memory open or mapped."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps") as maps:
                if any(f" {inode} " in line and "plangym_ext" in line for line in maps):
                    return True
            for fd in os.listdir(f"/proc/{pid}/fd"):
                link = f"/proc/{pid}/fd/{fd}"
                if "plangym_ext" in os.readlink(link) and os.stat(link).st_ino == int(inode):
                    return True
        except OSError:  # ended, or not ours
            continue
    return False


def wait_until_free(inode):
    deadline = time.monotonic() + 60
    while held(inode):
        assert time.monotonic() < deadline, f"memory {inode} is still held"
        time.sleep(0.02)


PIPE = """
def child(pipe):
    array = pipe.recv()
    array[...] = 42

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    array = Array((5, 4), np.int32, storage="shared", padding=1)
    report(array)
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,))
    process.start()
    here.send(array[np.array([1, 3]), np.array([0, 2])])
    process.join()
    want = np.zeros((5, 4)); want[[1, 3], [0, 2]] = 42
    np.testing.assert_array_equal(array, want)
    print(process.exitcode)
"""


@pytest.mark.parametrize("method", [*METHODS, "fork"])
def test_a_picked_view_is_written_through_a_pipe(start, method):
    inode, code = finish(start(PIPE, method))
    assert code == "0"
    assert not held(inode)


QUEUE = """
def child(argument, tree, inherited, queue, answers):
    view = queue.get()
    view[...] = 1           # what the queue brought
    view[-1] = 2            # its padding
    view[3] = 3             # and what lies after it
    argument[...] = 4       # as an argument of the process
    tree[2] = {"x": 5, "items": np.arange(3)}
    inherited[0] = 6
    # From here it goes back, and on to any process, by the child's descriptor.
    answers.put(view[1:])
    queue.get()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    array = Array((4, 3), np.int64, storage="shared", padding=1)
    other = Array((2,), np.int64, storage="shared")
    tree = ArrayDict(
        x=Array((4,), np.float32, storage="shared"),
        items=Array((4,), int, kind="jagged", max_mean_num_elem=3, storage="shared"),
    )
    inherited = Array((2,), np.int64, storage="inherited")
    queue, answers = context.Queue(), context.Queue()
    process = context.Process(
        target=child, args=(other[1:], tree, inherited[1:], queue, answers)
    )
    process.start()
    queue.put(array[0:3])
    back = answers.get(timeout=300)
    back[0] = 7
    queue.put(None)
    process.join()
    assert process.exitcode == 0
    np.testing.assert_array_equal(array[-1:5, 0], [2, 1, 7, 1, 3, 0])
    np.testing.assert_array_equal(other, [0, 4])
    np.testing.assert_array_equal(tree["x"], [0, 0, 5, 0])
    np.testing.assert_array_equal(tree["items"].lengths, [0, 0, 3, 0])
    np.testing.assert_array_equal(inherited, [0, 6])
    report(array); report(other); report(tree["x"]); report(inherited)
    try:
        context.Queue()._writer.send(inherited)
    except OSError as error:
        assert "storage='shared'" in str(error)
    else:
        raise SystemExit("inherited memory went through a pipe")
"""


@pytest.mark.parametrize("method", METHODS)
def test_queues_and_process_arguments(start, method):
    for inode in finish(start(QUEUE, method)):
        assert not held(inode)


ARGUMENT = """
def child(view, inherited, pipe):
    pipe.recv()
    view[0] = 3
    inherited[0] = 4
    pipe.send((int(view[0].to_ndarray()), int(inherited[0].to_ndarray())))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    here, there = context.Pipe()
    array, inherited = (Array((5,), int, storage=s) for s in ("shared", "inherited"))
    process = context.Process(target=child, args=(array[1:], inherited[1:], there), daemon=True)
    process.start()
    report(array)
    # The child has descriptors of its own, however late it starts.
    array.close(); inherited.close()
    del array, inherited
    here.send(None)
    assert here.recv() == (3, 4)
    process.join()
"""


@pytest.mark.parametrize("method", METHODS)
def test_an_argument_survives_its_senders_close(start, method):
    (inode,) = finish(start(ARGUMENT, method))
    assert not held(inode)


ENDINGS = """
def child(view, pipe, ending):
    view[1] = 5
    pipe.send("written")
    if ending == "exception":
        raise SystemExit(3)
    if ending == "child killed":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        pipe.recv()
    except EOFError:
        pass

if __name__ == "__main__":
    ending = sys.argv[2]
    context = multiprocessing.get_context(sys.argv[1])
    array = Array((4,), np.int64, storage="shared")
    report(array)
    here, there = context.Pipe()
    process = context.Process(target=child, args=(array[1:], there, ending))
    process.start()
    there.close()
    assert here.recv() == "written"
    if ending == "parent killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending != "normal":
        process.join()
        np.testing.assert_array_equal(array, [0, 0, 5, 0])
        array[2] = 6
        assert array[2].to_ndarray() == 6
    if ending == "exception":
        os._exit(3)  # no finalizer runs
    here.close()
    process.join()
"""


@pytest.mark.parametrize("ending", ["normal", "exception", "child killed", "parent killed"])
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_however_it_ends(start, method, ending):
    codes = {"exception": 3, "parent killed": -signal.SIGKILL}
    (inode,) = finish(start(ENDINGS, method, ending), codes.get(ending, 0))
    wait_until_free(inode)
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("plangym_")]


WORKER = """
import os, pickle, sys
import numpy as np
from plangym_ext.arrays import Array, SharedBlock

block = SharedBlock.attach(int(sys.argv[1]), 32)
block.ndarray((4,), "i8")[:] = 5
view = pickle.load(sys.stdin.buffer)
again = pickle.load(sys.stdin.buffer)
view[...] = 6
assert np.shares_memory(view.to_ndarray(), again.to_ndarray()), "mapped twice"
again.close()
view[0] = 8
print("multiprocessing" in sys.modules)
"""


def test_a_plain_subprocess_gets_descriptors_and_pickles():
    import pickle

    import numpy as np

    from plangym_ext.arrays import Array, SharedBlock

    block = SharedBlock.create(32)
    array = Array((3, 2), np.int64, storage="shared")
    result = subprocess.run(
        [sys.executable, "-c", WORKER, str(block.fd)],
        pass_fds=[block.fd],
        input=pickle.dumps(array[1:]) + pickle.dumps(array[:, 0]),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, b"", b"False\n")
    assert block.ndarray((4,), "i8").tolist() == [5] * 4
    np.testing.assert_array_equal(array, [[0, 0], [8, 8], [6, 6]])


SOCKET = """
import socket, sys
from plangym_ext.arrays import SharedBlock

with socket.socket(fileno=int(sys.argv[1])) as channel:
    _, (fd,), _, _ = socket.recv_fds(channel, 1, 1)
    SharedBlock.attach(fd, 16).ndarray((2,), "i8")[:] = 9
"""


def test_a_descriptor_can_be_sent_over_a_socket():
    import socket

    from plangym_ext.arrays import SharedBlock

    here, there = socket.socketpair()
    with here, there:
        process = subprocess.Popen(
            [sys.executable, "-c", SOCKET, str(there.fileno())], pass_fds=[there.fileno()]
        )
        block = SharedBlock.create(16)
        socket.send_fds(here, [b"x"], [block.fd])
        assert process.wait(timeout=300) == 0
    assert block.ndarray((2,), "i8").tolist() == [9, 9]


LATE = """
import pickle, sys
for sent in range(2):
    try:
        pickle.load(sys.stdin.buffer)
    except OSError as error:
        print(error)
"""


def test_a_sender_that_closed_or_died_is_named():
    import pickle

    from plangym_ext.arrays import Array

    closed = Array((3,), int, storage="shared")
    pickled = pickle.dumps(closed)
    closed.close()
    program = (
        "import sys, pickle; from plangym_ext.arrays import Array;"
        "sys.stdout.buffer.write(pickle.dumps(Array((3,), int, storage='shared')))"
    )
    orphan = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    late = subprocess.run(
        [sys.executable, "-c", LATE], input=pickled + orphan.stdout, capture_output=True, check=True
    )
    first, second = late.stdout.decode().splitlines()
    assert f"of process {os.getpid()} must be an open block of 24 bytes" in first
    assert "The sender must live and keep the array" in second
    assert late.stderr == b""


NAMED = """
from plangym_ext.arrays import storage
storage.ANONYMOUS = False

def child(view, pipe):
    view[0] = 3
    pipe.recv()[1] = 4
    view.close()  # a forked child holds the creator's own block

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    array = Array((5,), int, storage="shared")
    here, there = context.Pipe()
    process = context.Process(target=child, args=(array[1:], there))
    process.start()
    here.send(array[2:])
    process.join()
    np.testing.assert_array_equal(array, [0, 3, 0, 4, 0])
    print([name for name in os.listdir("/dev/shm") if name == array._buffer.block._name[1:]])
"""


@pytest.mark.parametrize("method", [*METHODS, "fork"])
def test_named_segments_are_unlinked_by_their_creator_only(start, method):
    (name,) = finish(start(NAMED, method))
    # It was still there after the child had ended, and is not now.
    assert name.startswith("['plangym_")
    assert name[2:-2] not in os.listdir("/dev/shm")
