from __future__ import annotations

import argparse
import errno
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import plangym_ext
from plangym_ext.core.files import whole_file
from plangym_ext.run import cli
from plangym_ext.run.arguments import INTERRUPTED, add_options
from plangym_ext.run.cli import main
from plangym_ext.run.commands import COMMANDS, load_command


def run_cli(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-P", "-m", "plangym_ext", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["plan", "--help"],
        ["doctor", "--help"],
        ["compare", "--help"],
        ["plot", "--help"],
        ["train", "--help"],
        ["eval", "--help"],
        ["list", "--help"],
        ["completion", "--help"],
    ],
)
def test_help_is_printed_and_succeeds(arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 0
    assert "usage: plangym-ext" in capsys.readouterr().out


@pytest.mark.slow
def test_help_loads_no_simulator_and_no_compiler():
    # What makes a command line slow to answer is what it imports.
    script = (
        "import sys; from plangym_ext.run.cli import main\n"
        "for command in ('plan', 'train', 'eval', 'states', 'audit'):\n"
        "    try: main([command, '--help'])\n"
        "    except SystemExit: pass\n"
        "print(sorted({'numba', 'gymnasium', 'torch', 'ale_py', 'mujoco'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["list", "sweep"])
def test_help_tells_no_empty_default(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert not re.search(r"\(default:\s*(\[\])?\)", capsys.readouterr().out)


def test_help_of_a_planner_lists_its_options(capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--planner", "mcts", "--help"])
    out = capsys.readouterr().out
    # What bounds a plan comes first, with what holds if nothing does.
    options = " ".join(out.split()).partition("options of mcts: --num-simulations X")[2]
    assert options.partition("--max-model-steps X")[0].endswith(
        "(default: 64, unless another limit is given) "
    )
    assert "--max-model-steps X" in out
    assert "maximum of control steps of the model per plan" in " ".join(out.split())
    # That a flag is off unless it is given goes without saying.
    assert "also write DIR/episode.mp4 --tree" in " ".join(out.split())
    assert "--keep-tree, --no-keep-tree" in out
    # A function cannot be typed in.
    assert "--evaluator" not in out


def test_version_is_the_installed_one(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.strip() == plangym_ext.__version__


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_the_commands_are_listed(arguments, capsys):
    try:
        status = main(arguments)
    except SystemExit as exit_info:
        status = exit_info.code
    captured = capsys.readouterr()
    # Nothing to do is a mistake; to ask for help is none.
    assert status == (0 if arguments else 2)
    said = captured.out if arguments else captured.err
    said = " ".join(said.split())
    for command, (_, summary) in COMMANDS.items():
        assert f" {command} {summary} " in said


def test_help_of_a_command_can_be_asked_for_first(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["help", "doctor"])
    assert exit_info.value.code == 0
    assert "usage: plangym-ext doctor" in capsys.readouterr().out


def test_an_unknown_option_does_not_list_the_others(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["plan", "CartPole-v1", "--qqq", "1", "--out", str(tmp_path)])
    said = capsys.readouterr().err
    assert said == "plangym-ext plan: unknown option '--qqq'. See plangym-ext plan --help\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hlep"], "did you mean 'help'?"),
        (["pln"], "did you mean 'plan'?"),
        (["plan", "CartPole-v1", "--num-simulation", "3"], "did you mean '--num-simulations'?"),
        (["plan", "CartPole-v1", "--planner", "mtcs"], "did you mean 'mcts'?"),
        (["plan", "CartPole-v9x"], "did you mean 'CartPole-v1'?"),
        (["doctor", "ALE/MsPackman-v5"], "did you mean 'ALE/MsPacman-v5'?"),
        (["plan", "CartPole-v1", "--max-steps", "0"], "expected an int >= 1; got '0'"),
        (["plan", "CartPole-v1", "--c-puct", "x"], "expected a float; got 'x'"),
        (["plan", "CartPole-v1", "--wave-size", "0"], "wave_size must be an integer >= 1; got 0"),
        (["plan", "CartPole-v1", "--num-simulations", "0"], "must be an integer >= 1; got 0"),
        (["plan", "CartPole-v1", "--seed", "x"], "expected an int >= 0; got 'x'"),
        (["watch", "here", "--port", "99999"], "expected an int <= 65535; got '99999'"),
        (["eval", "x", "--episodes", "9" * 20], f"expected an int <= {2**63 - 1}; got"),
        (["plan", "CartPole-v1", "--out", "/proc/none"], "--out must be a folder"),
        (["plan", "CartPole-v1", "--tree", "/proc/none/t.html"], "--tree must be a file in a"),
        # Like no id of any package that an earlier test may have imported.
        (["plan", "Qzyzzyx-v0"], "such as 'my_module:Qzyzzyx-v0'"),
        (["states", "mcts", "--out", "/proc/none/s.npz"], "--out must be a file in a folder"),
        (["train", "cartpole", "--out", "/proc/none"], "--out must be a folder"),
        (["eval", "none", "--starts", "none.npz"], "none"),
        (["doctor", "CartPole-v1", "--steps", "0"], "expected an int >= 1; got '0'"),
        (["doctor", "CartPole-v1", "--capture", "codek"], "did you mean 'codec'?"),
        (["doctor", "CartPole-v1", "--state", "replay"], "did you mean '--capture'?"),
        (["plan", "CartPole-v1", "--gamma", "0.9"], "did you mean '--discount'?"),
        (["train", "ppo_cartpole", "--gamma", "0.9"], "did you mean '--algorithm.discount'?"),
    ],
)
def test_a_mistake_is_one_line_with_a_close_match_and_status_2(
    arguments, expected, capsys, tmp_path
):
    is_told = arguments[0] != "plan" or "--out" in arguments
    out = [] if is_told else ["--out", str(tmp_path)]
    try:
        status = main([*arguments, *out])
    except SystemExit as exit_info:
        status = exit_info.code
    captured = capsys.readouterr()
    assert status == 2
    assert expected in captured.err
    assert len(captured.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_planner_that_cannot_play_is_one_line_that_names_the_env(tmp_path, capsys):
    typed = ["plan", "plangym_ext/TicTacToe-v0", "--planner", "icem", "--n-workers", "0"]
    assert main([*typed, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("plangym-ext plan: ICEM: env must have one player; got 2 in ")
    assert "TicTacToe" in error
    assert " object at 0x" not in error
    assert error.endswith("MCTS and STS plan for two whose gains are each other's losses.")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_one_line_that_names_the_file(
    number, tmp_path, monkeypatch, capsys
):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(whole_file.os, "fsync", refuse)
    options = ["--n-workers", "0", "--max-steps", "1", "--num-simulations", "1"]
    assert main(["plan", "CartPole-v1", *options, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    room = ". Make room, and give the command again." if number == errno.ENOSPC else ""
    assert said == f"plangym-ext plan: {tmp_path / 'episode.json'}: {os.strerror(number)}{room}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["0", "-1"])
def test_threads_of_the_compiler_that_cannot_be_are_one_line(threads, tmp_path):
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "plan", "CartPole-v1"]
    environ = {**os.environ, "NUMBA_NUM_THREADS": threads}
    done = subprocess.run(
        [*command, "--out", tmp_path], capture_output=True, text=True, env=environ, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "threads specified must be > 0" in done.stderr
    assert "NUMBA_NUM_THREADS" in done.stderr


@pytest.mark.slow
def test_a_name_that_the_terminal_cannot_show_fails_nothing(tmp_path):
    out = tmp_path / "走"
    options = ["--n-workers", "0", "--max-steps", "1", "--num-simulations", "1"]
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "plan", "CartPole-v1", *options]
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [*command, "--out", out], capture_output=True, text=True, env=environ, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "\\u8d70" in done.stdout


def test_another_error_of_the_system_keeps_its_traceback(monkeypatch):
    def refuse(*_):
        raise FileNotFoundError(errno.ENOENT, "a fault of ours", "x")

    monkeypatch.setattr(cli, "_run", refuse)
    with pytest.raises(FileNotFoundError):
        main(["list", "planners"])


@pytest.mark.slow
def test_console_script_reports_a_mistake_without_a_traceback():
    done = run_cli("doctor", "CartPol-v1")
    assert done.returncode == 2
    assert "CartPole-v1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_for_every_option(name):
    parser = argparse.ArgumentParser()
    given = ["--planner", "mcts"] if name == "plan" else []
    add_options(parser, load_command(name).Options, given)
    assert len(parser._actions) > 1
    assert all(action.help for action in parser._actions)


@pytest.mark.slow
def test_the_list_of_commands_loads_none_of_them():
    # What makes a command line slow to answer is what it imports.
    script = (
        "import sys; from plangym_ext.run.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "plangym_ext.run.cli" in loaded
    assert not loaded & {
        "numpy",
        "plangym_ext.run.commands.plan",
        "plangym_ext.run.settings.config",
    }


def test_ctrl_c_while_the_program_is_imported_ends_it_in_a_line():
    script = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'plangym_ext.run.cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts)\n"
        "from importlib.metadata import EntryPoint\n"
        f"sys.exit(EntryPoint('plangym-ext', {entry_point()!r}, 'console_scripts').load()())\n"
    )
    command = [sys.executable, "-P", "-c", script, "list", "envs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (INTERRUPTED, "")
    assert done.stderr == "\nplangym-ext list: interrupted\n"


def entry_point() -> str:
    """Return what the command `plangym-ext` calls, as pyproject.toml has it."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    return tomllib.loads(text)["project"]["scripts"]["plangym-ext"]


def test_output_that_is_not_read_ends_the_command_quietly():
    ours, theirs = os.pipe()
    os.close(ours)  # as `head` does once it has its lines
    command = [sys.executable, "-P", "-m", "plangym_ext", "list", "envs"]
    with os.fdopen(theirs, "w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_pipe_of_the_command_itself_is_no_unread_output(monkeypatch):
    def fails(arguments):
        raise BrokenPipeError

    monkeypatch.setattr(cli, "_run", fails)
    with pytest.raises(BrokenPipeError):
        main(["list"])


def test_a_missing_argument_is_described(capsys):
    with pytest.raises(SystemExit):
        main(["list"])
    error = capsys.readouterr().err
    assert error.startswith("plangym-ext list: missing KIND: one of: ")
    assert error.endswith(". See plangym-ext list --help\n")
    assert "planners" in error
