"""A pipe in the place of a file keeps no reader waiting, and no file fills the memory."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import socket
from pathlib import Path

import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.files.whole_file import opened
from plangym_ext.errors import DamagedState, InvalidOption, UnreadableFile
from plangym_ext.planners import read_tree
from plangym_ext.run.cli import main
from plangym_ext.run.experiments.queue import started_run
from plangym_ext.run.files import FolderLock, read_json, write_json
from plangym_ext.run.logs.appended import AppendedFile, CsvFile, JsonlFile
from plangym_ext.run.logs.runs import read_params
from plangym_ext.run.settings.compose import compose

EXPLORE = ["explore", "CartPole-v1", "--rows", "2", "--max-steps", "20"]
#: What a command finds in its folder -> the command, which reads it before it begins.
COMMANDS = {
    "compare.json": ["compare", "CartPole-v1", "--planners", "random-shooting", "--seeds", "1"],
    "sweep.json": ["sweep", "ppo_cartpole", "--over", "seed=1,2", "--resume"],
    "explore.json": [*EXPLORE, "--resume"],
    "log.csv": [*EXPLORE, "--max-steps", "40", "--resume"],
    "config.json": ["train", "ppo_cartpole", "--rounds", "1"],
}


def test_pipes_are_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    with (
        plangym_ext.make("CartPole-v1") as env,
        pytest.raises(DamagedState, match="pipe or a device, no file"),
    ):
        plangym_ext.load_states(pipe, env)
    for read in (read_params, lambda path: AppendedFile(path).whole_lines()):
        with pytest.raises(UnreadableFile, match="pipe or a device, no file"):
            read(pipe)
    with pytest.raises(ValueError, match="pipe or a device, no file"):
        read_tree(pipe)
    tensor_file = pytest.importorskip("plangym_ext.learn.tensor_file")
    with pytest.raises(Exception, match="pipe or a device, no file"):
        tensor_file.load(pipe)


def assert_refused(act, path):
    """Check that an action refuses a pipe, a device and a socket in a file's place by name."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        made = os.mkfifo, lambda _: path.symlink_to("/dev/full"), listening.bind
        for make in made:
            make(str(path))
            with pytest.raises((UnreadableFile, InvalidOption), match=re.escape(path.name)):
                act()
            path.unlink()


def test_what_is_appended_to_or_written_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # addresses of sockets must be short
    path = Path("train.log")
    assert_refused(lambda: AppendedFile(path).write("x\n"), path)
    assert_refused(lambda: started_run(Path(), []), path)
    assert_refused(lambda: write_json(path, {}), path)
    assert_refused(lambda: write_json(path, {}), Path(".train.log.partial"))
    assert_refused(lambda: FolderLock(Path(), ["train.log"]), path)
    for mode in ("ab", "wb", "rb"):
        assert_refused(lambda mode=mode: opened(path, mode), path)
        with pytest.raises(IsADirectoryError):
            opened(tmp_path, mode)


#: Calls that open files by a path, by the last of their names.
OPENS = (
    *("open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "tofile"),
    *("fromfile", "loadtxt", "genfromtxt", "memmap", "savez", "ZipFile", "FileIO"),
)
#: Methods of our own, and descriptors, that share a name with them.
NO_FILES = re.compile(
    r"(self|remote|archive|\w*\._?(audit|ahead|exchange))\.open\(|os\.fdopen\((os\.dup\()?\w*\)?"
)
#: Parts of the calls whose file no user can choose or have made, and what it is.
OWN = {
    "/proc": "the kernel's",
    "os.devnull": "the kernel's",
    "groups.read_text": "the kernel's, of cgroups",
    "(group / ": "the kernel's, of cgroups",
    "O_PATH": "not read: a folder that is gone into",
    "importlib.resources": "of this package",
    "FILE.read": "of this package",
    "os.path.join(checkout, 'pyproject.toml')": "of this package",
    ".pyi": "of this package",
    "'xb'": "a new one",
    "rom.read_bytes": "a cartridge of stable-retro, which opens it too",
    "roms.get_rom_path": "a cartridge of ale-py",
}
#: Calls with a file that is known to be one, and the words of their module that say so.
CHECKED = {
    "states/trials/sandbox.py: open(path, 'rb')": "isfile",
    "workers/processes/process.py: path.read_text(errors='replace')": "/proc/",
    "learn/tensor_file.py: zipfile.ZipFile(path)": "opened",
    "core/files/state_file.py: zipfile.ZipFile(file)": "file: IO[bytes]",
    "core/files/state_file.py: zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED)": "file: IO[bytes]",
}


def opening(root):
    """Yield module and text of every call of a package that opens a file by its path."""
    for module in sorted(root.rglob("*.py")):
        for call in ast.walk(ast.parse(module.read_text())):
            if not isinstance(call, ast.Call) or not call.args + call.keywords:
                continue
            text = ast.unparse(call)
            named = ast.unparse(call.func).rpartition(".")[2] in OPENS
            if named and not NO_FILES.match(text) and not any(own in text for own in OWN):
                yield f"{module.relative_to(root)}: {text}"


def test_files_are_opened_in_one_place():
    package = Path(plangym_ext.__file__).parent
    # Installed, planners and envs lie in the package; in the checkout, beside it.
    beside = [package.parent / name for name in ("envs", "planners")]
    roots = [package, *(folder for folder in beside if (package.parent / "tox.ini").exists())]
    found = [one for root in roots for one in opening(root)]
    whole = "core/files/whole_file.py: "
    left = [one for one in found if not one.startswith(whole)]
    assert sorted(left) == sorted(CHECKED), "\n".join(left)
    for one, word in CHECKED.items():
        assert word in (package / one.partition(": ")[0]).read_text(), one


@pytest.mark.parametrize("ending", ["toml", "yaml", "json"])
def test_settings_are_read_from_files_alone(ending, tmp_path):
    path = tmp_path / f"settings.{ending}"
    os.mkfifo(path)
    with pytest.raises(InvalidOption, match=r"settings: .*pipe or a device, no file"):
        compose([path])
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(InvalidOption, match="pipe or a device, no file"):
        compose([path])


NO_JSON = (b"{", b"[1]", b"\xff\xfe", b"\x00", b"[" * 99_999, b'"runs"')
NO_TABLE = (b"steps\nx\n", b"other\n1\n", b"\xff\n1\n", b'steps\n"' + b"1" * 200_000)


def odd_files(path):
    """Put what is no file of a command in its place, one after another; yield what it is."""
    os.mkfifo(path)
    yield "a pipe"
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    yield "a tebibyte"
    for text in NO_JSON if path.suffix == ".json" else NO_TABLE:
        path.write_bytes(text)
        yield text[:9]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_refuse_what_is_no_file_of_theirs(name, tmp_path, capsys):
    command = [*COMMANDS[name], "--out", str(tmp_path / "out")]
    (tmp_path / "out").mkdir()
    if name in ("explore.json", "log.csv"):
        assert main([*EXPLORE, "--out", str(tmp_path / "out")]) == 0
        (tmp_path / "out" / name).unlink()
    for what in odd_files(tmp_path / "out" / name):
        capsys.readouterr()
        assert main(command) == 2, what
        told = capsys.readouterr().err
        assert name in told, what
        assert "Traceback" not in told, what


@pytest.mark.parametrize("text", ["x\n\n", "step\n1,2\n", "step,b\n1\n", "step\nx\n", "\0\n1\n"])
def test_a_damaged_log_is_told(text, tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text(f"{text}\n")
    with pytest.raises(UnreadableFile, match=r"progress\.csv: it must hold the log of a run"):
        CsvFile(path).truncate_after(5)
    for line in ("{", "{}", "3", '{"step": "x"}'):
        path.write_text(f"{line}\n")
        with pytest.raises(UnreadableFile, match=r"progress\.csv: it must hold the log of a run"):
            JsonlFile(path).truncate_after(5)


@pytest.mark.parametrize("size", [1000, 3_000_000])
def test_json_takes_a_bounded_memory(size, tmp_path):
    path = tmp_path / "found.json"
    path.write_text('{"a": [' + ",".join(["[]"] * size) + "]}")
    if size < 10_000:
        assert len(read_json(path, "lists")["a"]) == size
        return
    with pytest.raises(UnreadableFile, match=r"must hold lists, a JSON object.*too many lists"):
        read_json(path, "lists")


def test_files_are_read_as_before(tmp_path):
    with plangym_ext.make("CartPole-v1") as env:
        state = env.reset(seed=0)[0]
        plangym_ext.save_states(tmp_path / "s.npz", state, env)
        assert np.array_equal(plangym_ext.load_states(tmp_path / "s.npz", env), state[None])
    with contextlib.suppress(FileNotFoundError):
        read_json(tmp_path / "none.json", "nothing")
        raise AssertionError("a file that is not there was read")
