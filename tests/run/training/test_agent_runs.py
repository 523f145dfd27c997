"""Training runs in which an agent plays: settings, resuming, evaluation, the command line."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from training_runs import log, weights

from plangym_ext.errors import (
    InvalidObservation,
    InvalidOption,
    NotWritten,
    UnknownName,
    WorkerTimeout,
    WrongKind,
)
from plangym_ext.learn import PPO, ActorCriticAgent, PPOConfig, QAgent, Schedule, tensor_file
from plangym_ext.learn.agents.network_agent import NetworkAgent
from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm
from plangym_ext.learn.algorithms.rollouts.policy_gradient import PolicyGradient
from plangym_ext.learn.networks.state import load_network_state
from plangym_ext.learn.schedule import Number, at
from plangym_ext.planners.episode import play
from plangym_ext.run.cli import main
from plangym_ext.run.commands.train import reached
from plangym_ext.run.logs.appended import AppendedFile
from plangym_ext.run.settings.compose import PRESETS, compose
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build, listed, plain
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.checkpoints import read_checkpoint
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "agent": {"hidden": [8]},
    "rounds": 6,
    "checkpoint_every": 2,
    "collector": {"num_envs": 4, "moves": 12},
    "evaluation": {"every": 3, "episodes": 2},
}
PPO_SMALL = {"algorithm": {"epochs": 2, "batch_size": 16}}
TYPED = ["--rounds=2", "--collector.num_envs=4", "--evaluation.every=0", "--quiet"]


def small(*sources: Any, preset: str = "ppo_cartpole") -> Any:
    return compose([preset, SMALL, *sources])


class Fails(Callback):
    """Raises in the middle of a round."""

    def on_episodes(self, runner, records):
        if runner.round == 5:
            raise RuntimeError("in the middle of a round")


class Interrupts(Callback):
    """Presses Ctrl-C after some rounds."""

    def on_round(self, runner, values):
        if runner.round == 3:
            os.kill(os.getpid(), signal.SIGINT)


# Settings -----------------------------------------------------------------------------


def test_a_run_without_a_planner_has_no_section_of_one():
    acts = compose(["ppo_cartpole"])
    assert acts.algorithm is not None
    assert acts.algorithm.config.learning_rate == Schedule(start=1e-3, end=0.0, over=8000)
    assert "planner" not in plain(acts)
    keys = {setting.key for setting in listed(acts)}
    assert {"agent.hidden", "algorithm.clip", "algorithm.name"} <= keys
    assert not any(key.startswith("planner") for key in keys)
    assert build(RunConfig, json.loads(json.dumps(plain(acts)))) == acts


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["cartpole", "ppo_cartpole"], "'ppo' does not"),
        ([{"agent": {"hidden": [8]}}], "it has no algorithm"),
        ([{"algorithm": {"name": "a2c"}}], "it has no agent"),
        (["ppo_cartpole", {"agent": {"name": "planner"}}], "a planner has none. Name 'network'"),
        (["ppo_cartpole", {"evaluation": {"player": "planner"}}], "must be 'network' in a run"),
        (["ppo_cartpole", {"algorithm": {"clip": -1.0}}], "PPOConfig: clip must be"),
    ],
)
def test_what_does_not_go_together_is_an_error(sources, message):
    with pytest.raises(InvalidOption, match=message):
        compose(sources)


def test_unknown_names_have_a_suggestion():
    with pytest.raises(UnknownName, match=r"algorithm\.name must be one of ppo.*mean 'reinforce'"):
        compose(["ppo_cartpole", {"algorithm": {"name": "reinforc"}}])
    with pytest.raises(UnknownName, match=r"agent\.name must be one of actor_critic"):
        compose(["ppo_cartpole", {"agent": {"name": "actor"}}])
    with pytest.raises(UnknownName, match="did you mean 'epochs'"):
        compose(["ppo_cartpole", {"algorithm": {"epoch": 1}}])
    with pytest.raises(WrongKind, match="must be a class which derives from"):
        compose(["ppo_cartpole", {"algorithm": {"name": "json:JSONDecoder"}}])


# Running ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        PPO_SMALL,
        {"algorithm": {"name": "a2c"}},
        {"algorithm": {"name": "reinforce"}},
        {
            "agent": {"recurrent": "lstm", "recurrent_size": 8, "shared_body": True},
            "algorithm": {"epochs": 2, "batch_size": 24, "minibatch": "env"},
        },
        {**PPO_SMALL, "env": {"n_workers": 2}},
    ],
    ids=["ppo", "a2c", "reinforce", "recurrent", "workers"],
)
def test_a_run_that_broke_off_goes_on_bit_for_bit(tmp_path, changed):
    config = small(changed)
    with Runner(config, tmp_path / "whole") as whole:
        before = weights(whole.network)
        whole.run()
    assert whole.steps == 6 * 4 * 12
    assert weights(whole.network) != before
    with (
        Runner(config, tmp_path / "broken", callbacks=[Fails()]) as runner,
        pytest.raises(RuntimeError, match="in the middle"),
    ):
        runner.run()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        assert runner.round == 4
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


class Plays(Callback):
    """Keeps the actions of each round."""

    def __init__(self):
        self.actions = []

    def on_episodes(self, runner, records):
        self.actions.append(np.array(records["action"]))


@pytest.mark.parametrize("preset", ["sac_pendulum", "td3_pendulum"])
def test_what_was_learned_from_a_replay_is_played(tmp_path, preset):
    played = []
    for rate in (1e-3, 1e-2):
        changed = {"learning_starts": 20, "learning_rate": rate, "batch_size": 8}
        rest = {"rounds": 4, "collector": {"num_envs": 1, "moves": 10}, "evaluation": {"every": 0}}
        config = compose([preset, {"algorithm": changed, **rest}])
        callback = Plays()
        with Runner(config, tmp_path / f"{rate}", callbacks=[callback]) as runner:
            runner.run()
        played.append(callback.actions)
    same = [np.array_equal(one, other) for one, other in zip(*played, strict=True)]
    # Random ones until something is learned: after the third round, from the steps past the 20th.
    assert same == [True, True, True, False]


def test_ctrl_c_ends_the_round_and_the_run_goes_on(tmp_path):
    config = small(PPO_SMALL)
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    with (
        Runner(config, tmp_path / "broken", callbacks=[Interrupts()]) as runner,
        pytest.raises(KeyboardInterrupt),
    ):
        runner.run()
    assert read_checkpoint(str(runner.newest_checkpoint))["round"] == 3
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


@pytest.mark.parametrize("full", ["log", "checkpoint"])
def test_a_full_disk_ends_the_run_in_order_and_it_goes_on(tmp_path, monkeypatch, full):
    config = small(PPO_SMALL, {"env": {"n_workers": 1}})
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    appended, synced = AppendedFile.write, os.fsync

    def append(self, text):
        if runner.round == 3 and full == "log":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        appended(self, text)

    def fsync(descriptor):
        if runner.round == 4 and full == "checkpoint":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synced(descriptor)

    said = r"round \d could not be written: No space left on device\..*checkpoint-00000002\.pt is"
    with Runner(config, tmp_path / "broken") as runner:
        monkeypatch.setattr(AppendedFile, "write", append)
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(NotWritten, match=said) as error:
            runner.run()
    assert "\n" not in str(error.value)
    monkeypatch.undo()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        assert runner.round == 2
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


def test_one_part_that_cannot_be_closed_keeps_no_other_open(tmp_path, monkeypatch):
    runner = Runner(small(PPO_SMALL), tmp_path)
    monkeypatch.setattr(runner._log, "close", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runner.close()
    monkeypatch.undo()
    runner._log.close()
    runner.close()
    with Runner(small(PPO_SMALL), tmp_path, resume=True):  # the folder is no longer locked
        pass


def test_the_number_of_workers_changes_nothing(tmp_path):
    logs = []
    for workers in (0, 2):
        config = small(PPO_SMALL, {"env": {"id": "Acrobot-v1", "n_workers": workers}})
        with Runner(config, tmp_path / str(workers)) as runner:
            runner.run()
        logs.append((weights(runner.network), log(tmp_path / str(workers))))
    assert logs[0] == logs[1]


def test_episodes_are_logged_with_the_infos_that_were_asked_for(tmp_path):
    changed = {
        "env": {"id": "plangym_ext/NarrowPath-v0", "kwargs": {"n": 4}},
        "collector": {"moves": 60},
        "rounds": 1,
        "evaluation": {"every": 1},
    }
    with Runner(small(PPO_SMALL, changed), tmp_path) as runner:
        runner.run()
    (row,) = map(json.loads, (tmp_path / "progress.jsonl").read_text().splitlines())
    assert row["step"] == row["model_steps"] == 4 * 60
    assert row["episodes"] > 0
    assert {"return", "length", "discounted_return", "train/kl", "eval/return"} <= set(row)
    assert "row" not in row


def test_the_timeout_of_the_collector_is_that_of_the_envs_workers():
    class Hangs(gym.Wrapper):
        def step(self, action):
            time.sleep(60)

    def make_env(**_):
        return Hangs(gym.make("CartPole-v1"))

    changed = {"env": {"n_workers": 1}, "collector": {"num_envs": 1, "timeout": 1.0}}
    # Not exact: nothing is stepped before the first action.
    parts = Parts(small(changed), make_env)
    with parts.vector_env(exact=False) as venv:
        venv.reset(seed=0)
        with pytest.raises(WorkerTimeout):
            venv.step(np.zeros(1, np.int64))
    # And of those of the env that it is judged in.
    with Parts(small(changed)).env() as env:
        assert env.batch_env.row_timeout == 1.0


@pytest.mark.parametrize("every", [0, 1])
def test_an_info_that_is_no_number_has_no_mean(tmp_path, every):
    class Told(gym.Wrapper):
        def step(self, action):
            *found, info = self.env.step(action)
            return *found, {**info, "level": "first"}

    def make_env(**_):
        return Told(gym.make("CartPole-v1"))

    changed = {
        "collector": {"attributes": ["level"], "moves": 60},
        "evaluation": {"every": every},
    }
    with (
        Runner(small(PPO_SMALL, changed), tmp_path, make_env=make_env) as runner,
        pytest.raises(InvalidObservation, match="the info 'level', which must be a number; got"),
    ):
        runner.run()


def test_what_was_trained_is_played_as_it_was_evaluated(tmp_path):
    seen: list[float] = []

    class Notes(Callback):
        def on_evaluation(self, runner, episodes):
            seen[:] = [episode.return_ for episode in episodes]

    with Runner(small(PPO_SMALL), tmp_path, callbacks=[Notes()]) as runner:
        runner.run()
    with Trained(tmp_path) as trained:
        assert [episode.return_ for episode in trained.play(2)] == seen
        assert weights(trained.network) == weights(runner.network)
    with pytest.raises(InvalidOption, match=r"evaluation\.planner must be .* in a run without"):
        Trained(tmp_path, planner={"num_simulations": 4})


def test_what_learned_on_a_device_that_is_not_here_plays_on_the_cpu(tmp_path):
    with Runner(small(PPO_SMALL), tmp_path) as runner:
        runner.run()
    with Trained(tmp_path) as trained:
        wanted = [episode.return_ for episode in trained.play(2)]
    saved = tensor_file.load(trained.path)
    saved["config"]["device"] = "cuda:99"
    tensor_file.save(trained.path, saved)
    with Trained(tmp_path) as trained:
        assert trained.config.device == "cpu"
        assert [episode.return_ for episode in trained.play(2)] == wanted


def test_weights_along_the_way_are_kept_and_played(tmp_path):
    seen = {}

    class Notes(Callback):
        def on_round(self, runner, values):
            seen[runner.round] = weights(runner.network)

    changed = {"rounds": 5, "weights_every": 2}
    with Runner(small(PPO_SMALL, changed), tmp_path, callbacks=[Notes()]) as runner:
        runner.run()
    files = sorted((tmp_path / "weights").iterdir())
    assert [file.name for file in files] == ["weights-00000002.pt", "weights-00000004.pt"]
    for file, number in zip(files, (2, 4), strict=True):
        with Trained(file) as trained:
            assert weights(trained.network) == seen[number]
            assert len(trained.play(1)) == 1


# Parts of one's own -------------------------------------------------------------------


class OwnAgent(NetworkAgent):
    """Asks the library's agent."""

    def __init__(self, network, *, device="cpu"):
        super().__init__(network, device=device)
        self._asked = ActorCriticAgent(network, device=device)

    def set_mode(self, mode):
        super().set_mode(mode)
        self._asked.set_mode(mode)

    def step(self, inputs, carry):
        return self._asked.step(inputs, carry)

    def value(self, inputs, carry):
        return self._asked.value(inputs, carry)


class OwnAlgorithm(PolicyGradient):
    """Weights every action with 1."""

    config_class = PPOConfig

    def _estimate(self, rollout):
        value = self._values(rollout)
        return rollout.rows(value * 0 + 1, value)


def test_agent_algorithm_and_env_may_be_ones_own(tmp_path):
    changed = {
        "agent": {"name": f"{__name__}:OwnAgent", "hidden": [8]},
        "algorithm": {"name": f"{__name__}:OwnAlgorithm", "epochs": 3},
        "rounds": 2,
    }

    def make_env(**kwargs):
        return gym.make("Acrobot-v1", max_episode_steps=20, **kwargs)

    config = small(changed)
    with Runner(config, tmp_path, make_env=make_env) as runner:
        runner.run()
    assert isinstance(runner.algorithm, OwnAlgorithm)
    assert isinstance(runner.agent, OwnAgent)
    assert runner.algorithm.config.epochs == 3
    assert runner.algorithm.updates == 2
    with Trained(tmp_path, make_env=make_env) as trained:
        assert [episode.length for episode in trained.play(2)] == [20, 20]


@dataclass(frozen=True, kw_only=True)
class GreedierConfig:
    """Explores less and less."""

    epsilon: Number = 0.5
    discount: float = 0.9


class Greedier(AgentAlgorithm):
    """Moves the weights at random, and notes with which epsilons it was played."""

    config_class = GreedierConfig

    def __init__(self, network, config=None, *, seed=0):
        super().__init__(network, config, seed=seed)
        self.epsilons: list[float] = []

    def prepare(self, agent):
        agent.epsilon = at(self.config.epsilon, self.steps)
        self.epsilons.append(float(agent.epsilon))

    def take(self, collected):
        self.steps += collected.cost.model_steps
        action = collected.data["action"].to_ndarray()
        self._drawn = int(np.dot(action.ravel(), np.arange(action.size)))

    def train(self, progress=None):
        generator = torch.Generator().manual_seed(self._drawn)
        for tensor in self.network.parameters():
            tensor.data += torch.randn(tensor.shape, generator=generator)
        self.updates += 1
        return {"updates": self.updates}

    def state_dict(self):
        return {
            "trainer": {
                "network": self.network.state_dict(),
                "updates": self.updates,
                "steps": self.steps,
            }
        }

    def load_state_dict(self, state):
        load_network_state(self.network, state["trainer"]["network"])
        self.updates, self.steps = state["trainer"]["updates"], state["trainer"]["steps"]


@dataclass(frozen=True, kw_only=True)
class UndiscountedConfig:
    """Has no discount."""

    epsilon: float = 0.5


class Undiscounted(Greedier):
    """Its config has not what samplers need."""

    config_class = UndiscountedConfig


class Unsettled(Greedier):
    """Says of no dataclass that it holds its settings."""

    config_class = None


def test_an_algorithm_of_ones_own_says_what_its_settings_are():
    def with_algorithm(name):
        return small({"agent": {"name": "q"}, "algorithm": {"name": f"{__name__}:{name}"}})

    with pytest.raises(InvalidOption, match=r"algorithm.name: UndiscountedConfig, .* discount"):
        with_algorithm("Undiscounted")
    with pytest.raises(InvalidOption, match=r"Unsettled must say .* config_class .*; got None"):
        with_algorithm("Unsettled")


def test_an_algorithm_says_how_a_q_agent_explores(tmp_path):
    changed = {
        "agent": {"name": "q", "hidden": [8]},
        "algorithm": {
            "name": f"{__name__}:Greedier",
            "epsilon": {"start": 1.0, "end": 0.0, "over": 4 * 12 * 4},
        },
    }
    config = small(changed)
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    assert isinstance(whole.agent, QAgent)
    assert isinstance(whole.algorithm, Greedier)
    assert whole.algorithm.epsilons == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    with (
        Runner(config, tmp_path / "broken", callbacks=[Fails()]) as runner,
        pytest.raises(RuntimeError, match="in the middle"),
    ):
        runner.run()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")
    with Trained(tmp_path / "whole") as trained:
        assert len(trained.play(2)) == 2


# The command line ---------------------------------------------------------------------


def test_presets_are_listed_with_what_they_reached(capsys, monkeypatch, tmp_path):
    file = tmp_path / "reached.json"
    row = {"return": 499.5, "interval": [480.25, 500.0], "seeds": 5, "steps": 102_400}
    file.write_text(json.dumps({"ppo_cartpole": row}))
    monkeypatch.setattr("plangym_ext.run.commands.train.FILE", file)
    assert main(["train", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[::3] == list(PRESETS)
    assert max(map(len, lines)) <= 80
    at = lines.index("ppo_cartpole")
    assert lines[at + 1].strip() == PRESETS["ppo_cartpole"].about
    assert lines[at + 2].strip() == "return 499.5 [480.25, 500] after 102,400 steps, 5 seeds"
    assert lines.count("    not measured") == len(PRESETS) - 1


def test_what_presets_reached_is_of_presets_that_are_there():
    found = reached()
    assert set(found) <= set(PRESETS)
    assert all(row.low <= row.mean <= row.high for row in found.values())


@pytest.mark.parametrize("preset", ["ppo_cartpole", "a2c_cartpole"])
def test_presets_train_resume_and_are_evaluated(preset, tmp_path, capsys):
    out = str(tmp_path / "run")
    assert main(["train", preset, "--out", out, *TYPED]) == 0
    steps = 4 * {"ppo_cartpole": 32, "a2c_cartpole": 5}[preset]
    assert f"CartPole-v1: 2 rounds, {2 * steps} moves" in capsys.readouterr().out
    assert main(["train", "--resume", "--out", out, "--rounds", "3", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "going on after round 2 of 3" in said
    assert f"3 rounds, {3 * steps} moves" in said
    assert main(["eval", out, "--episodes", "3"]) == 0
    assert "over 3 episodes" in capsys.readouterr().out
    found = json.loads((tmp_path / "run" / "eval.json").read_text())
    assert (len(found["returns"]), found["player"]) == (3, "network")


_REPLAY = {"algorithm": {"learning_starts": 8, "batch_size": 4, "capacity": 100}}
_SCREENS = {
    **_REPLAY,
    "env": {"id": "ALE/Breakout-v5", "n_workers": 0},
    "agent": {"hidden": [8]},
    "algorithm": {**_REPLAY["algorithm"], "capacity": 64},
}
REDUCED = {
    "ppo_lunarlander": ("box2d", {"collector": {"num_envs": 2, "moves": 8}}),
    "ppo_halfcheetah": ("mujoco", {"collector": {"num_envs": 2, "moves": 8}}),
    "ppo_hopper": ("mujoco", {"collector": {"num_envs": 2, "moves": 8}}),
    "ppo_atari": (
        "numpy",
        {"env": {"id": "ALE/Breakout-v5", "n_workers": 0}, "agent": {"hidden": [8]}},
    ),
    "recurrent_ppo_cartpole_no_velocity": ("numpy", {}),
    "recurrent_ppo_pendulum_no_velocity": ("numpy", {}),
    "pqn_cartpole": ("numpy", {}),
    "dqn_cartpole": ("numpy", _REPLAY),
    "r2d1_cartpole_no_velocity": (
        "numpy",
        {"algorithm": {**_REPLAY["algorithm"], "burn_in": 2, "length": 4}},
    ),
    "dqn_lunarlander": ("box2d", _REPLAY),
    "dqn_atari": ("numpy", _SCREENS),
    "rainbow_atari": ("numpy", _SCREENS),
    "muzero_atari": ("numpy", {**_SCREENS, "agent": {"hidden": [8], "representation": [8]}}),
    "sac_pendulum": ("numpy", _REPLAY),
    "td3_pendulum": ("numpy", _REPLAY),
    "ddpg_pendulum": ("numpy", _REPLAY),
    "tqc_pendulum": ("numpy", _REPLAY),
    "crossq_pendulum": ("numpy", _REPLAY),
    "sac_halfcheetah": ("mujoco", _REPLAY),
    "td3_halfcheetah": ("mujoco", _REPLAY),
    "mbpo_hopper": (
        "mujoco",
        {"algorithm": {**_REPLAY["algorithm"], "model_updates": 1, "rollouts": 20}},
    ),
    "pearl_halfcheetah_direction": ("mujoco", _REPLAY),
    "rl2_point_robot": ("numpy", {"env": {"n_workers": 0}}),
}


@pytest.mark.parametrize("preset", REDUCED)
def test_presets_run_at_reduced_size(preset, tmp_path):
    package, changed = REDUCED[preset]
    pytest.importorskip("gymnasium.envs.box2d" if package == "box2d" else package)
    less: dict[str, Any] = {
        "env": {"max_steps": 5},
        "algorithm": {} if "learning_starts" in changed.get("algorithm", {}) else {"epochs": 1},
        "collector": {"num_envs": 2, "moves": 8},
        "evaluation": {"every": 1, "episodes": 1},
        "rounds": 1,
        "checkpoint_every": 0,
        "threads": 1,
    }
    with Runner(compose([preset, less, changed]), tmp_path) as runner:
        runner.run()
    with Trained(tmp_path) as trained:
        assert len(trained.play(1)) == 1


def test_an_algorithm_is_named_on_the_command_line(tmp_path, capsys):
    out = tmp_path / "run"
    typed = ["--algorithm.name", "a2c", "--algorithm.gae_lambda", "0.9", "--agent.hidden", "8"]
    assert main(["train", "ppo_cartpole", "--out", str(out), *typed, *TYPED]) == 0
    capsys.readouterr()
    settings = json.loads((out / "config.json").read_text())
    assert (settings["algorithm"]["name"], settings["algorithm"]["gae_lambda"]) == ("a2c", 0.9)
    assert settings["agent"]["hidden"] == [8]
    assert main(["train", "cartpole", "--out", str(tmp_path / "no"), "--algorithm.name=ppo"]) == 2
    assert "'ppo' does not. Leave it out, or name another" in capsys.readouterr().err


def test_play_films_an_agent(tmp_path, capsys):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    out = tmp_path / "run"
    assert main(["train", "ppo_cartpole", "--out", str(out), *TYPED]) == 0
    film = out / "film.mp4"
    assert main(["play", str(out), "--no-show", "--video", str(film)]) == 0
    assert film.stat().st_size > 1000
    capsys.readouterr()


def test_the_preset_is_what_the_docs_train(tmp_path):
    with Runner(compose(["ppo_cartpole", {"rounds": 1}]), tmp_path) as runner:
        runner.run()
        assert isinstance(runner.algorithm, PPO)
        # 20 epochs of one minibatch: the schedule of the preset ends with the run.
        per_round = runner.algorithm.updates
    config = compose(["ppo_cartpole"])
    assert config.algorithm.config.learning_rate.over == per_round * config.rounds


# Envs whose states are not exact --------------------------------------------------------


class Unrepeatable(gym.Env):
    """Shows how many envs were ever stepped before, which no state holds."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}
    count = 0

    def __init__(self, length=7, render_mode=None):
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._shown(), {}

    def step(self, action):
        self.steps += 1
        type(self).count += 1
        return self._shown(), float(action), self.steps == self.length, False, {}

    def _shown(self):
        return np.array([self.steps, np.sin(type(self).count)])

    def render(self):
        return np.full((32, 32, 3), self.steps, np.uint8)


gym.register("Unrepeatable-v0", Unrepeatable)
INEXACT: dict[str, Any] = {
    "env": {"id": "Unrepeatable-v0", "kwargs": {"length": 9}},
    "agent": {"recurrent": "gru", "recurrent_size": 4, "shared_body": True},
    "algorithm": {"epochs": 1, "batch_size": 24, "minibatch": "env"},
}


def test_without_exact_states_a_resumed_run_begins_new_episodes_and_says_so(tmp_path):
    config = small(INEXACT)
    with Runner(config, tmp_path, callbacks=[Fails()]) as runner:
        assert "Unrepeatable-v0: its states are not exact" in runner.note
        assert "\n" not in runner.note
        with pytest.raises(RuntimeError, match="in the middle"):
            runner.run()
    saved = read_checkpoint(runner.newest_checkpoint)
    assert saved["collector"]["rows"]["envs"] is None
    with Runner(config, tmp_path, resume=True) as runner:
        assert runner.round == 4
        tree = []
        runner.sampler.collect(12)  # as the run would
        tree = runner.sampler.tree["obs"].to_ndarray()
        assert (tree[0, :, 0] == 0).all()
    with Runner(config, tmp_path, resume=True) as runner:
        runner.run()
    assert runner.round == 6
    with Runner(small(PPO_SMALL), tmp_path / "exact") as exact:
        assert exact.note == ""


def test_without_exact_states_agents_are_evaluated_all_the_same(tmp_path):
    moves = []
    with Runner(small(INEXACT), tmp_path) as runner:
        runner.run()
    assert "eval/return" in (tmp_path / "progress.csv").read_text()
    with Trained(tmp_path) as trained:
        episodes = trained.play(3, moves.append)
    assert [episode.length for episode in episodes] == [9, 9, 9]
    assert [move.episode for move in moves] == [0] * 9 + [1] * 9 + [2] * 9
    pytest.importorskip("imageio_ffmpeg")
    film = tmp_path / "film.mp4"
    assert main(["play", str(tmp_path), "--no-show", "--video", str(film)]) == 0
    assert film.stat().st_size > 500


def test_states_that_are_approximate_are_not_restored(tmp_path):
    pytest.importorskip("gymnasium.envs.box2d")
    changed = {
        "env": {"id": "LunarLander-v3", "kwargs": {"capture": "approximate"}, "max_steps": 20},
        "evaluation": {"every": 0},
        "rounds": 1,
    }
    with Runner(small(PPO_SMALL, changed), tmp_path) as runner:
        assert "LunarLander-v3: its states are not exact" in runner.note
        runner.run()
    assert read_checkpoint(runner.newest_checkpoint)["collector"]["rows"]["envs"] is None


def test_an_agent_is_judged_without_playing_episodes_again(tmp_path):
    pytest.importorskip("gymnasium.envs.box2d")
    env = {"env": {"id": "LunarLander-v3", "max_steps": 12, "n_workers": 0}}
    config = small(PPO_SMALL, env, {"rounds": 1, "evaluation": {"every": 0}})
    with Runner(config, tmp_path) as runner:
        runner.run()
    with Trained(tmp_path) as trained:
        ((part, _),) = trained.env.codec.described()[-1:]
        assert part.method == "replay"
        before = part.count.steps
        found = trained.play(3)
        assert part.count.steps == before
        lockstep = play(trained.env, trained.player, seed=1_000_000, max_steps=12, num_episodes=3)
        assert part.count.steps > 3 * 11 * 12 / 4
    for one, other in zip(found, lockstep, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.rewards, other.rewards)
