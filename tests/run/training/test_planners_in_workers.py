"""Runs whose planner plays in workers, ahead, or in several learners: what they learn."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from training_runs import log, small, weights

from plangym_ext.errors import ForeignCheckpoint, IncompleteState, InvalidOption
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.checkpoints import check_not_former
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner

#: Games whose results do not hang on the last bits of what a network says.
ROLLOUTS = {
    "env": {"max_steps": 10},
    "planner": {"name": "shooting", "num_simulations": {"start": 2, "end": 6, "over": 9}},
    "algorithm": {"name": "histogram", "discount": 0.99, "batch_size": 16, "learning_starts": 16},
    "evaluation": {"every": 0},
}


class Kills(Callback):
    def on_episodes(self, runner, records):
        if runner.round == 3:
            os.kill(runner.sampler._workers[-1].process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_workers_play_what_one_process_plays_also_where_one_dies(tmp_path):
    with Runner(small(ROLLOUTS), tmp_path / "whole") as whole:
        whole.run()
    config = small(ROLLOUTS, {"collector": {"n_workers": 2}})
    with Runner(config, tmp_path / "killed", callbacks=[Kills()]) as killed:
        killed.run()
    assert weights(killed.network) == weights(whole.network)
    assert log(tmp_path / "killed") == log(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"mode": "async"}, {"learners": 2}], ids=["ahead", "learners"])
def test_a_planner_plays_ahead_and_in_several_learners(changed, tmp_path):
    found = []
    for name, stops in (("whole", [4]), ("resumed", [2, 4])):
        for rounds in stops:
            config = small(changed, {"rounds": rounds, "evaluation": {"every": 0}})
            with Runner(config, tmp_path / name, resume=True) as runner:
                runner.run()
        assert runner.algorithm.updates > 0
        found.append((weights(runner.network), log(tmp_path / name)))
    assert found[0] == found[1]


def test_an_env_without_exact_states_is_refused():
    import gymnasium as gym

    class Loose(gym.Env):
        """Draws from where no state looks."""

        observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return (
                np.frombuffer(os.urandom(4), np.uint32)[:1] / np.float32(2**32),
                0.0,
                False,
                False,
                {},
            )

    with pytest.raises(IncompleteState):
        Parts(small(), make_env=Loose).env()


def test_what_is_not_given_follows_from_the_algorithm():
    config = compose([{"algorithm": {"name": "value"}}])
    assert (config.agent.name, config.planner.name) == ("network", "mcts")
    assert compose([{}]).algorithm.name == "alphazero"
    with pytest.raises(InvalidOption, match=r"collector\.kind 'solutions' is for algorithms"):
        compose(["ppo_cartpole", {"collector": {"kind": "solutions"}}])


def test_checkpoints_of_former_settings_are_refused_by_name():
    with pytest.raises(ForeignCheckpoint, match="sections network, trainer of an earlier format"):
        check_not_former("a.pt", {"env": {}, "network": {}, "trainer": {}})
    check_not_former("a.pt", {"env": {}, "agent": {}, "algorithm": {}})
