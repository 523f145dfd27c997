"""`module:function` on the command line: planners, agents and heuristics of one's own."""

from __future__ import annotations

import json
import sys
import textwrap

import numpy as np
import pytest

from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.run.cli import main
from plangym_ext.run.tree_page.drawn import columns, one_step_tree

pytestmark = pytest.mark.slow

PLAYERS = """
    import numpy as np
    from plangym_ext.learn import Acted, Agent, RandomAgent
    from plangym_ext.planners import MCTS

    class Left(Agent):
        def step(self, inputs, carry):
            rows = len(inputs.first)
            q = np.tile(np.float32([2, 1]), (rows, 1))
            return Acted(np.zeros(rows, np.int64), {"q": q}, carry)

    def left(env):
        return Left()

    def by_chance(env):
        return RandomAgent(env.action_space)

    def searcher(env):
        return MCTS(4)

    def number(env):
        return 5
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    (tmp_path / "my_players.py").write_text(textwrap.dedent(PLAYERS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(function, *more):
        arguments = ["CartPole-v1", "--planner", f"my_players:{function}", "--n-workers", "0"]
        status = main(["plan", *arguments, "--max-steps", "6", "--overwrite", *more])
        return status, tmp_path / "runs" / "plan" / "episode.json"

    yield run
    sys.modules.pop("my_players", None)


def test_agents_and_planners_of_one_s_own_play(plan, tmp_path):
    status, file = plan("left", "--tree", str(tmp_path / "page.html"))
    episode = json.loads(file.read_text())
    assert status == 0
    assert episode["actions"] == [0] * 6
    assert (episode["planner"], episode["model_steps"]) == ("my_players:left", 0)
    assert "my_players:left, seed 0" in (tmp_path / "page.html").read_text()
    assert plan("by_chance")[0] == 0
    status, file = plan("searcher")
    assert json.loads(file.read_text())["model_steps"] > 0


def test_what_is_no_player_is_named(plan, capsys):
    assert plan("lefft")[0] != 0
    assert "must have a function 'lefft'" in capsys.readouterr().err
    assert plan("number")[0] != 0
    assert "must return a planner or an agent; got a int" in capsys.readouterr().err
    assert main(["plan", "CartPole-v1", "--planner", "no_such_module:f"]) != 0
    assert "There is no module 'no_such_module'" in capsys.readouterr().err


def test_heuristics_of_one_s_own_are_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_heuristics.py").write_text(
        "import numpy as np\n\n\ndef none(obs):\n    return np.zeros(len(obs))\n"
    )
    monkeypatch.chdir(tmp_path)
    env, short = "FrozenLake-v1", ["--max-steps", "2", "--n-workers", "0"]
    few = ["--num-simulations", "8", "--heuristic", "my_heuristics:none"]
    commands = [
        ["plan", env, "--planner", "best-first", *few, *short, "--out", "a"],
        ["plan", env, "--planner", "phs", *few, *short, "--out", "b"],
        ["compare", env, "--planners", "best-first:heuristic=my_heuristics:none", "--seeds", "1"],
        ["eval", "best-first:heuristic=my_heuristics:none", "mcts", "--env-id", env],
    ]
    commands[2] += ["--model-steps", "8", *short, "--out", "c"]
    commands[3] += ["--episodes", "2", "--max-steps", "2", "--out", "d"]
    # The folder that is current when the command begins; Python may search it in any case.
    elsewhere = [folder for folder in sys.path if folder]
    for command in commands:
        monkeypatch.setattr(sys, "path", [*elsewhere])
        sys.modules.pop("my_heuristics", None)
        assert main(command) == 0, command
    sys.modules.pop("my_heuristics", None)


def test_a_plan_without_a_tree_is_drawn_as_its_actions():
    said = Plan(1, 3.0, Budget(), q=np.array([2.0, 3.0]), weights=np.array([0.25, 0.75]))
    drawn = columns(one_step_tree(said, 2), said, 0, 99)
    assert drawn["parent"] == [-1, 0, 0]
    assert drawn["action"] == [-1, 0, 1]
    assert drawn["q"] == [3, 2, 3]
    assert drawn["prior"] == [1, 0.25, 0.75]
    assert drawn["line"] == [0, 2]
    silent = Plan(1, float("nan"), Budget())
    assert columns(one_step_tree(silent, 2), silent, 0, 99)["parent"] == [-1]


def test_a_trainer_of_one_s_own_is_found_in_the_current_folder(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    (tmp_path / "my_trainers.py").write_text(
        "from plangym_ext.learn.trainers.supervised import AlphaZeroTrainer\n\n\n"
        "class Mine(AlphaZeroTrainer):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit):
        main(["train", "cartpole", "--trainer.name", "my_trainers:Mine", "--help"])
    assert "--trainer.learning_rate" in capsys.readouterr().out
    sys.modules.pop("my_trainers", None)
