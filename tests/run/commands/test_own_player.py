"""`module:function` on the command line: planners, agents and heuristics of one's own."""

from __future__ import annotations

import json
import sys
import textwrap

import numpy as np
import pytest

from plangym_ext.planners.pages.tree import columns, one_step_tree
from plangym_ext.planners.plans import Budget, Plan
from plangym_ext.run.cli import main

pytestmark = pytest.mark.slow

PLAYERS = '''
    from dataclasses import dataclass
    import numpy as np
    from plangym_ext.learn import Acted, Agent, RandomAgent
    from plangym_ext.planners import MCTS, Budget, Plan, Planner

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


    class Lookahead(Planner):
        """Random rollouts that begin with each action.

        Args:
            depth: steps of a rollout.
            weights: cannot be typed.
        """

        def __init__(self, depth: int = 20, weights: list | None = None, **options):
            super().__init__(**options)
            self.depth = depth

        def _plan_batch(self, request):
            plans = []
            for state, rng in zip(request.states, request.rngs):
                each = self.most_simulations // (2 * self.depth)
                actions = rng.integers(0, 2, (2 * each, self.depth))
                actions[:, 0] = np.arange(2 * each) % 2
                out = request.env.rollout_batch(actions, np.repeat(state[None], 2 * each, 0))
                returns = out.rewards.sum(1).reshape(each, 2).mean(0)
                cost = Budget(int(out.steps.sum()), 0, 0, 2 * each, 0.0)
                plans.append(Plan(int(returns.argmax()), float(returns.max()), cost))
            return plans


    @dataclass(eq=False, kw_only=True)
    class Fields(Lookahead):
        """The same, as a dataclass.

        Args:
            depth: as there.
            must: has no default.
        """

        depth: int = 3
        must: float

        def __post_init__(self):
            super().__post_init__()


    class Spender(Planner):
        def _plan_batch(self, request):
            return [Plan(0, 0.0, Budget(model_steps=9)) for _ in request.states]


    class Abstract(Planner):
        pass
'''


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
    assert "must have a name 'lefft'" in capsys.readouterr().err
    assert plan("number")[0] != 0
    assert "must return a planner or an agent; got a int" in capsys.readouterr().err
    assert main(["plan", "CartPole-v1", "--planner", "no_such_module:f"]) != 0
    assert "There is no module 'no_such_module'" in capsys.readouterr().err


def test_options_of_a_planner_of_one_s_own_are_options_of_the_command(plan, capsys):
    status, file = plan("Lookahead", "--depth", "5", "--num-simulations", "40")
    assert status == 0
    episode = json.loads(file.read_text())
    assert (episode["options"]["depth"], episode["options"]["num_simulations"]) == (5, 40)
    assert episode["model_steps"] == 6 * 8 * 5
    with pytest.raises(SystemExit):
        plan("Lookahead", "--help")
    said = capsys.readouterr().out
    assert "--depth X" in said
    assert "steps of a rollout." in said
    assert "--max-model-steps X" in said
    assert "--weights" not in said
    with pytest.raises(SystemExit):
        plan("Lookahead", "--depht", "5")
    assert "--depth" in capsys.readouterr().err


def test_an_option_without_a_default_must_be_given(plan, capsys):
    with pytest.raises(SystemExit):
        plan("Fields")
    assert "missing --must" in capsys.readouterr().err
    assert plan("Fields", "--must", "0.5", "--num-simulations", "12")[0] == 0


def test_planners_of_one_s_own_are_compared_and_evaluated(plan, tmp_path, capsys):
    own = ["my_players:Lookahead:depth=4", "my_players:searcher", "my_players:left"]
    few = ["--seeds", "2", "--max-steps", "4", "--model-steps", "80", "--n-workers", "0"]
    assert main(["compare", "CartPole-v1", "--planners", "mcts", *own, *few, "--out", "c"]) == 0
    rows = json.loads((tmp_path / "c" / "compare.json").read_text())["summary"]
    assert [row["planner"] for row in rows] == ["mcts", *own]
    steps = [row["model_steps_per_move"] for row in rows]
    # The budget of the comparison holds for what functions make as well.
    assert steps[1] == 80
    assert 0 < steps[2] <= 80
    assert steps[3] == 0
    few = ["--env-id", "CartPole-v1", "--episodes", "2", "--max-steps", "4", "--out", "d"]
    assert main(["eval", *own, "mcts:num_simulations=4", *few]) == 0
    players = json.loads((tmp_path / "d" / "paired.json").read_text())["episodes"]
    assert list(players) == [*own, "mcts:num_simulations=4"]
    assert "have it heed" not in capsys.readouterr().err
    few = ["--seeds", "1", "--max-steps", "2", "--model-steps", "2", "--n-workers", "0"]
    spender = "my_players:Spender"
    assert main(["compare", "CartPole-v1", "--planners", spender, *few, "--out", "e"]) == 0
    assert f"{spender} took 9 model steps a move in CartPole-v1, and" in capsys.readouterr().err
    assert main(["compare", "CartPole-v1", "--planners", "my_players:Lookahead:dept=4"]) == 2
    assert "got 'dept' (did you mean 'depth'?)" in capsys.readouterr().err
    assert main(["compare", "CartPole-v1", "--planners", "my_players:left:depth=4"]) == 2
    assert "my_players:left is a function, and got 'depth=4'" in capsys.readouterr().err
    assert main(["compare", "CartPole-v1", "--planners", "my_players:Abstract"]) == 2
    assert "my_players:Abstract must define _plan_batch" in capsys.readouterr().err


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


def test_an_algorithm_of_one_s_own_is_found_in_the_current_folder(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")
    (tmp_path / "my_learning.py").write_text(
        "from plangym_ext.learn import AlphaZeroConfig, SupervisedLearning\n\n\n"
        "class Mine(SupervisedLearning):\n    config_class = AlphaZeroConfig\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit):
        main(["train", "cartpole", "--algorithm.name", "my_learning:Mine", "--help"])
    assert "--algorithm.learning_rate" in capsys.readouterr().out
    sys.modules.pop("my_learning", None)
