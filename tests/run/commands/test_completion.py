"""What a shell is told when a command is being typed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from plangym_ext.planners import PLANNERS
from plangym_ext.run.cli import main
from plangym_ext.run.commands import COMMANDS
from plangym_ext.run.commands.completion import SCRIPTS, candidates
from plangym_ext.run.settings.compose import PRESETS
from plangym_ext.run.settings.sections import ALGORITHMS


def names(typed: str) -> list[str]:
    """Return what the last word of what was typed may become."""
    return list(candidates(typed.split(" ")))


def test_commands_come_first():
    assert names("") == list(COMMANDS)
    assert names("p") == ["plan", "play", "plot"]
    assert candidates(["doc"]) == {"doctor": COMMANDS["doctor"][1]}


def test_options_have_their_help():
    found = candidates(["plan", "CartPole-v1", "--max-st"])
    assert found == {"--max-steps": "maximum number of moves"}
    # Options whose names are the reader's own cannot be completed.
    assert names("plan CartPole-v1 --env") == []


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("plan ALE/MsPacman-v", ["ALE/MsPacman-v5"]),
        ("compare CartPole-v1 ALE/MsPacman-v", ["ALE/MsPacman-v5"]),
        ("plan CartPole-v1 Pend", []),  # it takes one env
        ("plan CartPole-v1 --planner ", list(PLANNERS)),
        ("plan --planner", ["--planner"]),
        ("plan --planner cem --elite", ["--elite-fraction"]),
        ("plan --video Pendulum", ["Pendulum-v1"]),  # a flag takes no value
        ("compare CartPole-v1 --planners mcts ", list(PLANNERS)),
        ("plan CartPole-v1 --seed ", []),
        ("train ", list(PRESETS)),
        ("train ppo_cartpole --algorithm.name ", list(ALGORITHMS)),
        ("train ppo_cartpole --algorithm.gae", ["--algorithm.gae_lambda"]),
        ("train --ray 10.0.0.1:6379 ", list(PRESETS)),  # the address may be left out
        ("list pr", ["presets", "pretrained"]),
        ("completion ", list(SCRIPTS)),
        ("plot --band ", ["bootstrap", "std", "none"]),
        ("nope ", []),
        ("plan --planner nope --", []),
    ],
)
def test_a_word_is_completed_from_what_is_known_there(typed, expected):
    assert names(typed) == expected


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_can_read_its_script(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == SCRIPTS[shell]
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=300)


@pytest.mark.slow
def test_bash_completes_through_the_program(tmp_path):
    program = tmp_path / "plangym-ext"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m plangym_ext "$@"\n')
    program.chmod(0o755)
    typed = f"{SCRIPTS['bash']}\nCOMP_WORDS=({program} plan --planner ro) COMP_CWORD=3\n"
    lines = f'{typed}_plangym_ext {program}\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(
        ["bash", "-c", lines], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["rollout-iw"]
