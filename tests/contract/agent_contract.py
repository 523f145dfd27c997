"""What holds of every agent: it plays what it has learned, wherever it plays."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from plangym_ext import make, make_vec
from plangym_ext.learn import (
    AgentPlanner,
    AlternatingSampler,
    EvaluationSampler,
    ForkingSampler,
    SerialSampler,
    WorkerSampler,
)
from plangym_ext.planners import play

ROWS, STEPS = 4, 5


def rows_of(rows):
    return make_vec("CartPole-v1", len(rows), autoreset_mode="same_step")


def in_workers():
    return make_vec("CartPole-v1", ROWS, backend="process", n_workers=2, autoreset_mode="same_step")


class AgentContract:
    """Inherit, write `agent` and `learn`, and the agent is tried in every place.

    An agent that cannot be sent is refused by `WorkerSampler`: say so by `refused`, a pattern of
    the message.
    """

    refused: str | None = None

    def agent(self):
        """Return an agent that plays CartPole."""
        raise NotImplementedError

    def learn(self, agent, action):
        """Have it play this action, 0 or 1, in all rows from now on; as a learner would do."""
        raise NotImplementedError

    def follow(self, sampler, agent, late=0):
        """Learn between fragments, and look at what was played; `late` fragments may be late."""
        learned, killed = [], False
        for version, action in enumerate((1, 0, 1, 1, 0), start=1):
            self.learn(agent, action)
            learned.append(action)
            if version == 4 and hasattr(sampler, "worker_pids"):
                os.kill(sampler.worker_pids[0], signal.SIGKILL)
                killed = True
            found = sampler.collect(version=version)
            at = max(0, len(learned) - 1 - late)
            assert np.unique(found.data["action"].to_ndarray()).tolist() == [learned[at]]
            assert found.version == at + 1
        return killed

    @pytest.mark.parametrize("kind", ["serial", "central", "alternating", "forking"])
    def test_in_this_process(self, kind):
        if kind in ("central", "alternating") and type(self).here_alone:
            pytest.skip("as serial")
        agent = self.agent()
        if kind == "forking":
            with (
                make("CartPole-v1") as env,
                ForkingSampler(rows_of(range(ROWS)), agent, STEPS, env, branches=2) as sampler,
            ):
                self.follow(sampler, agent)
            return
        made = {
            "serial": lambda: SerialSampler(rows_of(range(ROWS)), agent, STEPS),
            "central": lambda: SerialSampler(in_workers(), agent, STEPS),
            "alternating": lambda: AlternatingSampler(in_workers(), agent, STEPS),
        }
        with made[kind]() as sampler:
            self.follow(sampler, agent)

    #: Whether worker processes have only envs in them, so that one agent shows as much as all.
    here_alone = True

    def test_in_workers_one_of_which_is_replaced(self):
        agent = self.agent()
        if self.refused is not None:
            with pytest.raises(TypeError, match=self.refused):
                WorkerSampler(rows_of, agent, STEPS, ROWS, n_workers=2)
            return
        with WorkerSampler(rows_of, agent, STEPS, ROWS, n_workers=2) as sampler:
            assert self.follow(sampler, agent)

    #: Whether it is tried in workers that play ahead too, where it travels as in others.
    ahead_too = bool(os.environ.get("PYTEST_LONG"))

    def test_in_workers_that_play_ahead(self):
        if self.refused is not None:
            pytest.skip("it is refused as without ahead")
        if not type(self).ahead_too:
            pytest.skip("tox -e long")
        agent = self.agent()
        with WorkerSampler(rows_of, agent, STEPS, ROWS, n_workers=1, ahead=True) as sampler:
            assert self.follow(sampler, agent, late=1)

    def test_in_an_evaluation_and_as_a_planner(self):
        agent = self.agent()
        with (
            make("CartPole-v1") as env,
            EvaluationSampler(rows_of(range(2)), agent, 2) as evaluation,
        ):
            for action in (1, 0):
                self.learn(agent, action)
                episode = play(env, AgentPlanner(agent=agent), seed=0, max_steps=5)
                assert set(np.asarray(episode.actions).tolist()) == {action}
                assert evaluation.evaluate().episodes["length"].max() < 14
