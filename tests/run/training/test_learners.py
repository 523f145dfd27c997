"""Runs that learn in several processes: what they learn, how they end, and how they go on."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from training_runs import log, weights

from plangym_ext.errors import DamagedCheckpoint, InvalidOption, LearnerLost
from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm
from plangym_ext.learn.group import ALONE, LearnerGroup, learner_seed
from plangym_ext.learn.transforms.moments import moments_of
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.checkpoints import Checkpoints, read_checkpoint
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[2] / "benchmarks"
LONG = bool(os.environ.get("PYTEST_LONG"))
long = pytest.mark.skipif(not LONG, reason="starts processes: tox -e long")

SMALL: dict[str, Any] = {
    "learners": 2,
    "rounds": 4,
    "checkpoint_every": 2,
    "collector": {"num_envs": 4, "moves": 12},
    "evaluation": {"every": 2, "episodes": 1},
}
PPO = {
    "agent": {"hidden": [8], "normalize_obs": True},
    # Three minibatches of each learner in an epoch, and a round that is cut short.
    "algorithm": {"epochs": 2, "batch_size": 16, "normalize_reward": True, "target_kl": 3e-5},
}
SAC = {
    "agent": {"hidden": [8], "normalize_obs": True},
    "algorithm": {"critic_hidden": [16], "learning_starts": 60, "batch_size": 16},
    "collector": {"num_envs": 2, "moves": 12},
}


@pytest.fixture(scope="module")
def reference():
    sys.path.insert(0, str(FOLDER))
    try:
        from many_learners import reference

        return reference
    finally:
        sys.path.remove(str(FOLDER))


def small(preset: str, *sources: Any) -> RunConfig:
    return compose([preset, SMALL, *sources])


class Kills(Callback):
    """Kills learner 1 in the middle of a round."""

    def on_episodes(self, runner, records):
        if runner.round == 3:
            os.kill(runner.sampler.worker_pids[0], signal.SIGKILL)


class Interrupts(Callback):
    """Presses Ctrl-C after some rounds."""

    def on_round(self, runner, values):
        if runner.round == 3:
            os.kill(os.getpid(), signal.SIGINT)


def broken_run(config: RunConfig, folder: Path) -> None:
    """Have a learner die in round 3, of which nothing is left."""
    with (
        Runner(config, folder, callbacks=[Kills()]) as runner,
        pytest.raises(LearnerLost, match=r"learner 1 of 2: WorkerDied: .*SIGKILL.*--resume"),
    ):
        runner.run()


def test_two_learners_are_one_with_twice_the_batch_also_after_a_death(tmp_path, reference):
    config = small("ppo_cartpole", PPO)
    broken_run(config, tmp_path)
    with Runner(config, tmp_path, resume=True) as runner:
        assert runner.round == 2
        runner.run()
    assert runner.steps == 2 * 4 * 4 * 12
    alone = reference.Reference(config)
    alone.run()
    alone.close()
    assert 4 < alone.algorithm.updates == runner.algorithm.updates < 4 * 2 * 3
    assert reference.difference(runner.network, alone.algorithm.network) < 1e-5
    rounds = [path.name for path in Checkpoints(tmp_path / "learners" / "1").paths()]
    assert rounds == ["checkpoint-00000002.pt", "checkpoint-00000004.pt"]
    with pytest.raises(DamagedCheckpoint, match=r"the file of one of several learners"):
        Trained(tmp_path / "learners" / "1")
    assert not torch.distributed.is_initialized()


@long
def test_two_learners_from_replays_are_one_with_twice_the_batch(tmp_path, reference):
    config = small("sac_pendulum", SAC)
    with Runner(config, tmp_path) as runner:
        runner.run()
    alone = reference.Reference(config)
    alone.run()
    alone.close()
    assert alone.algorithm.updates == runner.algorithm.updates == 4 * 2 * 2 * 12 - 60
    assert reference.difference(runner.network, alone.algorithm.network) < 1e-5
    mine, theirs = alone.algorithm.modules, runner.algorithm.modules
    assert all(reference.difference(mine[name], theirs[name]) < 1e-5 for name in mine)


@long
@pytest.mark.parametrize(("preset", "changed"), [("ppo_cartpole", PPO), ("sac_pendulum", SAC)])
def test_a_run_whose_learner_died_goes_on_bit_for_bit(tmp_path, preset, changed):
    config = small(preset, changed)
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    broken_run(config, tmp_path / "broken")
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")


@long
def test_ctrl_c_ends_the_round_of_all_learners(tmp_path):
    config = small("ppo_cartpole", PPO)
    with (
        Runner(config, tmp_path, callbacks=[Interrupts()]) as runner,
        pytest.raises(KeyboardInterrupt),
    ):
        runner.run()
    assert read_checkpoint(runner.newest_checkpoint)["round"] == 3
    with Runner(config, tmp_path, resume=True) as runner:
        assert runner.round == 3
        runner.run()
    with pytest.raises(Exception, match=r"learners: 2 there, 3 here"):
        Runner(small("ppo_cartpole", PPO, {"learners": 3}), tmp_path, resume=True)


class Fails(gym.Env):
    """Fails once a file is there, in learner 1 or in learner 0."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, file, fails):
        self.file, self.fails = file, fails

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.fails and os.path.exists(self.file):
            raise RuntimeError("the simulator broke")
        return np.zeros(1, np.float32), float(action), False, self.steps == 20, {}


class Breaks(Callback):
    """Makes the file after two rounds."""

    def __init__(self, file):
        self.file = file

    def on_round(self, runner, values):
        if runner.round == 2:
            self.file.touch()


@long
@pytest.mark.parametrize("in_learner", [True, False])
def test_an_env_that_fails_ends_all_learners(tmp_path, in_learner):
    here, file = os.getpid(), tmp_path / "broken"

    def make_env():
        return Fails(str(file), (os.getpid() != here) == in_learner)

    said = "learner 1 of 2: .*the simulator broke" if in_learner else "the simulator broke"
    config = small("ppo_cartpole", PPO, {"env": {"n_workers": 0}, "evaluation": {"every": 0}})
    with (
        Runner(config, tmp_path / "run", make_env=make_env, callbacks=[Breaks(file)]) as runner,
        pytest.raises(LearnerLost if in_learner else Exception, match=said),
    ):
        runner.run()
    assert runner.round == 2


class Diverges(AgentAlgorithm):
    """Learns nothing, and has no `join`."""

    config_class = type(compose(["ppo_cartpole"]).algorithm.config)

    def take(self, collected):
        pass

    def train(self, progress=None):
        return {}

    def state_dict(self):
        return {"trainer": {"network": self.network.state_dict()}}

    def load_state_dict(self, state):
        pass


def test_what_does_not_learn_together_is_refused():
    with pytest.raises(InvalidOption, match=r"learners must be an integer >= 1"):
        compose(["ppo_cartpole", {"learners": 0}])
    with pytest.raises(InvalidOption, match=r"Diverges: it does not learn in several processes"):
        Diverges(torch.nn.Linear(1, 1)).join(ALONE)


class Keeps(LearnerGroup):
    """Two learners, one after the other: what the first has is kept for the second."""

    rank, size = 0, 2

    def __init__(self):
        self.kept = None

    def rows(self, mine):
        first, self.kept = self.kept, mine
        return np.stack([mine if first is None else first, mine])

    average = share = gathered = NotImplemented


def test_moments_of_learners_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    rows = [[rng.normal(3, 2, (5, n, *shape)) for shape in ((), (3, 2))] for n in (2, 4)]
    group = Keeps()
    group.merged([moments_of(one) for one in rows[0]])
    found = group.merged([moments_of(one) for one in rows[1]])
    for merged, first, second in zip(found, *rows, strict=True):
        whole = moments_of(np.concatenate([first, second], axis=1))
        assert merged.num_rows == whole.num_rows == 30
        np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-14)
        np.testing.assert_allclose(merged.squares, whole.squares, rtol=1e-13)


def test_learners_draw_apart_and_the_first_as_one_alone():
    assert learner_seed(7, 0) == 7
    assert len({learner_seed(7, rank) for rank in range(100)}) == 100
