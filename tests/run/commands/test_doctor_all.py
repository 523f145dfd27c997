"""`doctor --all`: certificates of a list of envs, kept as they come."""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plangym_ext.errors import UnknownName
from plangym_ext.run.certificates.collect import PUBLIC, read_list
from plangym_ext.run.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "benchmarks_exactness.md"
BAD = """
import gymnasium, os, time
class Bad(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, kind):
        self.kind = kind
    def reset(self, *, seed=None, options=None):
        return 0, {}
    def step(self, action):
        if self.kind == "dies":
            os._exit(3)
        if self.kind == "hangs":
            time.sleep(100)
        return int(time.time_ns() % 2), 0.0, False, False, {}
"""


def write_list(folder: Path, *envs: str) -> Path:
    """Write a list with one group, whose packages this interpreter has."""
    path = folder / "list.toml"
    content = f"[here.packages.own]\nsetup = '''{BAD}'''\nenvs = {json.dumps(envs)}\n"
    path.write_text(f"[here.packages.gymnasium]\nenvs = ['CartPole-v1']\n{content}")
    venvs = folder / "out" / "venvs"
    venvs.mkdir(parents=True)
    (venvs / "here").symlink_to(sys.prefix)
    return path


def words(folder: Path, *others: str) -> list[str]:
    """Return the words of a call with the list in a folder."""
    places = ("--list", str(folder / "list.toml"), "--out", str(folder / "out"))
    return ["doctor", "--all", *places, "--page", str(folder / "page.md"), *others]


@pytest.mark.slow
def test_each_env_gets_a_row_and_is_not_tried_again(tmp_path, capsys):
    write_list(tmp_path, "Bad('clock')", "Bad('dies')")
    (tmp_path / "page.md").write_text("# Before\n")
    assert main(words(tmp_path, "--steps", "50")) == 0
    results = json.loads((tmp_path / "out" / "certificates.json").read_text())
    cart_pole = results["envs"]["gymnasium: CartPole-v1"]
    assert (cart_pole["outcome"], cart_pole["way"], cart_pole["steps"]) == ("exact", "codec", 50)
    assert results["envs"]["own: Bad('clock')"]["outcome"] == "refused"
    # Without this library it dies as well.
    died = results["envs"]["own: Bad('dies')"]
    assert (died["outcome"], died["reason"][:13]) == ("does not run", "exit status 3")
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# Before\n")
    assert "3 envs of 2 packages; 1 exact as far as was tried, 1 refused, 1 does not run." in page
    assert "| gymnasium" in page
    assert "`CartPole-v1` | codec | 144 |" in page
    # Again: nothing is tried, and the part of the page is written over.
    capsys.readouterr()
    assert main(words(tmp_path)) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "page.md").read_text() == page
    assert json.loads((tmp_path / "out" / "certificates.json").read_text()) == results


@pytest.mark.slow
def test_ctrl_c_keeps_what_there_is_and_ends_the_env(tmp_path):
    write_list(tmp_path, "Bad('hangs')")
    call = [sys.executable, "-P", "-m", "plangym_ext", *words(tmp_path, "--steps", "50")]
    with subprocess.Popen(call, stderr=subprocess.PIPE, text=True) as child:
        for line in child.stderr:
            if "Bad('hangs')" in line:
                break
        # In the env's process, a moment later.
        deadline = time.monotonic() + 300
        while not (running := processes_with("Bad('hangs')")) and time.monotonic() < deadline:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        assert child.wait(90) == 130
    assert running
    assert not processes_with("Bad('hangs')")
    assert "`CartPole-v1` | codec" in (tmp_path / "page.md").read_text()


def processes_with(word: str) -> list[str]:
    """Return the processes of this user with a word in an argument that names the task."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:  # ended meanwhile
            continue
        if word in line and "run.certificates.certificate" in line:
            found.append(folder.name)
    return found


@pytest.mark.slow
def test_packages_that_do_not_install_are_told(tmp_path, capsys):
    content = (
        "[gone.packages.nothing]\ninstall = './nothing-1.0-py3-none-any.whl'\nenvs = ['A-v0']\n"
    )
    (tmp_path / "list.toml").write_text(content)
    assert main(words(tmp_path)) == 0
    assert "- gone: " in capsys.readouterr().out
    assert not list((tmp_path / "out" / "venvs").iterdir())


def test_names_choose_from_the_list():
    chosen = {
        env
        for group in read_list(PUBLIC, ["ale-py", "CartPole-v1"]).values()
        for package in group["packages"].values()
        for env in package["envs"]
    }
    assert "CartPole-v1" in chosen
    assert "ALE/Pong-v5" in chosen
    assert "Pendulum-v1" not in chosen
    with pytest.raises(UnknownName, match=r"no 'CartPole-v9'.*CartPole-v1"):
        read_list(PUBLIC, ["CartPole-v9"])


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "CartPole-v1", "Acrobot-v1"]])
def test_one_id_is_needed_without_all(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    assert "expected one ENV_ID, or --all" in capsys.readouterr().err


@pytest.mark.skipif("PYTEST_LONG" not in os.environ, reason="runs in tox -e long: it installs")
@pytest.mark.timeout(5400)
def test_ten_certificates_of_the_page_hold(tmp_path):
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line[:2] == "| "]
    known = {cells[1].strip("`"): cells[2].strip("*") for cells in rows if cells[1][:1] == "`"}
    # Where the machine was too busy for an env, the page says so; another one may not be.
    known = {env: came for env, came in known.items() if came not in ("hung", "error")}
    # Others each week.
    ten = random.Random(str(datetime.date.today().isocalendar()[:2])).sample(sorted(known), 10)
    assert main(["doctor", "--all", *ten, "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "certificates.json").read_text())
    found = {key.split(": ", 1)[1]: one for key, one in results["envs"].items()}
    # A package may have gone from where packages are, but not all of them.
    assert found
    came = {env: one.get("way") or one["outcome"] for env, one in found.items()}
    assert came == {env: known[env] for env in found}
