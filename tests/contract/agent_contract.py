"""What holds of every agent, in our samplers and with agents that cannot be sent."""

from __future__ import annotations

import os

import pytest

from plangym_ext import make, make_vec, testing
from plangym_ext.learn import AlternatingSampler, ForkingSampler, SerialSampler, WorkerSampler

ROWS, STEPS = testing.AgentContract.rows, testing.AgentContract.steps
rows_of = testing.AgentContract.rows_of


def in_workers():
    return make_vec("CartPole-v1", ROWS, backend="process", n_workers=2, autoreset_mode="same_step")


class AgentContract(testing.AgentContract):
    """An agent that cannot be sent is refused by `WorkerSampler`: say so by `refused`, a pattern of
    the message.
    """

    refused: str | None = None

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
        if self.refused is not None:
            with pytest.raises(TypeError, match=self.refused):
                WorkerSampler(rows_of, self.agent(), STEPS, ROWS, n_workers=2)
            return
        super().test_in_workers_one_of_which_is_replaced()

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
