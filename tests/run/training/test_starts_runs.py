"""Runs whose agent's episodes begin from stored states."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext import make
from plangym_ext.errors import ForeignState, InvalidOption
from plangym_ext.planners import MCTS, demonstrated_states
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.checkpoints import read_checkpoint
from plangym_ext.run.training.runner import Runner


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    """The file of a demonstration in CartPole, in mid-episode."""
    path = tmp_path_factory.mktemp("starts") / "demonstration.npz"
    with make("CartPole-v1") as env:
        demonstrated_states(env, MCTS(8), seed=1, max_steps=30).save(path, env)
    return str(path)


def config(rounds, **starts):
    small = {
        "rounds": rounds,
        "collector": {"num_envs": 3, "moves": 24},
        "evaluation": {"every": 0},
        "checkpoint_every": 0,
        "starts": starts,
    }
    return compose(["ppo_cartpole", small])


KINDS = [
    {"kind": "backward", "share": 0.9, "options": {"window": 3, "episodes": 4}},
    {"kind": "unsure", "share": 0.5},
]


@pytest.mark.parametrize("starts", KINDS, ids=["backward", "unsure"])
def test_a_run_from_stored_states_resumes_bit_for_bit(starts, demonstration, tmp_path):
    with Runner(config(6, file=demonstration, **starts), tmp_path / "whole") as runner:
        runner.run()
        wanted = runner.sampler.starts.weights()
    for rounds in (3, 6):
        here = config(rounds, file=demonstration, **starts)
        with Runner(here, tmp_path / "resumed", resume=True) as runner:
            if rounds == 6:
                assert runner.round == 3
            runner.run()
            found = runner.sampler.starts.weights()
            saved = read_checkpoint(runner.newest_checkpoint)
    np.testing.assert_array_equal(found, wanted)
    assert "starts" in saved["collector"]
    logs = [(tmp_path / name / "progress.csv").read_bytes() for name in ("whole", "resumed")]
    assert logs[0] == logs[1]
    assert b"start" not in logs[0].splitlines()[0].split(b",")


def test_a_run_may_go_on_with_another_share(demonstration, tmp_path):
    begun = []
    for rounds, share in ((3, 1.0), (9, 0.0)):
        here = config(rounds, file=demonstration, share=share)
        with Runner(here, tmp_path / "run", resume=True) as runner:
            taken, taking = [], runner.sampler.collect

            def collect(*args, taken=taken, taking=taking, **options):
                taken.append(taking(*args, **options))
                return taken[-1]

            runner.sampler.collect = collect
            runner.run()
            assert runner.round == rounds
            begun.append(np.concatenate([one.episodes["start"] for one in taken]))
    assert (begun[0] >= 0).all()
    # Those that were being played go on.
    assert (begun[1] >= 0).sum() <= 3
    assert len(begun[1]) > 5


def test_what_cannot_be_begun_from_is_refused(demonstration, tmp_path):
    def refused(config, error, match):
        with pytest.raises(error, match=match):
            Runner(config, tmp_path / "run")

    with pytest.raises(InvalidOption, match=r"starts\.kind must be one of stored.*'backwards'"):
        config(1, file=demonstration, kind="backwards")
    wrong = config(1, file=demonstration, options={"windows": 3})
    refused(wrong, InvalidOption, r"starts\.options of 'stored': .*windows")
    other = compose([config_of("MountainCar-v0", demonstration)])
    refused(other, ForeignState, "CartPole")


def config_of(env_id, file):
    return {
        "env": {"id": env_id},
        "agent": {"name": "actor_critic"},
        "algorithm": {"name": "ppo"},
        "starts": {"file": file},
    }
