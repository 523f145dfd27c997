"""A `WorkerSampler` that plays one fragment ahead: with which weights, and how it goes on."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from sampling_envs import Tally, assert_same, copied, oracle_rows, oracle_venv

from plangym_ext.errors import IncompleteState
from plangym_ext.learn.sampling.local import SerialSampler
from plangym_ext.learn.sampling.worker import WorkerSampler

STEPS, ROWS = 7, 3


class Weighted(Tally):
    """Tells its weights of each step."""

    def __init__(self):
        self.weights = np.zeros(2, np.float32)

    def step(self, inputs, carry):
        acted = super().step(inputs, carry)
        told = np.repeat(self.weights[None], len(inputs.first), axis=0)
        return acted._replace(info={"weights": told})

    def state_dict(self):
        return {"version": self.version, "weights": self.weights}

    def load_state_dict(self, state):
        self.version, self.weights = int(state["version"]), np.array(state["weights"])

    def learn(self, version):
        self.version, self.weights = version, np.full(2, version, np.float32)


def played(sampler, agent, versions):
    """Learn after each fragment; return the fragments."""
    found = []
    for version in versions:
        agent.learn(version)
        one = sampler.collect(version=version)
        found.append((copied(one.data), one.version, dict(one.episodes)))
    return found


def wanted(versions):
    """Return what a sampler in this process plays that is given the weights one fragment late."""
    agent = Weighted()
    with SerialSampler(oracle_venv(ROWS), agent, STEPS) as sampler:
        return played(sampler, agent, [versions[0], *versions[:-1]])


def assert_equal(found, others):
    for (tree, version, episodes), (other, theirs, more) in zip(found, others, strict=True):
        assert_same(tree, other)
        assert version == theirs
        for name, column in more.items():
            np.testing.assert_array_equal(episodes[name], column, err_msg=name)


def ahead(agent):
    return WorkerSampler(oracle_rows, agent, STEPS, ROWS, n_workers=2, ahead=True)


def test_a_fragment_is_played_while_the_one_before_is_learned_from():
    agent = Weighted()
    with ahead(agent) as sampler:
        found = played(sampler, agent, [1, 2, 3, 4])
        # While one was played, what the caller reads was not written to.
        assert_same(copied(sampler.tree), found[-1][0])
    assert [version for _, version, _ in found] == [1, 1, 2, 3]
    assert_equal(found, wanted([1, 2, 3, 4]))


def test_no_more_is_played_ahead_than_a_share_of_what_was_learned_from():
    agent = Weighted()
    with WorkerSampler(
        oracle_rows, agent, STEPS, ROWS, n_workers=1, ahead=True, lead=0.34
    ) as sampler:
        found = played(sampler, agent, [0, 1, 2, 3, 4, 5])
    # The third fragment since learning began is the first that is no more than a third.
    assert [version for _, version, _ in found] == [0, 1, 2, 2, 3, 4]


def test_a_worker_that_dies_plays_the_fragment_again_with_its_weights():
    agent = Weighted()
    with ahead(agent) as sampler:
        found = played(sampler, agent, [1, 2])
        os.kill(sampler.worker_pids[0], signal.SIGKILL)
        found += played(sampler, agent, [3, 4])
    assert_equal(found, wanted([1, 2, 3, 4]))


@pytest.mark.parametrize("again", [False, True])
def test_a_fragment_that_is_being_played_is_played_again_after_a_resume(again):
    agent = Weighted()
    with ahead(agent) as sampler:
        first = played(sampler, agent, [1, 2])
        state = sampler.state_dict()
        if again:  # the same sampler is brought back
            played(sampler, agent, [7])
            sampler.load_state_dict(state)
            rest = played(sampler, agent, [3, 4])
    if not again:
        agent = Weighted()
        with ahead(agent) as sampler:
            sampler.load_state_dict(state)
            rest = played(sampler, agent, [3, 4])
    assert_equal(first + rest, wanted([1, 2, 3, 4]))


@pytest.mark.parametrize("saved", [False, True], ids=["here", "resumed"])
def test_a_fragment_whose_collect_was_interrupted_is_played_again_with_its_weights(saved):
    agent = Weighted()
    with ahead(agent) as sampler, pytest.MonkeyPatch.context() as patch:
        found = played(sampler, agent, [1, 2])

        def interrupted(*_):
            raise KeyboardInterrupt

        patch.setattr(sampler, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            played(sampler, agent, [3])
        patch.undo()
        if saved:
            state = sampler.state_dict()
            agent = Weighted()
            with ahead(agent) as other:
                other.load_state_dict(state)
                found += played(other, agent, [3, 4])
        else:
            found += played(sampler, agent, [3, 4])
    assert_equal(found, wanted([1, 2, 3, 4]))


def test_what_cannot_be_played_again_is_not_saved():
    agent = Weighted()
    options = {"n_workers": 1, "ahead": True, "recover": False}
    with WorkerSampler(oracle_rows, agent, STEPS, ROWS, **options) as sampler:
        played(sampler, agent, [1])
        with pytest.raises(IncompleteState, match="recover=True"):
            sampler.state_dict()
