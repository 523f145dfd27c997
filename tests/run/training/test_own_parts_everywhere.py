"""Parts of one's own in all places of a run: what they have learned is what goes on there."""

from __future__ import annotations

import numpy as np
import pytest
from contract import own_parts
from contract.own_parts import OWN, PLAYED, dqn, ppo, searched
from gymnasium.spaces import Box, Discrete
from torch import nn
from training_runs import log, weights

from plangym_ext.errors import DamagedCheckpoint, WrongKind
from plangym_ext.learn import AgentConfig, make_agent_network
from plangym_ext.learn.engines.compiled.dense_network import has_dense_layers
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.checkpoints import read_checkpoint
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow

#: Name -> settings, and what `Runner` is given besides.
CASES = {
    "serial": (ppo(), {}),
    "learners": (ppo(learners=2), {}),
    "replay": (dqn(), {}),
    "asynchronous": (dqn(mode="async", collector={"n_workers": 2}), {}),
    "body": (["ppo_cartpole", PLAYED], {"make_network": own_parts.with_own_body}),
    "body of learners": (
        ["ppo_cartpole", PLAYED, {"learners": 2}],
        {"make_network": own_parts.with_own_body},
    ),
    "search": (searched(), {}),
    "search in workers": (searched(collector={"n_workers": 2}), {}),
}


def told(runner):
    """Return what the parts of a run say that they have learned."""
    parts = [runner.algorithm, runner.agent]
    parts += [getattr(runner.algorithm, "replay", None)]
    found = [part.told() for part in parts if hasattr(part, "told")]
    return [*found, *np.ravel(getattr(runner.agent, "bonus", 0.0))]


def ran(settings, rounds, folder, **options):
    with Runner(compose([*settings, {"rounds": rounds}]), folder, show=False, **options) as runner:
        runner.run()
        return weights(runner.network), told(runner), log(folder)


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_goes_on_is_the_one_that_was_not_interrupted(case, tmp_path):
    settings, options = CASES[case]
    whole = ran(settings, 4, tmp_path / "whole", **options)
    first = ran(settings, 2, tmp_path / "run", **options)
    assert first[1:] != whole[1:]  # it went on to learn
    assert ran(settings, 4, tmp_path / "run", resume=True, **options) == whole


def test_what_an_agent_of_one_s_own_has_learned_is_what_is_evaluated(tmp_path):
    every = {"checkpoint_every": 2, "weights_every": 1}
    with Runner(compose([*ppo(**every), {"rounds": 3}]), tmp_path, show=False) as runner:
        runner.run()
        bonus = runner.agent.bonus.copy()
        wanted = runner.evaluation.episodes()
    newest = sorted((tmp_path / "weights").iterdir())[-1]
    for file in (tmp_path, newest):
        with Trained(file) as trained:
            assert trained.player.agent.bonus == bonus != 0
            found = trained.play(len(wanted))
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one.actions, other.actions)


def test_what_no_checkpoint_can_hold_is_refused_in_the_first_round(tmp_path):
    settings = ["ppo_cartpole", PLAYED, {"algorithm": {"name": f"{OWN}:Unreadable"}}]
    said = r"algorithm.words is of builtins.list_iterator, has changed.*state_dict"
    with (
        Runner(compose([*settings, {"rounds": 9, "checkpoint_every": 0}]), tmp_path) as runner,
        pytest.raises(WrongKind, match=said),
    ):
        runner.run()
    assert runner.round == 1


def test_a_callback_goes_on_counting(tmp_path):
    settings = ["ppo_cartpole", PLAYED]
    callbacks = [own_parts.Counts(9), own_parts.Counts(4)]
    ran(settings, 3, tmp_path, callbacks=callbacks)
    later = [own_parts.Counts(9), own_parts.Counts(4)]
    config = compose([*settings, {"rounds": 9}])
    with Runner(config, tmp_path, show=False, resume=True, callbacks=later) as runner:
        runner.run()
        assert [one.count for one in later] == [4, 4]
        assert (runner.round, runner.stopped) == (4, "counted")


def test_parts_of_a_run_are_the_same_in_one_process_and_in_workers(tmp_path):
    here = ran(searched(), 4, tmp_path / "here")
    there = ran(searched(collector={"n_workers": 2}), 4, tmp_path / "there")
    assert here[1] == there[1]


@pytest.mark.parametrize("name", ["__array_interface__", "step", "told"])
def test_a_file_changes_no_attribute_that_others_look_up(name, tmp_path):
    from plangym_ext.learn import tensor_file

    with Runner(compose([*ppo(), {"rounds": 2}]), tmp_path, show=False) as runner:
        runner.run()
        path = runner.newest_checkpoint
    saved = read_checkpoint(path)
    for part in ("agent", "algorithm"):
        forged = {**saved, "own_state": {part: {name: ["value", 1]}}}
        tensor_file.save(path, forged)
        if part == "agent" and name != "told":  # which agents have not
            with pytest.raises(DamagedCheckpoint, match="cannot load its saved attributes"):
                Trained(tmp_path)
        if part == "algorithm" and name != "step":
            with pytest.raises(DamagedCheckpoint, match="no attribute"):
                Runner(compose([*ppo(), {"rounds": 3}]), tmp_path, resume=True)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def network_with(change):
    network = make_agent_network(Box(-1, 1, (3,)), Discrete(2), AgentConfig(), seed=0)
    change(network)
    return network


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.body, "dense", own_parts.OwnBody(net.body.dense)),
        lambda net: net.body.dense.__setitem__(0, Doubled(3, 64)),
        lambda net: net.body.dense.append(own_parts.OwnBody(nn.Identity())),
        lambda net: net.heads.register_forward_hook(lambda *_: None),
    ],
)
def test_code_of_one_s_own_in_a_network_is_not_compiled_away(change):
    assert has_dense_layers(network_with(lambda _: None))
    assert not has_dense_layers(network_with(change))
