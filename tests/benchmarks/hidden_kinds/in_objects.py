"""Places in objects of C, in memory, generators, queues, files and finalisers."""

# ruff: noqa: NPY002, SIM115 - generators of the process, and open files, are what is tried
from __future__ import annotations

import array
import asyncio
import collections
import contextlib
import ctypes
import decimal
import gc
import hashlib
import mmap
import os
import queue
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import weakref
import xml.etree.ElementTree as ET
import zlib
from typing import Any

import numpy as np

from hidden_kinds.base import Hidden, mixed


class Cells(Hidden):
    """Keeps the number in the first cell of something."""

    cells: Any

    def turn(self, action: int) -> Any:
        self.cells[0] = mixed(self.cells[0], action)
        return self.cells[0]


class CtypesArray(Cells):
    named = r"CtypesArray\.cells"

    def begin(self) -> None:
        self.cells = (ctypes.c_int * 2)(1, 1)


class CtypesPointer(Cells):
    named = r"CtypesPointer\.cells"

    def begin(self) -> None:
        self.cells = ctypes.pointer(ctypes.c_int(1))


class CtypesStructure(Hidden):
    class Pair(ctypes.Structure):
        _fields_ = (("v", ctypes.c_int),)

    def begin(self) -> None:
        self.pair = self.Pair(1)

    def turn(self, action: int) -> Any:
        self.pair.v = mixed(self.pair.v, action)
        return self.pair.v


class Allocated(Hidden):
    """Memory that an attribute has the address of."""

    named = "differs"

    def begin(self) -> None:
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        self.address = libc.malloc(ctypes.c_size_t(8))
        ctypes.c_int.from_address(self.address).value = 1

    def turn(self, action: int) -> Any:
        cell = ctypes.c_int.from_address(self.address)
        cell.value = mixed(cell.value, action)
        return cell.value


class ArrayOfArray(Cells):
    def begin(self) -> None:
        self.cells = array.array("i", [1])


class ByteArray(Hidden):
    def begin(self) -> None:
        self.cells = bytearray(b"\1\0")

    def turn(self, action: int) -> Any:
        self.cells[0] = mixed(self.cells[0], action) % 251
        return self.cells[0]


class MemoryView(ByteArray):
    named = r"MemoryView\.cells"

    def begin(self) -> None:
        self.cells: Any = memoryview(bytearray(b"\1\0"))


class MappedMemory(ByteArray):
    named = r"MappedMemory\.cells"

    def begin(self) -> None:
        self.cells = mmap.mmap(-1, 4096)


class NumpyArray(Cells):
    def begin(self) -> None:
        self.cells = np.ones(3, np.int64)


class ViewOfArray(Cells):
    def begin(self) -> None:
        self.array = np.ones(9, np.int64)
        self.cells = self.array[4:]

    def turn(self, action: int) -> Any:
        super().turn(action)
        return self.array[4]


class ObjectArray(Hidden):
    def begin(self) -> None:
        self.array = np.array([[1], None], object)

    def turn(self, action: int) -> Any:
        self.array[0][0] = mixed(self.array[0][0], action)
        return self.array[0][0]


class FlagOfArray(Hidden):
    def begin(self) -> None:
        self.array = np.ones(3)

    def turn(self, action: int) -> Any:
        self.array.flags.writeable = action != 1
        return bool(self.array.flags.writeable) + self.array[0]


class Sqlite(Hidden):
    named = "sqlite|Connection|base"

    def begin(self) -> None:
        self.base = sqlite3.connect(":memory:")
        self.base.execute("create table t (v int)")
        self.base.execute("insert into t values (1)")

    def turn(self, action: int) -> Any:
        (v,) = self.base.execute("select v from t").fetchone()
        self.base.execute("update t set v = ?", (mixed(v, action),))
        return mixed(v, action)


class Compressor(Hidden):
    named = "Compress|packer"

    def begin(self) -> None:
        self.packer = zlib.compressobj()

    def turn(self, action: int) -> Any:
        self.packer.compress(bytes([action, self.t % 256]))
        return len(self.packer.copy().flush())


class Hash(Hidden):
    named = "HASH|hash"

    def begin(self) -> None:
        self.hash = hashlib.sha256()

    def turn(self, action: int) -> Any:
        self.hash.update(bytes([action]))
        return self.hash.digest()[0]


class Element(Hidden):
    def begin(self) -> None:
        self.root = ET.Element("a", v="1")

    def turn(self, action: int) -> Any:
        self.root.set("v", str(mixed(int(self.root.get("v", "1")), action)))
        return int(self.root.get("v", "1"))


class DecimalContext(Hidden):
    named = "decimal|ontext"

    def begin(self) -> None:
        self.numbers = decimal.Context(prec=9)

    def turn(self, action: int) -> Any:
        self.numbers.prec = 5 + mixed(self.numbers.prec, action) % 20
        return self.numbers.prec


# Generators -------------------------------------------------------------------------------


class OwnGenerator(Hidden):
    def begin(self) -> None:
        self.rng: Any = np.random.default_rng(3)

    def turn(self, action: int) -> Any:
        return self.rng.random()


class NpRandom(Hidden):
    def turn(self, action: int) -> Any:
        return self.np_random.random()


class OldGenerator(OwnGenerator):
    def begin(self) -> None:
        self.rng = np.random.RandomState(3)


class PythonGenerator(OwnGenerator):
    def begin(self) -> None:
        self.rng = random.Random(3)


class BoundDraw(OwnGenerator):
    def begin(self) -> None:
        self.draw = np.random.default_rng(3).random

    def turn(self, action: int) -> Any:
        return self.draw()


class OwnSystemRandom(OwnGenerator):
    named = "differs"

    def begin(self) -> None:
        self.rng = random.SystemRandom()


class GlobalNumpy(Hidden):
    named = r"numpy\.random"

    def turn(self, action: int) -> Any:
        return np.random.random()


class GlobalPython(Hidden):
    named = "`random`"

    def turn(self, action: int) -> Any:
        return random.random()


class TorchGenerator(Hidden):
    def begin(self) -> None:
        import torch

        self.rng = torch.Generator().manual_seed(3)

    def turn(self, action: int) -> Any:
        import torch

        return float(torch.rand(1, generator=self.rng))


class TorchGlobal(Hidden):
    named = "torch"

    def turn(self, action: int) -> Any:
        import torch

        return float(torch.rand(1))


class TorchModule(Hidden):
    def begin(self) -> None:
        import torch

        torch.manual_seed(0)
        self.net = torch.nn.BatchNorm1d(1)

    def turn(self, action: int) -> Any:
        import torch

        self.net(torch.tensor([[float(action)], [2.0]]))
        return float(self.net.running_mean)  # type: ignore[arg-type]


class NumbaGenerator(Hidden):
    named = "numba"

    def begin(self) -> None:
        import numba

        global DRAW
        if DRAW is None:
            DRAW = numba.njit(lambda: np.random.random())

    def turn(self, action: int) -> Any:
        return DRAW()


DRAW: Any = None


class ActionSpace(Hidden):
    named = "action_space"

    def turn(self, action: int) -> Any:
        if self.t == 1 and self.episode < 2:
            self.action_space.seed(5)
        return self.action_space.sample()


class OwnSpace(Hidden):
    named = "space"

    def begin(self) -> None:
        import gymnasium as gym

        self.observation_space = gym.spaces.Box(-1e9, 1e9, (3,), np.float64, seed=3)

    def turn(self, action: int) -> Any:
        return self.observation_space.sample()[0] % 1000


# Queues, files, processes -----------------------------------------------------------------


class Queue(Hidden):
    named = "queue|Queue"

    def begin(self) -> None:
        self.queue: Any = queue.Queue()
        self.queue.put(1)

    def turn(self, action: int) -> Any:
        self.queue.put(mixed(self.queue.get_nowait(), action))
        return self.queue.queue[0]


class SimpleQueue(Queue):
    def begin(self) -> None:
        self.queue = queue.SimpleQueue()
        self.queue.put(1)

    def turn(self, action: int) -> Any:
        v = mixed(self.queue.get_nowait(), action)
        self.queue.put(v)
        return v


class AsyncioQueue(SimpleQueue):
    def begin(self) -> None:
        self.queue = asyncio.Queue()
        self.queue.put_nowait(1)

    def turn(self, action: int) -> Any:
        v = mixed(self.queue.get_nowait(), action)
        self.queue.put_nowait(v)
        return v


class Lock(Hidden):
    """A bit that is whether a lock is taken."""

    named = "lock"

    def begin(self) -> None:
        self.lock = threading.Lock()

    def turn(self, action: int) -> Any:
        if action == 1 and not self.lock.locked():
            self.lock.acquire()
        elif action == 2 and self.lock.locked():
            self.lock.release()
        return self.lock.locked()


class Semaphore(Hidden):
    named = "emaphore|lock"

    def begin(self) -> None:
        self.semaphore = threading.Semaphore(50)

    def turn(self, action: int) -> Any:
        if action == 1:
            self.semaphore.acquire(blocking=False)
        elif action == 2:
            self.semaphore.release()
        return self.semaphore._value


class ThreadLocal(Hidden):
    named = "local"

    def begin(self) -> None:
        self.local = threading.local()
        self.local.v = 1

    def turn(self, action: int) -> Any:
        self.local.v = mixed(self.local.v, action)
        return self.local.v


class Thread(Hidden):
    """One thread that keeps the number on its stack."""

    named = "thread|Thread|closed|queue"

    def begin(self) -> None:
        self.ask, self.told = queue.Queue(), queue.Queue()  # type: ignore[var-annotated]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        v = 1
        while True:
            v = mixed(v, self.ask.get())
            self.told.put(v)

    def turn(self, action: int) -> Any:
        self.ask.put(action)
        return self.told.get(timeout=5)


class Subprocess(Hidden):
    """One process that counts."""

    named = "Popen|process|subprocess"
    code = "import sys\nfor n, _ in enumerate(sys.stdin): print(n * 7 % 1009, flush=True)"

    def begin(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-S", "-c", self.code]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def turn(self, action: int) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


class Socket(Hidden):
    """A number that is on its way through a pair of sockets."""

    named = "socket"

    def begin(self) -> None:
        self.here, self.there = socket.socketpair()
        self.here.settimeout(1.0)
        self.there.send((1).to_bytes(2, "little"))

    def turn(self, action: int) -> Any:
        v = mixed(int.from_bytes(self.here.recv(2), "little"), action)
        self.there.send(v.to_bytes(2, "little"))
        return v


class Pipe(Hidden):
    """The same through a pipe, of which the attributes are numbers."""

    named = "file|descriptor|pipe|differs|ValueError|Error"

    def begin(self) -> None:
        self.out, self.into = os.pipe()
        os.write(self.into, b"\1\0")

    def turn(self, action: int) -> Any:
        v = mixed(int.from_bytes(os.read(self.out, 2), "little"), action)
        os.write(self.into, v.to_bytes(2, "little"))
        return v


class FileWritten(Hidden):
    """A file that is written and read again."""

    named = "file"

    def begin(self) -> None:
        self.path = os.path.join(tempfile.mkdtemp(prefix="hidden"), "v")

    def turn(self, action: int) -> Any:
        v = 1
        with contextlib.suppress(FileNotFoundError), open(self.path) as file:
            v = int(file.read())
        with open(self.path, "w") as file:
            file.write(str(mixed(v, action)))
        return mixed(v, action)


class FileExists(Hidden):
    """Whether a file exists."""

    named = "file"

    def begin(self) -> None:
        self.path = os.path.join(tempfile.mkdtemp(prefix="hidden"), "v")

    def turn(self, action: int) -> Any:
        if action == 1:
            open(self.path, "w").close()
        elif action == 2 and os.path.exists(self.path):
            os.remove(self.path)
        return os.path.exists(self.path)


class FilePosition(Hidden):
    """Where a file is read."""

    named = "file|TextIOWrapper|Buffered"

    def begin(self) -> None:
        self.file: Any = open(__file__, "rb")

    def turn(self, action: int) -> Any:
        data = self.file.read(1 + action)
        if not data:
            self.file.seek(0)
        return data[0] if data else 0


class DescriptorPosition(Hidden):
    """The same with a descriptor, which is a number."""

    named = "file|descriptor|differs"

    def begin(self) -> None:
        self.fd = os.open(__file__, os.O_RDONLY)

    def turn(self, action: int) -> Any:
        data = os.read(self.fd, 1 + action)
        if not data:
            os.lseek(self.fd, 0, os.SEEK_SET)
        return data[0] if data else 0


# Finalisers -------------------------------------------------------------------------------

DROPPED = [0]


class Dropped:
    def __del__(self) -> None:
        DROPPED[0] += 1


class Finaliser(Hidden):
    """How many objects were freed."""

    named = "DROPPED"

    def turn(self, action: int) -> Any:
        self.kept: Any = Dropped() if action else None
        return DROPPED[0] % 1009


class WeakFinaliser(Hidden):
    named = "DROPPED"

    def turn(self, action: int) -> Any:
        self.kept: Any = collections.UserDict()
        weakref.finalize(self.kept, DROPPED.__setitem__, 0, DROPPED[0] + action)
        return DROPPED[0] % 1009


class CountOfReferences(Hidden):
    named = "differs"

    def begin(self) -> None:
        self.kept: Any = object()
        self.more: list[Any] = []

    def turn(self, action: int) -> Any:
        self.more = [self.kept] * (mixed(len(self.more), action) % 13)
        return sys.getrefcount(self.kept)


class SizeOfList(Hidden):
    """How much room a list has, which its content does not tell."""

    named = "differs"

    def begin(self) -> None:
        self.kept: list[int] = []

    def turn(self, action: int) -> Any:
        if action == 1:
            self.kept.append(1)
        elif action == 2:
            self.kept = self.kept[:20]
        return sys.getsizeof(self.kept) % 1009


class CollectorCount(Hidden):
    named = "differs"

    def turn(self, action: int) -> Any:
        return gc.get_count()[0]
