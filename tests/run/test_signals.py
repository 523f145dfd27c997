"""Ctrl-C and SIGTERM end every command in a line, at whatever moment, and leave nothing behind."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys

import leaks
import pytest
from interrupting import EVERY_LINE

from plangym_ext.run.cli import main
from plangym_ext.run.commands import COMMANDS
from plangym_ext.run.evaluating import contest, elo
from plangym_ext.run.training import interrupts

_WALK = """
import gymnasium
import numpy as np


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.x = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.x += 2 * int(action) - 1
        return np.float32([self.x]), float(self.x == 5), abs(self.x) == 5, False, {}
"""
_PLANNER = "mcts:num_simulations=2"
_SHORT = ["--max-steps", "3"]
#: What is typed after each command; `out` is the folder to write in.
WORDS = {
    "plan": ["CartPole-v1", "--num-simulations", "2", *_SHORT, "--n-workers", "2", "--out", "out"],
    "compare": ["CartPole-v1", "--planners", _PLANNER, "--seeds", "2", *_SHORT, "--out", "out"],
    "train": ["ppo_cartpole", "--rounds", "2", "--collector.n_workers", "2", "--out", "out"],
    "sweep": [
        *("ppo_cartpole", "--over", "algorithm.discount=0.9,0.8", "--rounds", "1"),
        *("--evaluation.every", "0", "--out", "out"),
    ],
    "eval": ["cartpole", _PLANNER, "--episodes", "2", *_SHORT, "--out", "out"],
    "play": ["ppo_cartpole", "--no-show", *_SHORT, "--tree", "out/tree.html"],
    "export": ["ppo_cartpole", "--format", "torchscript", "--out", "out/policy"],
    "audit": ["run", "--count", "2", "--rollouts", "1", *_SHORT, "--out", "out"],
    "states": ["ppo_cartpole", "--count", "2", "--episodes", "1", *_SHORT, "--out", "out/s.npz"],
    "explore": ["MountainCar-v0", "--rows", "2", "--horizon", "4", *_SHORT, "--out", "out"],
    "plot": [".", "--out", "out/curves.svg"],
    "report": [".", "--out", "out/report.html"],
    "watch": [".", "--port", "0"],
    "doctor": ["CartPole-v1", "--steps", "20"],
    "compile": ["walk:Walk"],
    "list": ["planners"],
    "new": ["planner", "Greedy"],
    "completion": ["bash"],
}
#: Those that write no file of their own, or listen: they get their signal while they import.
_WRITE_NOTHING = {"list", "completion", "compile", "doctor", "watch"}
# Counts what is imported and opened, and sends its group a signal at the chosen one, or where the
# first file is opened to be written. `watch`, which would not end by itself, is ended when it
# listens.
_PROGRAM = """
import os, signal, sys

number, at, *sys.argv = sys.argv[1:]
signal.signal(signal.SIGINT, signal.default_int_handler)
here, count, sent = os.getcwd(), 0, False


def is_written(path, mode, flags):
    whole = os.path.join(here, os.fsdecode(path)) if isinstance(path, (str, bytes)) else ""
    own = whole.startswith(here + os.sep) and not whole.endswith(".lock")
    return own and flags & (os.O_WRONLY | os.O_RDWR)


def hook(event, args):
    global count, sent
    if sent or event not in ("import", "open", "socket.bind"):
        return
    count += 1
    if str(count) == at or (at == "write" and event == "open" and is_written(*args)):
        sent = True
        os.killpg(0, int(number))
    if event == "socket.bind" and sys.argv[1] == "watch" and at == "0":
        os.kill(os.getpid(), signal.SIGINT)


sys.addaudithook(hook)
from plangym_ext.__main__ import main

status = main()
print(f"{count} events", file=sys.stderr)
sys.exit(status)
"""
FAULTS = ("Traceback", "Exception ignored", "Error")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a run, and with an env of one's own."""
    folder = tmp_path_factory.mktemp("signals")
    (folder / "walk.py").write_text(_WALK)
    few = ["--rounds", "1", "--quiet", "--evaluation.every", "0"]
    assert main(["train", "ppo_cartpole", *few, "--out", str(folder / "run")]) == 0
    return folder


def called(place, command, number=0, at=0):
    """Run a command that is sent a signal at an event; return status, errors, what is left."""
    typed = [sys.executable, "-P", "-c", _PROGRAM, str(int(number)), str(at)]
    process = subprocess.Popen(
        [*typed, "plangym-ext", command, *WORDS[command]],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors, process.pid


def in_session(leader):
    """Return processes that a command has begun and that still run."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                state, _, _, session, *_ = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(session) == leader and state not in "ZX":
            found.append(int(entry))
    return found


def litter(place):
    """Return what is neither the place's own nor a whole result: parts of files."""
    return [str(path) for path in place.rglob(".*") if path.name != ".lock"]


@functools.cache
def events(place, command):
    """Return how many events a command has that is let end."""
    status, errors, _ = called(place, command)
    assert status == 0, errors
    clear(place)
    *_, told = (line for line in errors.splitlines() if line.endswith(" events"))
    return int(told.split()[0])


def clear(place):
    """Remove what a command has written."""
    for path in sorted(place.rglob("*"), reverse=True):
        if path != place / "walk.py" and place / "run" not in (path, *path.parents):
            path.rmdir() if path.is_dir() else path.unlink()


def test_every_command_is_tried():
    assert WORDS.keys() == COMMANDS.keys()


def moments(place, command):
    """Yield the signals that a command is sent, and when."""
    if EVERY_LINE:
        whole = events(place, command)
        shares = [0.05 * k for k in range(20)]
        for number in (signal.SIGINT, signal.SIGTERM):
            yield from ((number, 1 + int(share * whole)) for share in shares)
    elif command in _WRITE_NOTHING:
        yield signal.SIGINT, 150  # of some hundred events, or thousands
    else:
        yield (signal.SIGINT, signal.SIGTERM)[[*WORDS].index(command) % 2], "write"


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_ends_every_command_in_a_line_and_leaves_nothing(command, place):
    segments = set(os.listdir("/dev/shm"))
    for number, at in moments(place, command):
        status, errors, pid = called(place, command, number, at)
        where = f"signal {number} at event {at}: {errors}"
        ended = {-signal.SIGTERM} if number == signal.SIGTERM else {130}
        assert status in ended | ({0} if command == "watch" else set()), where
        assert not any(word in errors for word in FAULTS), where
        assert leaks.wait_until(lambda pid=pid: not in_session(pid)), where
        assert not litter(place), where
        assert not [name for name in set(os.listdir("/dev/shm")) - segments if str(pid) in name]
        clear(place)


@pytest.mark.parametrize(
    ("players", "name", "kept"),
    [
        (["cartpole"], "eval", {"cartpole": [0]}),
        ([_PLANNER, "mcts:num_simulations=3"], "paired", {_PLANNER: [0, 1]}),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_eval_keeps_the_episodes_that_have_ended(
    players, name, kept, number, tmp_path, monkeypatch, capsys
):
    words = ["eval", *players, *_SHORT, "--episodes", "2", "--out", str(tmp_path)]
    words += ["--env-id", "CartPole-v1"] * (len(players) > 1)

    def told(player, move):
        if player == players[-1] and (move.step, move.episode) == (2, 1):
            signal.raise_signal(number)
        return "a move"

    ended_by = []
    with monkeypatch.context() as patch:
        patch.setattr(contest, "told", told)
        patch.setattr(interrupts.os, "kill", lambda _, number: ended_by.append(number))
        status = main(words)
    assert (status, ended_by) == ((130, []) if number == signal.SIGINT else (None, [number]))
    part = tmp_path / f"{name}.part.json"
    ended = json.loads(part.read_text())
    kept = {**kept, **({players[1]: [0]} if len(players) > 1 else {})}
    assert ended["asked"] == 2
    found = [(row["player"], row["episode"], row["return"]) for row in ended["episodes"]]
    assert found == [(player, k, 3.0) for player, which in kept.items() for k in which]
    told = capsys.readouterr().err
    assert f"what had ended is kept in {part} (episodes: {len(found)})" in told
    assert [path.name for path in tmp_path.iterdir()] == [part.name]
    # A whole result takes its place.
    assert main(words) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]


def test_eval_keeps_the_matches_that_have_ended(tmp_path, monkeypatch, capsys):
    players = [f"mcts:num_simulations={n}" for n in (2, 3, 4)]
    words = ["eval", *players, "--env-id", "plangym_ext/TicTacToe-v0", "--episodes", "2"]
    calls, match = [], elo.match

    def interrupted(*arguments, **options):
        calls.append(None)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return match(*arguments, **options)

    monkeypatch.setattr(elo, "match", interrupted)
    assert main([*words, "--out", str(tmp_path)]) == 130
    assert "(matches: 1)" in capsys.readouterr().err
    (found,) = json.loads((tmp_path / "paired.part.json").read_text())["matches"]
    assert found["players"] == players[:2]


def test_ctrl_c_after_the_work_shows_nothing():
    script = (
        "import atexit, os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "from plangym_ext.__main__ import main\n"
        "sys.exit(main())\n"
    )
    typed = [sys.executable, "-P", "-c", script, "completion", "bash"]
    done = subprocess.run(typed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    assert done.stdout.startswith("_plangym_ext() {")
