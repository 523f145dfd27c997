"""`plangym-ext list`: the registries themselves, and nothing written beside them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from plangym_ext.planners import PLANNERS
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import PRESETS
from plangym_ext.run.settings.sections import AGENTS, ALGORITHMS


def listed(capsys, *arguments: str) -> dict[str, str]:
    """Return what is printed: names, and the note on each."""
    assert main(["list", *arguments]) == 0
    return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("planners", PLANNERS),
        ("algorithms", ALGORITHMS),
        ("agents", AGENTS),
        ("presets", PRESETS),
    ],
)
def test_all_that_is_registered_is_listed(kind, known, capsys):
    assert list(listed(capsys, kind)) == list(known)


@pytest.mark.parametrize("kind", ["planners", "algorithms", "agents", "presets", "pretrained"])
def test_each_name_has_a_line_that_says_what_it_is(kind, capsys):
    notes = listed(capsys, kind).values()
    assert len({*notes}) == len(notes)
    for note in notes:
        assert " " in note, note
        assert not note.startswith("plangym_ext."), note


def test_what_classes_of_learning_do_is_told_without_torch(tmp_path):
    code = "import sys; from plangym_ext.run.cli import main; main(['list', 'algorithms'])"
    code += "; main(['list', 'agents']); print({'torch', 'numba'} & {*sys.modules})"
    command = [sys.executable, "-P", "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "set()"


def test_envs_are_those_of_gymnasium_of_the_library_and_of_families(capsys):
    found = listed(capsys, "envs")
    assert found["CartPole-v1"] == "classic_control"
    assert found["ALE/Pong-v5"] == "atari"
    assert found["plangym_ext/Sokoban-v0"].startswith("Push every box onto a target")
    assert found["plangym_ext/walker-run-v0"].startswith("`walker-run`: ")
    assert found["MiniGrid-*"] == "minigrid: ids of this form"
    # gymnasium knows these, but only to say that they are gone.
    assert "Ant-v2" not in found


def test_a_word_chooses_names_and_status_1_says_that_there_is_none(capsys):
    assert list(listed(capsys, "envs", "mspacman-V5")) == ["ALE/MsPacman-v5"]
    assert main(["list", "planners", "zzz"]) == 1
    assert capsys.readouterr().out == ""


def test_a_kind_that_there_is_not_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["list", "planer"])
    said = capsys.readouterr().err
    assert "'planer'" in said
    assert "planners" in said
    assert len(said.splitlines()) == 1
