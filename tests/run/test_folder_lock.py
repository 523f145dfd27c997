"""One process writes in a folder at a time, however the last one ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import leaks
import pytest
from training_runs import small

from plangym_ext.errors import FolderBusy
from plangym_ext.run import files
from plangym_ext.run.files import FolderLock, OutputFiles
from plangym_ext.run.training.runner import Runner

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path):
    with FolderLock(tmp_path) as lock:
        with pytest.raises(FolderBusy, match="another run is writing there"):
            FolderLock(tmp_path)
        lock.close()
        FolderLock(tmp_path).close()
    assert os.listdir(tmp_path) == []


def test_who_is_refused_leaves_the_folder_that_it_made_to_its_holder(tmp_path, monkeypatch):
    folder, made, holders = tmp_path / "new", files.made_folders, []

    def made_and_taken(path):
        found = made(path)
        if not holders:
            holders.append(None)
            holders[0] = FolderLock(path)  # of a command that began at the same time
        return found

    monkeypatch.setattr(files, "made_folders", made_and_taken)
    with pytest.raises(FolderBusy):
        FolderLock(folder)
    (folder / "log.csv").write_text("it goes on\n")
    holders[0].close()


@pytest.mark.parametrize("hold", [FolderLock, lambda path: OutputFiles([path / "a"], replace=True)])
def test_a_folder_that_another_removes_before_it_is_held_is_made_again(hold, tmp_path, monkeypatch):
    folder, made, removed = tmp_path / "new" / "run", files.made_folders, []

    def made_and_removed(path):
        found = made(path)
        if len(removed) < 3:
            removed.append(path.rmdir())
        return found

    monkeypatch.setattr(files, "made_folders", made_and_removed)
    with hold(folder):
        assert folder.is_dir()
    assert len(removed) == 3
    assert os.listdir(tmp_path) == []  # the outer one too, which was made in the first try


@pytest.mark.slow
def test_two_runs_never_write_in_one_folder(tmp_path):
    folder = tmp_path / "run"
    with Runner(small({"rounds": 1}), folder) as runner:
        for resume in (False, True):
            with pytest.raises(FolderBusy):
                Runner(small({"rounds": 1}), folder, resume=resume)
        runner.run()
    with Runner(small({"rounds": 1}), folder, resume=True) as again:
        assert again.round == 1


_HOLDS = """
import os, sys, time
from pathlib import Path
from plangym_ext.run.files import FolderLock, OutputFiles
lock = FolderLock(Path(sys.argv[1]))
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_a_killed_process_holds_nothing_though_its_child_lives_on(tmp_path):
    command = [sys.executable, "-c", _HOLDS, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        try:
            with pytest.raises(FolderBusy):
                FolderLock(tmp_path)
        finally:
            process.kill()
            process.wait()
        try:
            assert leaks.wait_until(lambda: can_be_held(tmp_path))
            assert leaks.is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)


def can_be_held(folder):
    try:
        FolderLock(folder).close()
    except FolderBusy:
        return False
    return True
