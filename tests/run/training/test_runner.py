"""Training runs: what they write, how they end, and how they go on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from nested_kinds import Shown
from training_runs import log, small, weights

from plangym_ext.errors import (
    DamagedCheckpoint,
    FolderTaken,
    ForeignCheckpoint,
    ForeignNetwork,
    InvalidOption,
    LossNotFinite,
    WrongKind,
)
from plangym_ext.learn import NetworkConfig, make_network
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback, StopAt
from plangym_ext.run.training.checkpoints import (
    Checkpoints,
    check_same_spaces,
    read_checkpoint,
    spaces_of,
)
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


class Fails(Callback):
    """Raises in the middle of a round, as a bug or a full disk would."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_episodes(self, runner, records):
        if runner.round == self.at:
            raise RuntimeError("in the middle of a round")


def test_a_run_writes_settings_log_and_two_checkpoints(tmp_path):
    config = small({"seed": 3})
    with Runner(config, tmp_path) as runner:
        runner.run()
    assert (runner.round, runner.steps, runner.stopped) == (6, 6 * 4 * 12, "")
    names = [path.name for path in Checkpoints(tmp_path).paths()]
    assert names == ["checkpoint-00000004.pt", "checkpoint-00000006.pt"]
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 3
    params = json.loads((tmp_path / "params.json").read_text())
    assert params["seed"] == 3
    assert "torch" in params["versions"]
    rows = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [48 * n for n in range(1, 7)]
    assert [("eval/return" in row) for row in rows] == [False, False, True] * 2
    assert runner.algorithm.updates == rows[-1]["updates"] > 0


DOWN = {"start": 1.0, "end": 0.5, "over": 9}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"algorithm": {"replay": "prioritized"}, "agent": {"shared_body": False}},
        {"algorithm": {"name": "td", "target_rate": 0.5, "batch_size": 16, "learning_starts": 16}},
        {"collector": {"n_workers": 2}},
        {
            "planner": {"keep_tree": True, "temperature": DOWN, "discount": DOWN},
            "algorithm": {"discount": DOWN},
            "evaluation": {"player": "planner", "every": 5, "episodes": 1},
        },
    ],
    ids=["uniform", "prioritized", "td", "workers", "scheduled"],
)
def test_a_run_that_broke_off_goes_on_bit_for_bit(tmp_path, changed):
    config = small(changed)
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    with (
        Runner(config, tmp_path / "broken", callbacks=[Fails(at=5)]) as runner,
        pytest.raises(RuntimeError, match="in the middle"),
    ):
        runner.run()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        assert runner.round == 4
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")
    assert runner.best == whole.best
    # The last of the best evaluations, whose weights were written.
    returns = {row["round"]: row["eval/return"] for row in evaluations(tmp_path / "whole")}
    best = max(returns.values())
    last = max(round_number for round_number, mean in returns.items() if mean == best)
    assert whole.best == {"round": last, "return": best}
    for folder in ("whole", "broken"):
        assert read_checkpoint(tmp_path / folder / "best.pt")["round"] == last


def evaluations(folder):
    lines = (folder / "progress.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "eval/return" in row]


def test_files_of_weights_of_a_planners_network_are_played(tmp_path):
    with Runner(small({"weights_every": 6}), tmp_path) as runner:
        runner.run()
    saved = read_checkpoint(tmp_path / "weights" / "weights-00000006.pt")
    # Without the optimiser.
    assert sorted(saved["trainer"]) == ["network", "steps", "updates"]
    returns = []
    for path in (tmp_path, tmp_path / "weights" / "weights-00000006.pt"):
        with Trained(path, player="planner") as trained:
            assert weights(trained.network) == weights(runner.network)
            returns.append([episode.return_ for episode in trained.play(1)])
    assert returns[0] == returns[1]


def test_sokoban_with_balanced_replay_and_held_out_levels(tmp_path):
    levels = tmp_path / "held_out.txt"
    levels.write_text("; 0\n######\n#@ $.#\n#    #\n#    #\n#    #\n######\n")
    config = small(
        {
            "env": {"max_steps": 6},
            "planner": {"num_simulations": 2},
            "agent": {"channels": [4]},
            "rounds": 4,
            "collector": {"n_workers": 0, "num_envs": 3, "moves": 6},
            # The size and the boxes are those of the levels.
            "evaluation": {"env": {"levels": str(levels), "dim": None, "num_boxes": None}},
        },
        preset="sokoban_6x6",
    )
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    # Two moves solve the one level of the evaluation, and any search finds them.
    assert b'"eval/return": 11.0' in log(tmp_path / "whole")[1]
    with (
        Runner(config, tmp_path / "broken", callbacks=[Fails(at=3)]) as runner,
        pytest.raises(RuntimeError),
    ):
        runner.run()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


def test_balancing_by_an_unknown_attribute_is_an_error(tmp_path):
    config = small({"algorithm": {"replay": "balanced", "balance_by": "colour"}})
    with Runner(config, tmp_path) as runner, pytest.raises(InvalidOption, match="'colour'"):
        runner.run()


def test_a_run_can_be_made_longer(tmp_path):
    with Runner(small({"rounds": 2}), tmp_path) as runner:
        runner.run()
    with Runner(small({"rounds": 3}), tmp_path, resume=True) as runner:
        assert runner.round == 2
        runner.run()
    assert runner.round == 3


def test_resuming_where_there_is_nothing_begins(tmp_path):
    with Runner(small({"rounds": 1}), tmp_path, resume=True) as runner:
        runner.run()
    assert runner.round == 1


def test_callbacks_are_called_at_the_joints_and_can_end_the_run(tmp_path):
    seen = []

    class Notes(Callback):
        def on_start(self, runner):
            seen.append("start")

        def on_evaluation(self, runner, episodes):
            seen.append(f"evaluation {len(episodes)}")

        def on_round(self, runner, values):
            seen.append(f"round {runner.round}")

        def on_checkpoint(self, runner, path):
            seen.append(path.name[-6:])

        def on_end(self, runner):
            seen.append("end")

    callbacks = [Notes(), StopAt(1.0)]
    with Runner(small(), tmp_path, callbacks=callbacks) as runner:
        runner.run()
    # An evaluation of CartPole is always above 1: the run ends at the first.
    assert runner.stopped.startswith("the evaluation's mean return is")
    assert seen == [
        *["start", "000.pt", "round 1", "round 2", "002.pt"],
        *["evaluation 2", "round 3", "003.pt", "end"],
    ]
    with Runner(small(), tmp_path, resume=True, callbacks=[Notes()]) as runner:
        runner.run()
    assert runner.round == 3, "a run that had come to its end stays ended"


# What is refused ----------------------------------------------------------------------


def files(folder):
    return {
        path: path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "tfevents" not in path.name
    }


@pytest.fixture
def finished(tmp_path):
    folder = tmp_path / "run"
    with Runner(small({"rounds": 2}), folder) as runner:
        runner.run()
    return folder


def test_a_folder_with_another_run_is_left_alone(finished):
    before = files(finished)
    with pytest.raises(FolderTaken):
        Runner(small({"seed": 9}), finished)
    assert files(finished) == before


def test_checkpoints_of_another_run_are_left_alone(finished):
    for name in ("progress.csv", "progress.jsonl", "timings.csv"):
        (finished / name).unlink()
    before = files(finished)
    with pytest.raises(FolderTaken, match="no checkpoints of another run; there is checkpoint-"):
        Runner(small({"seed": 9}), finished)
    assert files(finished) == before


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("progress.csv", "step,loss\n1,2.0\n", "has rows of a run without a checkpoint"),
        ("config.json", '{"mine": 1}', "must be the settings of a run"),
        ("config.json", "mine", "must be the settings of a run"),
        ("sweep.json", "{}", "holds a sweep"),
        ("archive.npz", "", "holds an exploration"),
    ],
)
def test_what_others_have_left_in_a_folder_is_left_alone(tmp_path, name, text, message, resume):
    (tmp_path / name).write_text(text)
    before = files(tmp_path)
    with pytest.raises(FolderTaken, match=message):
        Runner(small(), tmp_path, resume=resume)
    assert files(tmp_path) == before


def test_the_log_of_a_run_without_its_checkpoints_is_left_alone(finished):
    shutil.rmtree(finished / "checkpoints")
    before = files(finished)
    with pytest.raises(FolderTaken, match="has rows of a run without a checkpoint"):
        Runner(small({"seed": 9}), finished, resume=True)
    assert files(finished) == before


def test_a_run_that_died_before_its_first_round_leaves_nothing_to_go_on_from(tmp_path):
    class Dies(Callback):
        def on_episodes(self, runner, records):
            raise RuntimeError("before the first row")

    for settings, callback in ((small({"seed": 9}), Dies()), (small(), Fails(1))):
        # The second has other settings, and does not resume: there is nothing to lose.
        runner = Runner(settings, tmp_path, callbacks=[callback])
        with runner, pytest.raises(RuntimeError):
            runner.run()
    with Runner(small(), tmp_path, resume=True) as runner:
        runner.run()
        assert runner.round == 6


def test_a_run_that_was_over_stays_so_unless_more_is_asked_for(tmp_path):
    goal = {"evaluation": {"stop_at": -1.0}}
    with Runner(small(goal), tmp_path) as runner:
        runner.run()
    stopped = runner.round
    assert stopped < 6
    less = {"evaluation": {"stop_at": -2.0}}
    for changed, rounds in (
        ({"checkpoint_every": 5}, stopped),
        ({"rounds": 5}, stopped),
        (less, stopped),
        ({"rounds": 7}, stopped + 3),
    ):
        with Runner(small(goal, changed), tmp_path, resume=True) as runner:
            runner.run()
            assert runner.round == rounds


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"env": {"id": "Acrobot-v1"}}, "env.id: 'CartPole-v1' there, 'Acrobot-v1' here"),
        ({"agent": {"hidden": [8]}}, r"agent.hidden: \[64, 64\] there, \[8\] here"),
        ({"seed": 1}, "seed: 0 there, 1 here"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(finished, changed, message):
    before = files(finished)
    with pytest.raises(ForeignCheckpoint, match=message):
        Runner(small({"rounds": 2}, changed), finished, resume=True)
    assert files(finished) == before


def test_a_checkpoint_that_was_cut_short_is_refused(finished):
    newest = Checkpoints(finished).latest()
    newest.write_bytes(newest.read_bytes()[:-100])
    before = files(finished)
    older = Checkpoints(finished).paths()[0]
    with pytest.raises(DamagedCheckpoint, match=rf"{older.name} is older: move {newest.name} out"):
        Runner(small({"rounds": 2}), finished, resume=True)
    with pytest.raises(DamagedCheckpoint):
        Trained(finished)
    assert files(finished) == before


@pytest.mark.parametrize("kind", ["dict", "nested"])
def test_a_planner_learns_from_observations_of_several_parts(kind, tmp_path):
    with Runner(small(), tmp_path, make_env=lambda **_: Shown(kind)) as runner:
        before = weights(runner.network)
        runner.run()
    assert runner.round == 6
    assert weights(runner.network) != before
    with Runner(
        small({"rounds": 7}), tmp_path, resume=True, make_env=lambda **_: Shown(kind)
    ) as more:
        more.run()
    assert more.round == 7


def test_a_game_of_two_players_is_refused_where_rewards_are_added_up(tmp_path):
    game, message = "plangym_ext/TicTacToe-v0", "training: the env must have one player"
    with pytest.raises(WrongKind, match=message):
        Runner(compose(["ppo_cartpole", {"env": {"id": game}}]), tmp_path / "run")
    expert = compose(["expert_cartpole", {"env": {"id": game}}])
    with pytest.raises(WrongKind, match=message):
        Runner(expert, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(DamagedCheckpoint, match="there is no such checkpoint"):
        read_checkpoint(tmp_path / "none.pt")
    with pytest.raises(DamagedCheckpoint, match="no checkpoint in this folder"):
        Trained(tmp_path)


def test_another_network_or_env_is_refused(finished):
    def other(observation_space, action_space):
        return make_network(observation_space, action_space, NetworkConfig(hidden=(8,)), seed=0)

    before = files(finished)
    with pytest.raises(ForeignNetwork, match="weights are those of another network"):
        Runner(small({"rounds": 2}), finished, resume=True, make_network=other)
    with pytest.raises(ForeignNetwork):
        Trained(finished, make_network=other)

    def another_env():
        return gymnasium.make("Acrobot-v1")

    with pytest.raises(ForeignCheckpoint, match="trained on the observation space"):
        Runner(small({"rounds": 2}), finished, resume=True, make_env=another_env)
    assert files(finished) == before


@pytest.mark.parametrize(
    "options", [{"precision": 3, "suppress": True}, {"linewidth": 20}, {"sign": "+"}]
)
def test_spaces_are_compared_as_values_however_numpy_prints(finished, options):
    with np.printoptions(**options), Trained(finished) as trained:
        assert trained.play(1)


def test_spaces_whose_texts_leave_out_where_they_differ_are_told_apart():
    low = np.linspace(-3, -2, 2_000, dtype=np.float32)
    other = low.copy()
    other[1_000] = -1.0
    space, shifted = (spaces.Box(bound, 1.0, dtype=np.float32) for bound in (low, other))
    assert str(space) == str(shifted)
    here, there = (
        SimpleNamespace(name="env", observation_space=one, action_space=spaces.Discrete(2))
        for one in (space, shifted)
    )
    check_same_spaces("saved", spaces_of(here), here)
    with pytest.raises(ForeignCheckpoint, match="trained on the observation space"):
        check_same_spaces("saved", spaces_of(here), there)


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_checkpoint(finished):
    class Poison(Callback):
        def on_episodes(self, runner, records):
            # Once something is learned from: the next search would refuse such values itself.
            if len(runner.algorithm.replay) >= runner.config.learner.learning_starts:
                runner.network.heads.bias.data[:] = float("inf")

    with (
        Runner(
            small({"rounds": 9}),
            finished.parent / "other",
            callbacks=[Poison()],
        ) as runner,
        pytest.raises(LossNotFinite),
    ):
        runner.run()
    kept = read_checkpoint(Checkpoints(finished.parent / "other").latest())
    assert kept["round"] <= runner.round
    assert all(bool(tensor.isfinite().all()) for tensor in kept["trainer"]["network"].values())


# Kills --------------------------------------------------------------------------------


def test_a_run_that_is_killed_comes_to_the_same_end():
    program = ROOT / "tests" / "benchmarks" / "resume.py"
    done = subprocess.run(
        [sys.executable, program, "--kills", "2", "--rounds", "6"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal, bit for bit" in done.stdout


def test_prioritised_replay_learns_a_gaussian_policy(tmp_path):
    config = small(
        {
            "env": {"id": "Pendulum-v1", "max_steps": 10, "kwargs": {}},
            # Actions that differ little, so that the policy becomes narrow.
            "planner": {
                "name": "predictive-sampling",
                "num_simulations": 4,
                "horizon": 3,
                "noise_std": 0.02,
            },
            "agent": {"value_scale": 1.0},
            "algorithm": {
                "name": "supervised",
                "policy_target": "action",
                "value_target": None,
                "learning_rate": 0.003,
                "batch_size": 16,
                "replay": "prioritized",
                "learning_starts": 16,
                "updates_per_round": 20,
            },
            "evaluation": {"every": 0},
        },
    )
    with Runner(config, tmp_path) as runner:
        runner.run()
        assert runner.algorithm.updates >= 100
        rows = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    # Densities have no upper bound: this is what a priority cannot be.
    assert min(row["train/policy_loss"] for row in rows if "train/policy_loss" in row) < 0


@pytest.mark.parametrize(
    ("preset", "more"), [("ppo_cartpole", {}), ("dqn_cartpole", {"learning_starts": 40})]
)
def test_a_run_begins_with_the_weights_of_another_one(preset, more, tmp_path):
    pytest.importorskip("torch")
    short = {"rounds": 2, "evaluation": {"every": 0}, "algorithm": more}
    with Runner(compose([preset, short]), tmp_path / "a") as runner:
        runner.run()
        learned = {k: v.clone() for k, v in runner.network.state_dict().items()}
    other = compose([preset, {**short, "seed": 5, "algorithm": {**more, "learning_rate": 1e-5}}])
    with Runner(other, tmp_path / "b", init_from=tmp_path / "a") as runner:
        begun = runner.network.state_dict()
        assert all((begun[k] == v).all() for k, v in learned.items())
        assert runner.round == 0
        assert runner.algorithm.updates == 0
        runner.run()
        moved = runner.network.state_dict()
    assert any((moved[k] != v).any() for k, v in learned.items())
    assert json.loads((tmp_path / "b" / "params.json").read_text())["init_from"].endswith("a")
    # It is its own run from then on: resumed, it has its own weights.
    with Runner(other, tmp_path / "b", resume=True, init_from=tmp_path / "a") as runner:
        again = runner.network.state_dict()
        assert all((again[k] == v).all() for k, v in moved.items())


def test_weights_of_another_network_or_of_none_are_refused(tmp_path):
    pytest.importorskip("torch")
    short = {"rounds": 1, "evaluation": {"every": 0}}
    with Runner(compose(["ppo_cartpole", short]), tmp_path / "a") as runner:
        runner.run()
    wide = compose(["ppo_cartpole", {**short, "agent": {"hidden": [7]}}])
    with pytest.raises(ForeignNetwork):
        Runner(wide, tmp_path / "b", init_from=tmp_path / "a")
    with pytest.raises(DamagedCheckpoint, match="no_run"):
        Runner(wide, tmp_path / "b", init_from=tmp_path / "no_run")
    assert not (tmp_path / "b").exists()
    assert main(["train", "dqn_cartpole", "--init-from", str(tmp_path / "a"), "--out", "x"]) == 2
