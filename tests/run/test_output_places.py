"""One command at a time writes in a place, and what cannot be written is told before the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import leaks
import pytest
from training_runs import small

from plangym_ext.core.files.whole_file import HeldFile, replacing
from plangym_ext.errors import FolderBusy, InvalidOption
from plangym_ext.run import cli
from plangym_ext.run.cli import main
from plangym_ext.run.figures import MARK
from plangym_ext.run.files import FolderLock
from plangym_ext.run.training.runner import Runner

MCTS = "mcts:num_simulations=2"
SHORT = ["--max-steps", "2"]
#: Commands with a folder to themselves, and a file of it.
IN_FOLDERS = {
    "train": (["ppo_cartpole", "--rounds", "1", "--quiet"], "progress.csv"),
    "plan": (["CartPole-v1", "--num-simulations", "2", *SHORT], "episode.json"),
    "compare": (["CartPole-v1", "--planners", MCTS, "--seeds", "1", *SHORT], "compare.json"),
    "explore": (["CartPole-v1", "--rows", "2", "--horizon", "4", *SHORT], "archive.npz"),
    "sweep": (["ppo_cartpole", "--over", "algorithm.discount=0.9,0.8"], "sweep.json"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder with a run."""
    folder = tmp_path_factory.mktemp("runs")
    agent = ["train", "ppo_cartpole", "--rounds", "1", "--quiet", "--evaluation.every", "0"]
    assert main([*agent, "--out", str(folder / "run")]) == 0
    # The first figure opens fonts, which matplotlib keeps open.
    assert main(["plot", str(folder)]) == 0
    return folder


def in_files(runs, out):
    """Return commands that write single files: words, paths, and whether --out is the file."""
    run = str(runs / "run")
    few = ["--max-steps", "2", "--out", str(out)]
    return {
        "eval": (["eval", run, "--episodes", "1", *few], ["eval.json"]),
        "eval of two": (["eval", run, MCTS, "--episodes", "2", *few], ["paired.json"]),
        "audit": (
            ["audit", run, "--count", "2", "--rollouts", "1", *few],
            ["audit.html", "audit.json"],
        ),
        "states": (
            ["states", run, "--count", "2", "--episodes", "1", *few[:-1], str(out / "s.npz")],
            ["s.npz"],
        ),
        "plot": (["plot", str(runs), "--out", str(out / "c.png")], ["c.png"]),
        "report": (["report", str(runs), "--out", str(out / "r.html")], ["r.html"]),
        "plan --tree": (
            [
                *("plan", "CartPole-v1", "--num-simulations", "2", *SHORT),
                *("--out", str(out.parent / "episode"), "--tree", str(out / "t.html")),
            ],
            ["t.html"],
        ),
    }


FILES = [
    (command, name) for command, (_, names) in in_files(Path(), Path()).items() for name in names
]


@pytest.mark.parametrize("command", IN_FOLDERS)
def test_a_new_folder_is_held_before_it_is_looked_into(command, tmp_path, capsys):
    words, name = IN_FOLDERS[command]
    out = tmp_path / "new" / "run"
    with FolderLock(out):
        assert main([command, *words, "--out", str(out)]) == 2
        assert f"{out}: another run is writing there. Wait" in capsys.readouterr().err
        assert not list(out.iterdir())
    # Nothing is left of a place in which nothing was written.
    assert not (tmp_path / "new").exists()
    (out / name).mkdir(parents=True)
    assert main([command, *words, "--out", str(out)]) == 2
    assert (
        f"{out / name} must be a file, or not be there; it is a folder" in capsys.readouterr().err
    )
    assert [path.name for path in out.iterdir()] == [name]


@pytest.mark.parametrize("command", IN_FOLDERS)
def test_of_two_commands_begun_at_once_in_a_new_folder_one_is_refused(scripts, command, tmp_path):
    words, name = IN_FOLDERS[command]
    if command == "sweep":
        words = [*words, "--rounds", "1"]
    typed = [command, *words, "--out", str(tmp_path / "out")]
    both = [scripts.start(Path(cli.__file__), typed, folder=tmp_path) for _ in range(2)]
    ended = [one.wait() for one in both]
    said = {one.stdout + one.stderr: one.returncode for one in ended}
    # Of `compare` the second goes on with what the first has played, if that has ended by then.
    assert sorted(said.values()) == [0, 2] or command == "compare", said
    assert "Traceback" not in "".join(said)
    assert (tmp_path / "out" / name).is_file()


@pytest.mark.parametrize(("command", "name"), FILES)
def test_a_file_is_held_before_the_work(command, name, runs, tmp_path, capsys):
    out = tmp_path / "new" / "out"
    words, names = in_files(runs, out)[command]
    out.mkdir(parents=True)
    with HeldFile(out / name):
        assert main(words) == 2
    assert f"{out / name}: another process is writing it" in capsys.readouterr().err
    (out / name).mkdir()
    assert main(words) == 2
    assert f"must be the file to write; got the folder {out / name}" in capsys.readouterr().err
    (out / name).rmdir()
    (out / name).write_text("mine")
    assert main(words) == 2
    assert "is there already. Name another place with --" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == [name]
    assert (out / name).read_text() == "mine"
    assert main([*words, "--overwrite"]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    # Pages and figures are known by what is in them, and renewed.
    assert main(words) == (0 if command in ("plot", "report") else 2)


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_figures_are_renewed_in_every_format(suffix, runs, tmp_path):
    out = tmp_path / f"c{suffix}"
    for _ in range(2):
        assert main(["plot", str(runs), "--out", str(out)]) == 0
    out.write_bytes(out.read_bytes().replace(MARK, b"x"))
    assert main(["plot", str(runs), "--out", str(out)]) == 2


@pytest.mark.parametrize("command", dict(FILES))
def test_a_file_that_cannot_be_written_costs_no_work(command, runs, tmp_path, capsys):
    out = tmp_path / "out"
    words = in_files(runs, out)[command][0]
    out.write_text("a file where the folder would be")
    assert main(words) == 2
    assert "must be a file in a folder that can be written to; got" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_devices_stay_devices(runs, tmp_path, capsys):
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    assert main(["report", str(runs), "--overwrite", "--out", str(pipe)]) == 2
    assert (
        f"--out: {pipe} must be a file, or not be there; it is a device" in capsys.readouterr().err
    )
    with pytest.raises(InvalidOption, match="it is a device"), replacing(pipe):
        pass
    assert pipe.is_fifo()


def test_a_runner_holds_its_folder_before_its_parts_are_made(tmp_path):
    """Two runs begun at once in a new folder: the second finds the lock, not the first's files."""
    folder = tmp_path / "run"

    def make_env():
        with pytest.raises(FolderBusy):
            Runner(small(), folder)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        Runner(small(), folder, make_env=make_env)
    assert not folder.exists()


_HOLDS = """
import os, sys, time
from pathlib import Path
from plangym_ext.core.files.whole_file import HeldFile
held = HeldFile(Path(sys.argv[1]))
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_killed_process_holds_nothing_though_its_child_lives_on(tmp_path):
    path = tmp_path / "a.txt"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, path], stdout=subprocess.PIPE, text=True
    ) as process:
        child = int(process.stdout.readline())
        try:
            with pytest.raises(FolderBusy, match="another process is writing it"), replacing(path):
                pass
            process.kill()
            process.wait()
            # Its child lets go as soon as it runs.
            assert leaks.wait_until(lambda: written(path, "ä"))
            assert leaks.is_running(child)
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)
    assert path.read_bytes() == "ä".encode()
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


def written(path, text):
    try:
        with replacing(path) as file:
            file.write(text)
    except FolderBusy:
        return False
    return True


def test_writers_at_once_leave_one_whole_file(tmp_path):
    path, refused, began = tmp_path / "a.txt", [], threading.Barrier(8)

    def write(letter):
        began.wait()
        for _ in range(50):
            try:
                with replacing(path) as file:
                    file.write(letter * 1000)
            except FolderBusy:
                refused.append(letter)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(path.read_text())) == 1
    assert len(path.read_text()) == 1000
    assert refused
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]


_TAKES = """
import sys
from pathlib import Path
from plangym_ext.errors import FolderBusy
from plangym_ext.run.files import FolderLock, OutputFiles
folder = Path(sys.argv[1]) / "a" / "b"
print("ready", flush=True)
sys.stdin.readline()
for _ in range(200):
    try:
        with FolderLock(folder) if sys.argv[2] == "folder" else OutputFiles(
            [folder / sys.argv[2], folder / "other"], replace=True
        ):
            pass
    except FolderBusy:
        pass
"""


@pytest.mark.parametrize("names", ["folder folder folder", "one two one", "folder one two"])
def test_processes_that_make_and_remove_the_same_folders_are_held_or_refused(names, tmp_path):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    several = [
        subprocess.Popen([sys.executable, "-c", _TAKES, tmp_path, name], text=True, **pipes)
        for name in names.split()
    ]
    assert [process.stdout.readline() for process in several] == ["ready\n"] * 3
    for process in several:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[1] for process in several] == [""] * 3
    assert [process.returncode for process in several] == [0] * 3


def test_a_folder_with_something_in_it_stays(tmp_path):
    with FolderLock(tmp_path / "a" / "b"):
        (tmp_path / "a" / "mine").write_text("mine")
    assert [one.name for one in (tmp_path / "a").iterdir()] == ["mine"]
