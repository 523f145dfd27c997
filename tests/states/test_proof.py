"""The proof of states: on a copy of the env, by playing, and by account of what lies around it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import functools
import gc
import importlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from clock_bounds import within

import plangym_ext
from plangym_ext.errors import IncompleteState
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.trials.choice import prove, prove_unbuilt
from plangym_ext.states.trials.fork import Fork, ForkFailed
from plangym_ext.states.trials.round_trip import Plan, Trip
from plangym_ext.states.trials.subject import Subject
from plangym_ext.states.trials.surroundings import surroundings

HERE = sys.modules[__name__]
COUNTER = 0
SHARED = {"count": 0}
GENERATOR = np.random.default_rng(0)
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("steps", default=0)


class Base(gym.Env):
    """Shows its steps and a number, which a subclass comes to in its own way."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)
    length = 40

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, 0.0
        return self.obs(), {}

    def step(self, action):
        self.t += 1
        self.x += float(self.drawn(int(action)))
        return self.obs(), self.x, self.t >= self.length, False, {}

    def obs(self):
        return np.array([self.t, self.x], np.float64)

    def drawn(self, action):
        return action * self.np_random.random()


class ModuleCounter(Base):
    def drawn(self, action):
        HERE.COUNTER += 1
        return HERE.COUNTER % 1000 == 999


class ModuleDict(Base):
    def drawn(self, action):
        SHARED["count"] += 1
        return SHARED["count"] % 1000 == 999


class ModuleGenerator(Base):
    def drawn(self, action):
        return GENERATOR.random() if self.t == 30 else 0


class ClassCounter(Base):
    count = 0

    def drawn(self, action):
        type(self).count += 1
        return type(self).count % 1000 == 999


class FunctionAttribute(Base):
    def drawn(self, action):
        FunctionAttribute.drawn.count = getattr(FunctionAttribute.drawn, "count", 0) + 1
        return FunctionAttribute.drawn.count % 1000 == 999


FunctionAttribute.drawn.count = 0


class FilterOfWarnings(Base):
    def drawn(self, action):
        warnings.filterwarnings("ignore", message=f"message {len(warnings.filters)}")
        return len(warnings.filters)


class EventLoop(Base):
    def __init__(self):
        self.loop = asyncio.new_event_loop()

    def close(self):
        self.loop.close()

    def drawn(self, action):
        return self.loop.run_until_complete(asyncio.sleep(0, action))


class MutableDefault(Base):
    def drawn(self, action, seen=[0]):  # noqa: B006 - the fault on trial
        seen[0] += 1
        return seen[0] % 1000 == 999


class Closure(Base):
    def __init__(self):
        count = 0

        def counted():
            nonlocal count
            count += 1
            return count % 1000 == 999

        self.counted = counted

    def drawn(self, action):
        return self.counted()


class ContextVariable(Base):
    def drawn(self, action):
        VARIABLE.set(VARIABLE.get() + 1)
        return VARIABLE.get() % 1000 == 999


class PythonRandom(Base):
    def drawn(self, action):
        return random.random() if self.t % 20 == 19 else 0


class NumpyRandom(Base):
    def drawn(self, action):
        return np.random.random() if self.t % 20 == 19 else 0  # noqa: NPY002


class SampledSpace(Base):
    def drawn(self, action):
        return self.action_space.sample() if self.t % 20 == 19 else 0

    def __init__(self):
        self.action_space = gym.spaces.Discrete(3)


class Iterator(Base):
    """An iterator of the class, that all instances share."""

    numbers = itertools.count()

    def drawn(self, action):
        return next(self.numbers) % 7


class Kept:
    __slots__ = ("count",)


class Slotted(Base):
    """An object with slots, of the class."""

    kept = Kept()
    kept.count = 0

    def drawn(self, action):
        self.kept.count += 1
        return self.kept.count


class SlotOfEnv(Base):
    __slots__ = ("count",)

    def drawn(self, action):
        self.count = getattr(self, "count", 0) + 1
        return self.count


class Locked(Base):
    def __init__(self):
        self.lock = threading.Lock()

    def drawn(self, action):
        if not self.lock.acquire(blocking=False):
            self.lock.release()
        return self.lock.locked()


@functools.lru_cache
def remembered(name):
    return [0]


class Remembered(Base):
    """What a cache of the module returns, and steps change."""

    def drawn(self, action):
        remembered("a")[0] += 1
        return remembered("a")[0]


class NeverMade:
    count = 0


class Apart(Base):
    """An attribute of a class of which the env has no instance."""

    def drawn(self, action):
        NeverMade.count += 1
        return NeverMade.count


class InFile(Base):
    def __init__(self, path="/tmp/plangym_ext_never_written"):
        self.path = path

    def reset(self, **options):
        with open(self.path, "w") as file:
            file.write("0")
        return super().reset(**options)

    def drawn(self, action):
        with open(self.path) as file:
            count = int(file.read()) + 1
        with open(self.path, "w") as file:
            file.write(str(count))
        return count % 1000 == 999


def counting():
    count = 0

    def counted(env):
        nonlocal count
        count += 1
        return count > 10**6

    return counted


class InProperty(Base):
    """A number around the function of a property, which never shows."""

    far = property(counting())

    def drawn(self, action):
        return self.far


class InPartial(Base):
    far = staticmethod(functools.partial(counting()))

    def drawn(self, action):
        return self.far(action)


class InPartialMethod(Base):
    def count(self, kept):
        kept[0] += 1
        return kept[0] > 10**6

    far = functools.partialmethod(count, [0])

    def drawn(self, action):
        return self.far()


class InDunder(Base):
    __count__ = 0

    def drawn(self, action):
        type(self).__count__ += 1
        return self.__count__ > 10**6


class Spawns(Base):
    """How many generators were begotten, which never shows."""

    def drawn(self, action):
        return self.np_random.spawn(1)[0].random() > 1


class NewSeed(Base):
    """A generator of the user's own, which a reset without a seed makes anew."""

    def reset(self, *, seed=None, options=None):
        self.rng = random.Random(seed)
        return super().reset(seed=seed)

    def drawn(self, action):
        return self.rng.random()


class Forks(Base):
    def drawn(self, action):
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        return 0


class Starts(Base):
    def drawn(self, action):
        subprocess.run(["true"], check=True)
        return 0


class Connects(Base):
    def drawn(self, action):
        with socket.socket() as end:
            end.connect(("127.0.0.1", 1))
        return 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (ModuleCounter, "COUNTER"),
        (ModuleDict, "SHARED"),
        (ModuleGenerator, "GENERATOR"),
        (ClassCounter, r"ClassCounter\.count"),
        (FunctionAttribute, r"drawn\.count"),
        (FilterOfWarnings, r"warnings\.filters"),
        (EventLoop, "event loop"),
        (MutableDefault, "default 0 of .*MutableDefault.drawn"),
        (Closure, "variable count around"),
        (ContextVariable, "context variable steps"),
        (PythonRandom, "generator of `random`"),
        (NumpyRandom, "generator of `numpy.random`"),
        (SampledSpace, r"SampledSpace\.action_space"),
        (Iterator, r"Iterator\.numbers"),
        (Slotted, r"Slotted\.kept"),
        (SlotOfEnv, r"SlotOfEnv\.count"),
        (Locked, r"Locked\.lock"),
        (Remembered, "remembered"),
        (Apart, r"NeverMade\.count"),
        (InFile, "file /tmp/plangym_ext_never_written"),
        (InProperty, "variable count around"),
        (InPartial, r"InPartial\.far"),
        (InPartialMethod, r"InPartialMethod\.far"),
        (InDunder, r"InDunder\.__count__"),
        (Spawns, "np_random"),
        (NewSeed, r"random\.Random\(\)"),
        (Forks, r"os\.fork"),
        (Starts, r"subprocess\.Popen"),
        (Connects, r"socket\.connect"),
    ],
)
def test_what_no_state_holds_is_refused_by_its_name(make, name):
    with pytest.raises(IncompleteState, match=f"(?s)snapshot: [^\n]*({name})"):
        plangym_ext.make(make, backend="serial", check=2.0)
    assert not os.path.exists("/tmp/plangym_ext_never_written")


OF_A_PACKAGE = {
    "__init__": "COUNT = 0",
    "env": """
import importlib
import gymnasium as gym
from manymodules import near
from manymodules.objects import held

class Env(gym.Env):
    def step(self, action):
        from . import late
        return late.COUNT, importlib.import_module("manymodules.named"), near.far.COUNT
""",
    "near": "COUNT = 0",
    "near_far": "COUNT = 0",
    "late": "COUNT = 0",
    "named": "COUNT = 0",
    "objects": "COUNT = 0\nclass Held: pass\nheld = Held()",
    "beside": "COUNT = 0",
}


def test_modules_that_the_env_s_code_refers_to_are_marked_and_no_others(tmp_path, monkeypatch):
    folder = tmp_path / "manymodules"
    (folder / "near").mkdir(parents=True)
    for name, text in OF_A_PACKAGE.items():
        path = {"near": "near/__init__", "near_far": "near/far"}.get(name, name)
        (folder / f"{path}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    inside = ["env", "near", "near.far", "late", "named", "objects", "beside"]
    loaded = [importlib.import_module(f"manymodules.{name}") for name in inside]
    try:
        marks = surroundings(loaded[0].Env())
    finally:
        for name in ["manymodules", *(one.__name__ for one in loaded)]:
            del sys.modules[name]
    counts = {name.removesuffix(".COUNT") for name in marks if name.endswith(".COUNT")}
    expected = {"manymodules", *(f"manymodules.{name}" for name in inside[1:-1])}
    assert counts == expected


class Cache(Base):
    """Remembers what it has computed, which decides nothing."""

    known: dict[int, float] = {}  # noqa: RUF012 - shared on purpose

    def drawn(self, action):
        return self.known.setdefault(self.t * 3 + action, float(np.sin(self.t * 3 + action)))


class Late(Base):
    length = 400

    def drawn(self, action):
        return action if self.t < 200 else HERE.COUNTER


@pytest.mark.slow
def test_caches_are_no_state():
    with plangym_ext.make(Cache, backend="serial", check=2.0) as env:
        assert env.exactness.method == "snapshot"
        assert env.exactness.episodes > 2


class Writes(gym.Wrapper):
    """Writes down everything that is done with an env, in a file and in this process."""

    done: list[str] = []  # noqa: RUF012 - of all instances

    def __init__(self, env, path):
        super().__init__(env)
        self.file = open(path, "a")  # noqa: SIM115 - closed by `close`
        self.note("made")

    def note(self, what):
        self.done.append(what)
        self.file.write(f"{what}\n")
        self.file.flush()

    def reset(self, **options):
        self.note(f"reset {options.get('seed')}")
        return self.env.reset(**options)

    def step(self, action):
        self.note(f"step {action}")
        random.random()
        return self.env.step(action)

    def close(self):
        self.note("close")
        self.file.close()
        super().close()


def used(make):
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    Writes.done.clear()
    env = make()
    first = env.reset(seed=3)[1 if hasattr(env, "step_batch") else 0]
    shown = [env.step(1)[0] for _ in range(3)]
    env.close()
    generators = random.getstate(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    return [first, *shown], list(Writes.done), generators


@pytest.mark.parametrize("capture", ["auto", "replay"])
def test_nothing_of_the_env_is_touched(tmp_path, capture):
    def build(path):
        return lambda: Writes(gym.wrappers.NormalizeObservation(Base()), path)

    plain = used(build(tmp_path / "plain"))
    # Its steps draw from `random`, so that no way is exact: what is tried for it leaves no trace.
    with pytest.raises(IncompleteState):
        plangym_ext.make(build(tmp_path / "refused"), backend="serial", capture=capture)
    assert (tmp_path / "refused").read_text() == "made\nclose\n"
    ours = used(
        lambda: plangym_ext.make(
            build(tmp_path / "ours"), backend="serial", capture=capture, check=False
        )
    )
    assert (tmp_path / "ours").read_text() == (tmp_path / "plain").read_text()
    assert ours[1:] == plain[1:]
    assert all((a == b).all() for a, b in zip(ours[0], plain[0], strict=True))


def test_a_vector_env_makes_no_env_beside_its_rows(tmp_path):
    def make():
        return Writes(Base(), tmp_path / "log")

    Writes.done.clear()
    with plangym_ext.make_vec(make, 2, backend="serial") as venv:
        assert Writes.done == ["made", "made"]
        venv.reset(seed=0)
    assert Writes.done.count("close") == 2
    assert sum(what.startswith("reset") for what in Writes.done) == 2


class Handle:
    """Frees what it stands for, like the client of a simulator."""

    live: dict[int, float] = {}  # noqa: RUF012 - what a simulator keeps

    def __init__(self):
        self.number = len(Handle.live)
        Handle.live[self.number] = 0.0

    def __del__(self):
        Handle.live.pop(self.number, None)


class Holds(Base):
    def __init__(self):
        self.handle = Handle()

    def reset(self, **options):
        Handle.live[self.handle.number] = 0.0
        return super().reset(**options)

    def drawn(self, action):
        Handle.live[self.handle.number] += action
        return Handle.live[self.handle.number]


def test_finalisers_of_copies_do_not_run_here():
    with plangym_ext.make(Holds, backend="serial") as env:
        assert env.exactness.method == "replay"
        state, *_ = env.reset(seed=0)
        for _ in range(4):
            env.step_batch([1, 2], [state, state])
        assert env.step(1).obs.tolist() == [1.0, 1.0]


class Threaded(Base):
    """Counts in a thread of its own."""

    def __init__(self):
        self.asked, self.answered, self.number = threading.Event(), threading.Event(), 0
        self.thread = threading.Thread(target=self.serve, daemon=True, name="counts")
        self.thread.start()

    def serve(self):
        while True:
            self.asked.wait()
            self.asked.clear()
            self.number += 1
            self.answered.set()

    def drawn(self, action):
        self.asked.set()
        assert self.answered.wait(20)
        self.answered.clear()
        return self.number


def test_a_codec_of_the_library_is_not_audited_wherever_it_was_tried(monkeypatch):
    # An audit would miss the picture that a replay of CarRacing leaves out on purpose.
    def refused(*_):
        raise ForkFailed("no copy")

    monkeypatch.setattr("plangym_ext.states.trials.fresh._in_a_fork", refused)
    monkeypatch.setattr("plangym_ext.states.trials.choice._proved", {})
    with plangym_ext.make("LunarLander-v3", backend="serial") as env:
        assert env.exactness.notes == ("tried in a copy of this process: no copy",)
        assert env.exactness.proved == "library"


@pytest.mark.slow
def test_an_env_with_a_thread_is_tried_in_a_new_process():
    with plangym_ext.make(Threaded, backend="serial") as env:
        assert env.exactness.proved == "worker"
        assert "threads of counts" in env.exactness.notes[0]
        state, *_ = env.reset(seed=0)
        expected = env.step(0, return_state=True)
        assert (env.step(0, state).obs == expected.obs).all()


class Dies(Base):
    def drawn(self, action):
        ctypes.string_at(0)


def test_a_copy_that_dies_harms_nothing():
    env = Dies()
    with pytest.raises(IncompleteState, match="it died"):
        prove(env, "auto", check=True, trusted=False)
    assert "_np_random" not in vars(env)


def test_a_copy_that_hangs_is_ended():
    begun = time.monotonic()
    with pytest.raises(ForkFailed, match="too long"), Fork(lambda _: time.sleep(100)) as fork:
        fork.line.receive(0.2)
    assert within(time.monotonic() - begun, 20)


class Counted:
    """Is counted while it lives."""

    def __init__(self):
        self.itself = self
        SHARED["count"] += 1

    def __del__(self):
        SHARED["count"] -= 1


def test_garbage_of_before_is_not_freed_in_the_middle_of_a_proof():
    gc.disable()
    try:
        before = SHARED["count"]
        for _ in range(9):
            Counted()
        assert SHARED["count"] == before + 9

        def look(line):
            gc.collect()
            line.send(SHARED["count"])

        with Fork(look) as fork:
            assert fork.line.receive(20) == before + 9
    finally:
        gc.enable()
        gc.collect()


def test_processes_that_compiled_code_starts_in_a_copy_end_with_it():
    def start(line):
        # Past Python, as a game does that runs its engine beside it.
        line.send(ctypes.CDLL(None).fork() or signal.pause())

    with Fork(start) as fork:
        pid = fork.line.receive(20)
        assert os.path.exists(f"/proc/{pid}")
    status, begun = Path(f"/proc/{pid}/stat"), time.monotonic()
    with contextlib.suppress(FileNotFoundError):
        # What nothing waits for is gone, or a zombie.
        while status.read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.05)
            if time.monotonic() - begun > 10:
                os.kill(pid, signal.SIGKILL)
                pytest.fail("it goes on")


def test_states_are_saved_within_short_episodes_too():
    env = Base()
    env.reset(seed=0)
    subject = Subject(env, StateCodec(env, "snapshot"))
    trip = Trip(subject, Plan(0.2, 240, least=240))
    begins = {0, *(ending + 1 for ending in trip.endings)}
    within = [step for step in trip._saved if step > 2 and step not in begins]
    assert trip.endings == [39, 79, 119, 159, 199, 239]
    assert {step // 40 for step in within} == {*range(6)}, sorted(trip._saved)


class DrawnOnce(Base):
    """Its constructor draws a number that no reset draws again."""

    def __init__(self):
        super().__init__()
        self.drawn_once = int.from_bytes(os.urandom(4), "little")

    def drawn(self, action):
        return self.drawn_once


def test_a_constructor_that_draws_is_seen_in_a_second_instance():
    with pytest.raises(IncompleteState, match="restored in a second instance"):
        plangym_ext.make(DrawnOnce, backend="serial", capture="replay")
    with plangym_ext.make(DrawnOnce, backend="serial") as env:
        assert env.exactness.method == "snapshot"  # which holds the number


def test_an_env_that_is_proved_before_it_is_made_is_proved_once():
    found = prove_unbuilt(Base, "auto", check=True, trusted=False)
    assert prove(Base(), "auto", check=True, trusted=False) is found


def test_the_proof_says_how_far_it_went():
    with plangym_ext.make(Base, backend="serial", check=0.5) as env:
        found = env.exactness
        assert (found.proved, found.exact, env.exact) == ("fork", True, True)
        assert found.transitions > found.episodes > 0
        assert "in a copy of this process" in str(found)
    with plangym_ext.make(Base, backend="serial", check=False) as env:
        assert (env.exactness.proved, env.exact) == ("", None)
    with plangym_ext.make("CartPole-v1") as env:
        assert env.exactness.proved == "library"


def test_files_of_the_process_are_not_moved_by_a_copy(tmp_path):
    path = tmp_path / "file"
    path.write_text("0123456789")
    with open(path, "r+b", buffering=0) as file, open(path, "rb", buffering=0) as read:
        assert read.read(3) == b"012"

        def meddle(line):
            read.read(4)
            file.write(b"xxxx")
            with open(path, "w") as other:
                other.write("gone")
            os.remove(path)
            line.send(path.exists())

        with Fork(meddle) as fork:
            # Gone where it was removed, and only there.
            assert fork.line.receive(20) is False
        assert path.exists()
        assert read.read(3) == b"345"
        assert file.tell() == 0
    assert path.read_text() == "0123456789"


class MakesFile(Base):
    """Shows whether a file exists, which it makes and removes."""

    path = ""

    def drawn(self, action):
        if action == 1:
            open(self.path, "w").close()
        elif action == 2 and os.path.exists(self.path):
            os.remove(self.path)
        return os.path.exists(self.path)


@pytest.mark.parametrize("folder", [".", "__pycache__", f"cache_{'0a' * 20}"])
def test_whether_a_file_exists_is_no_state(folder, tmp_path):
    (tmp_path / folder).mkdir(exist_ok=True)
    MakesFile.path = str(tmp_path / folder / "made")
    with pytest.raises(IncompleteState, match=r"writes the file .*made and reads it again"):
        plangym_ext.make(MakesFile, backend="serial")
    assert not os.path.exists(MakesFile.path)


COMPILES = """
import numba
from plangym_ext.core.compiling.jit import kernel


@numba.njit(cache=True)
def tripled(x):
    return 3 * x % 1009


@kernel
def doubled(x):
    return 2 * x % 1009
"""


class Compiles(Base):
    """Compiles functions with its first step; numba keeps the code in files that it reads."""

    def drawn(self, action):
        import compiles_late

        self.x = compiles_late.tripled(compiles_late.doubled(getattr(self, "x", 1) + int(action)))
        return self.x


@pytest.mark.parametrize("folder", ["", "numba"], ids=["beside the module", "in a folder"])
def test_compiled_code_in_files_is_no_state(folder, tmp_path, monkeypatch):
    (tmp_path / "compiles_late.py").write_text(COMPILES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("numba.config.CACHE_DIR", folder and str(tmp_path / folder))
    with plangym_ext.make(Compiles, backend="serial") as env:
        assert env.exact
    assert not (tmp_path / "cache").exists()  # the trial has compiled for itself


class Appends(Base):
    """Goes on with a log that is there already."""

    path = ""

    def drawn(self, action):
        with open(self.path, "a") as file:
            file.write(f"{action}\n")
        return action


def test_a_log_that_is_only_appended_to_is_no_state(tmp_path):
    path = tmp_path / "log"
    path.write_text("earlier\n")
    Appends.path = str(path)
    with plangym_ext.make(Appends, backend="serial", check=0.2) as env:
        assert env.exactness.notes == (f"writes {path}",)
    assert path.read_text() == "earlier\n"


def test_a_copy_finds_what_a_file_held_before(tmp_path):
    path = tmp_path / "file"
    path.write_text("0123")

    def meddle(line):
        with open(path, "r+") as file:
            file.seek(2)
            file.write("x")
        line.send(path.read_text())

    with Fork(meddle) as fork:
        assert fork.line.receive(20) == "01x3"
    assert path.read_text() == "0123"


class ThroughPipe(Base):
    """Reads back what it has written into a pipe, of which it has the numbers."""

    out = into = -1

    def drawn(self, action):
        found = os.read(self.out, 1)
        os.write(self.into, bytes([(sum(found) + action) % 251]))
        return sum(found)


def test_what_lies_in_a_pipe_is_no_state():
    ThroughPipe.out, ThroughPipe.into = os.pipe()
    try:
        os.write(ThroughPipe.into, b"\1")
        with pytest.raises(IncompleteState, match="it reads a pipe"):
            plangym_ext.make(ThroughPipe, backend="serial")
    finally:
        os.close(ThroughPipe.out)
        os.close(ThroughPipe.into)


class SystemDraws(Base):
    """Has a generator without a state."""

    def __init__(self):
        self.rng = random.SystemRandom()

    def drawn(self, action):
        return self.rng.random()


def test_a_generator_without_a_state_is_refused():
    with pytest.raises(IncompleteState, match="differs"):
        plangym_ext.make(SystemDraws, backend="serial")


def test_shared_memory_is_private_in_a_copy():
    from plangym_ext import Array

    shared = Array((4,), np.int64, storage="shared")
    shared[:] = 1

    def meddle(line):
        shared[:] = 2
        line.send(int(shared.to_ndarray().sum()))

    with Fork(meddle) as fork:
        assert fork.line.receive(20) == 8
    assert int(shared.to_ndarray().sum()) == 4
    shared.close()
