"""Minibatches, joined fragments and whole episodes, for training loops of one's own."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gpus import NO_GPU
from items_envs import Mixed

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import (
    PPO,
    ActorCriticAgent,
    AgentConfig,
    RandomAgent,
    SerialSampler,
    WholeEpisodes,
    joined,
    make_agent_network,
    minibatches,
    rollout_of,
)


def cartpole(count, seed=0, **options):
    venv = make_vec("CartPole-v1", count, autoreset_mode="same_step", backend="serial")
    spaces = venv.single_observation_space, venv.single_action_space
    config = AgentConfig(hidden=(8,), recurrent=options.pop("recurrent", "none"), recurrent_size=4)
    agent = ActorCriticAgent(make_agent_network(*spaces, config, seed=0))
    return SerialSampler(venv, agent, 12, seed=seed, **options)


def test_an_epoch_has_every_step_once_and_each_another_order():
    tree = {"a": torch.arange(15).view(5, 3), "b": (torch.arange(15).view(5, 3, 1) * 2,)}
    found = list(minibatches(tree, 4, epochs=3, seed=1))
    assert [len(part["a"]) for part in found] == [4, 4, 4, 3] * 3
    epochs = [torch.cat([part["a"] for part in found[k : k + 4]]).tolist() for k in (0, 4, 8)]
    assert all(sorted(epoch) == list(range(15)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert all(torch.equal(part["b"][0][:, 0], part["a"] * 2) for part in found)
    again = minibatches(tree, 4, epochs=3, seed=1)
    assert all(torch.equal(a["a"], b["a"]) for a, b in zip(found, again, strict=True))
    valid = torch.zeros(5, 3, dtype=torch.bool)
    valid[1:3, 2] = True
    (kept,) = minibatches(tree, 4, valid=valid)
    assert sorted(kept["a"].tolist()) == [5, 8]


def test_sequences_stay_whole_and_have_their_carry():
    with cartpole(5, recurrent="gru") as sampler:
        tree = sampler.collect().data
        steps = {name: tree[name].to_torch() for name in ("obs", "reward")}
        carry = {"carry": tree["carry"].to_torch(), "row": torch.arange(5)}
        seen = []
        for part, own in minibatches(steps, 24, by="env", per_env=carry):
            assert part["obs"].shape[0] == 12
            assert part["obs"].shape[1] <= 2
            assert torch.equal(part["obs"], steps["obs"][:, own["row"]])
            assert torch.equal(own["carry"]["h"], carry["carry"]["h"][own["row"]])
            seen += own["row"].tolist()
        assert sorted(seen) == list(range(5))


def test_rows_of_a_rollout_are_what_losses_take():
    with cartpole(3, on_end="wait") as sampler:
        agent = sampler._agent
        collected = sampler.collect()
        rollout = rollout_of(collected.data, agent.network)
        rows = rollout.rows_by_gae(rollout.value, 0.99, 0.95)
        parts = list(minibatches(rows, 8, epochs=2))
        assert sum(len(part.target) for part in parts) == 2 * rows.num_valid
        for part in parts:
            out, _ = agent.network(part.inputs)
            log_prob = agent.distribution.log_prob(out.policy_logits, part.action)
            torch.testing.assert_close(log_prob, part.log_prob)


def test_what_is_wrong_is_refused():
    tree = {"a": torch.zeros(2, 2)}
    for options in (
        {"batch_size": 0},
        {"batch_size": 1, "epochs": 0},
        {"batch_size": 1, "by": "x"},
        {"batch_size": 1, "by": "env", "valid": np.ones((2, 2), bool)},
        {"batch_size": 1, "per_env": {"carry": torch.zeros(2)}},
    ):
        with pytest.raises(InvalidOption, match="minibatches"):
            list(minibatches(tree, **options))
    with pytest.raises(InvalidOption, match="joined: expected at least one"):
        joined([])


def test_arrays_without_a_step_that_counts_and_with_a_gap():
    tree = {"a": np.arange(4).reshape(2, 2), "none": None}
    valid = np.zeros((2, 2), bool)
    assert list(minibatches(tree, 2, valid=valid)) == []
    valid[1] = True
    (part,) = minibatches(tree, 2, valid=valid)
    assert sorted(part["a"].tolist()) == [2, 3]
    assert part["none"] is None


# Several fragments ---------------------------------------------------------------------


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_joined_fragments_are_those_of_one_sampler(recurrent):
    # The rows of two samplers that are numbered on are those of one.
    with (
        cartpole(5, recurrent=recurrent) as whole,
        cartpole(2, recurrent=recurrent) as one,
        cartpole(3, recurrent=recurrent, first_row=2) as other,
    ):
        for _ in range(3):
            wanted, found = whole.collect(), joined([one.collect(), other.collect()])
        wanted_leaves, found_leaves = wanted.data.leaves(), found.data.leaves()
        for (name, a), (same, b) in zip(wanted_leaves, found_leaves, strict=True):
            assert name == same
            np.testing.assert_array_equal(a.to_ndarray(), b.to_ndarray(), err_msg=name)
        np.testing.assert_array_equal(wanted.data["obs"][12], found.data["obs"][12])
        for name, column in wanted.episodes.items():
            np.testing.assert_array_equal(column, found.episodes[name], err_msg=name)
        assert found.cost.model_steps == found.steps == wanted.steps
        if recurrent == "none":
            before = copy.deepcopy(one._agent.network)
            algorithm = PPO(one._agent.network)
            algorithm.take(found)
            algorithm.train()
            pairs = zip(before.parameters(), one._agent.network.parameters(), strict=True)
            assert any(not torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("device", ["cpu", "meta", pytest.param("cuda", marks=NO_GPU)])
def test_pinned_copies_of_several_fragments(device, monkeypatch):
    pinned = []
    if device == "meta":
        # No memory is page-locked without a GPU: which tensors would be is all that this shows.
        told = lambda tensor: pinned.append(tensor.data_ptr()) or tensor  # noqa: E731
        monkeypatch.setattr(torch.Tensor, "pin_memory", told)
    with cartpole(2) as one, cartpole(3, first_row=2) as other:
        tree = joined([one.collect(), other.collect()]).data
        moved = tree.to(device, pinned=True, non_blocking=True)
        if device == "cuda":
            torch.cuda.synchronize()
        for name in ("obs", "action", "reward"):
            leaf = tree[name].to_torch()
            assert (moved[name].device.type, moved[name].shape) == (device, leaf.shape)
            assert device == "meta" or torch.equal(moved[name].cpu(), leaf)
            assert (leaf.data_ptr() in pinned) == (device == "meta")


# Whole episodes ------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", Mixed], ids=str)
def test_whole_episodes_of_any_agent_are_arrays(env):
    venv = make_vec(env, 3, autoreset_mode="same_step", backend="serial")
    spaces = venv.single_observation_space, venv.single_action_space
    episodes, ends, rewards = WholeEpisodes(*spaces), 0, 0.0
    with SerialSampler(venv, RandomAgent(spaces[1]), 11) as sampler:
        found = []
        for _ in range(6):
            collected = sampler.collect()
            ends += len(collected.episodes["return"])
            rewards += collected.episodes["return"].sum()
            found += episodes.take(collected)
    assert len(found) == ends > 3
    assert sum(one.rewards.sum() for one in found) == rewards
    for one in found:
        assert len(one.actions) == one.length
        assert np.isnan(one.root_values).all()
        if env is Mixed:
            numbers = one.observations["number"][:, 0]
            graph = one.observations["graph"]
            assert [len(g) for g in graph["edges"]] == [len(g) for g in graph["edge_links"]]
            assert all(g.shape[1:] == (2,) for g in graph["nodes"])
            np.testing.assert_array_equal(numbers, np.arange(one.length + 1))
        else:
            assert one.observations.shape == (one.length + 1, 4)
            assert (np.abs(one.observations[-1, [0, 2]]) > [2.4, 0.2094]).any()
            assert one.terminated
