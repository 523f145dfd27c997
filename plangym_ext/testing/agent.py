"""Test classes of agents and algorithms: equal play and learning wherever they run."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from plangym_ext import make, make_vec
from plangym_ext.learn import AgentPlanner, EvaluationSampler, SerialSampler, WorkerSampler
from plangym_ext.planners import play
from plangym_ext.run import Runner, compose


class AgentContract:
    """Tests of an agent in every place where one plays; write `agent` and `learn`.

    Attributes:
        env: id of the env that it plays, or a callable that makes it; Discrete actions.
        learned: actions that it learns to play, one after another.
        longest: steps of an episode in which one of them is played all the time.
        rows: B of the samplers.
        steps: T of a fragment.
    """

    env: Any = "CartPole-v1"
    learned: tuple[int, ...] = (1, 0, 1, 1, 0)
    longest = 13
    rows = 4
    steps = 5

    def agent(self) -> Any:
        """Return a new agent that plays `env`."""
        raise NotImplementedError

    def learn(self, agent: Any, action: int) -> None:
        """Have it play this action in all rows from now on, as a learner would do."""
        raise NotImplementedError

    @classmethod
    def rows_of(cls, rows: Sequence[int]) -> Any:
        """Return the vector env of some rows."""
        return make_vec(cls.env, len(rows), n_workers=0, autoreset_mode="same_step")

    def follow(self, sampler: Any, agent: Any, late: int = 0) -> bool:
        """Learn between fragments, and look at what was played; return whether a worker was killed.

        Args:
            sampler: of the agent.
            agent: learns.
            late: fragments by which what was learned may be late.
        """
        killed = False
        for version, action in enumerate(self.learned, start=1):
            self.learn(agent, action)
            if version == 4 and hasattr(sampler, "worker_pids"):
                os.kill(sampler.worker_pids[0], signal.SIGKILL)
                killed = True
            found = sampler.collect(version=version)
            at = max(0, version - 1 - late)
            assert np.unique(found.data["action"].to_ndarray()).tolist() == [self.learned[at]]
            assert found.version == at + 1
        return killed

    def test_in_this_process(self) -> None:
        agent = self.agent()
        with SerialSampler(self.rows_of(range(self.rows)), agent, self.steps) as sampler:
            self.follow(sampler, agent)

    def test_in_workers_one_of_which_is_replaced(self) -> None:
        agent = self.agent()
        sampler = WorkerSampler(self.rows_of, agent, self.steps, self.rows, n_workers=2)
        with sampler:
            assert self.follow(sampler, agent)

    def test_in_an_evaluation_and_as_a_planner(self) -> None:
        agent = self.agent()
        with (
            make(self.env) as env,
            EvaluationSampler(self.rows_of(range(2)), agent, 2) as evaluation,
        ):
            for action in self.learned[:2]:
                self.learn(agent, action)
                episode = play(env, AgentPlanner(agent=agent), seed=0, max_steps=5)
                assert set(np.asarray(episode.actions).tolist()) == {action}
                assert evaluation.evaluate().episodes["length"].max() <= self.longest


class AlgorithmContract:
    """Tests of an algorithm in short runs.

    Attributes:
        preset: which trains with it.
        settings: of the run, where they differ from the preset's: `algorithm.name` at least.
    """

    preset = "ppo_cartpole"
    settings: ClassVar[dict[str, Any]] = {}

    def runner(self, folder: Path, rounds: int, **options: Any) -> Runner:
        """Return a run of some rounds, without evaluations, that saves each."""
        short = {"rounds": rounds, "checkpoint_every": 1, "evaluation": {"every": 0}}
        config = compose([self.preset, {"collector": {"num_envs": 4}}, self.settings, short])
        return Runner(config, folder, show=False, **options)

    def test_it_learns_and_a_run_goes_on_bit_for_bit(self, tmp_path: Path) -> None:
        with self.runner(tmp_path / "whole", 3) as whole:
            before = _weights(whole)
            whole.run()
            after = _weights(whole)
        with self.runner(tmp_path / "parts", 2) as first:
            first.run()
        with self.runner(tmp_path / "parts", 3, resume=True) as rest:
            rest.run()
            resumed = _weights(rest)
        assert any((before[name] != value).any() for name, value in after.items())
        for name, value in after.items():
            np.testing.assert_array_equal(resumed[name], value, err_msg=name)


def _weights(runner: Runner) -> dict[str, Any]:
    state = runner.network.state_dict()
    return {name: value.numpy().copy() for name, value in state.items()}
