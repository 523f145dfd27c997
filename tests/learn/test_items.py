"""Observations with a variable number of items: sampled without padding, encoded, learned from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from items_envs import Dearest, Mixed

from plangym_ext import make_vec
from plangym_ext.arrays import Array, JaggedArray
from plangym_ext.arrays.items import item_rows
from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidObservation, InvalidOption
from plangym_ext.learn import (
    PPO,
    ActorCriticAgent,
    AgentConfig,
    EvaluationSampler,
    PPOConfig,
    SerialSampler,
    WorkerSampler,
    make_agent_network,
    make_network,
)
from plangym_ext.learn.networks.items import Items
from plangym_ext.learn.sampling.noise import row_seeds
from plangym_ext.learn.tensor_file import load, save


def vec(env, count):
    return make_vec(env, count, autoreset_mode="same_step")


def agent_of(env, **config):
    spaces_of = env.observation_space, env.action_space
    network = make_agent_network(*spaces_of, AgentConfig(items_size=16, **config), seed=0)
    for part in network.parameters():  # heads begin at zero, and would say nothing
        torch.nn.init.normal_(part, 0.0, 0.5, generator=torch.Generator().manual_seed(part.numel()))
    return ActorCriticAgent(network)


def arrays_of(tree):
    """Return all arrays of a fragment, row T included; last observations only where some are."""
    found = {}
    ended = (tree["terminated"].to_ndarray() | tree["truncated"].to_ndarray()).nonzero()
    for name, leaf in tree.leaves():
        if name.startswith("final_obs"):
            found[name] = [np.asarray(leaf[t, row]).tolist() for t, row in zip(*ended, strict=True)]
            continue
        rows = leaf[0 : leaf.shape[0] + min(1, leaf.padding)] if leaf.n_batch_dims > 1 else leaf
        shown = rows.to_ndarray()
        found |= {f"{name} {k}": v for k, v in shown.items()} if isinstance(shown, dict) else {}
        if not isinstance(shown, dict):
            found[name] = np.array(shown)
    return found


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        if isinstance(one[name], list):
            assert one[name] == other[name], name
        else:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("items", ["sets", "attention"])
def test_ppo_reaches_the_best_return_without_padding(items):
    venv = vec(Dearest, 16)
    spaces_of = venv.single_observation_space, venv.single_action_space
    config = AgentConfig(items=items, items_size=32, hidden=(64,))
    network = make_agent_network(*spaces_of, config, seed=0)
    agent = ActorCriticAgent(network)
    learner = PPOConfig(learning_rate=2e-3, epochs=6, batch_size=128, discount=0.0)
    algorithm = PPO(network, learner, seed=0)
    with SerialSampler(venv, agent, 32) as sampler:
        for _ in range(18):
            collected = sampler.collect(version=algorithm.updates)
            algorithm.take(collected)
            algorithm.train()
        obs = collected.data["obs"]
        assert isinstance(obs, JaggedArray)
        # As many points as there were items, and not seven for each.
        assert len(obs.to_ndarray()["pos"]) == obs.lengths.sum() < 5 * obs.lengths.size
    with EvaluationSampler(vec(Dearest, 8), agent, 24, seed=5) as evaluation:
        assert evaluation.evaluate().episodes["return"].mean() > 7.4


def mixed_rows(rows):
    return vec(Mixed, len(rows))


def test_workers_play_the_same_bytes():
    found = []
    for sampler in (
        SerialSampler(vec(Mixed, 4), agent_of(Mixed), 6, seed=3),
        WorkerSampler(mixed_rows, agent_of(Mixed), 6, 4, seed=3, n_workers=2, ahead=True),
    ):
        with sampler:
            found.append([arrays_of(sampler.collect().data) for _ in range(3)])
    for one, *others in zip(*found, strict=True):
        for other in others:
            assert_equal(one, other)


def test_the_tree_holds_what_the_envs_showed():
    with SerialSampler(vec(Mixed, 3), agent_of(Mixed), 6, seed=3) as sampler:
        tree = sampler.collect().data
        obs, last = tree["obs"], tree["final_obs"]
        ended = tree["terminated"].to_ndarray() | tree["truncated"].to_ndarray()
        assert ended.any(axis=0).all()
        seeds = row_seeds(3, range(3), np.zeros(3, np.uint64))
        for row, seed in enumerate(seeds):
            env = Mixed()
            seen, _ = env.reset(seed=int(seed))
            for t in range(int(ended[:, row].argmax()) + 1):
                assert_shows(obs[t, row], seen)
                seen, *_ = env.step(int(np.asarray(tree["action"][t, row])))
            assert_shows(last[t, row], seen)
            assert np.asarray(obs["number"][t + 1, row]) == 0


def assert_shows(stored, seen):
    graph, (cloud,) = seen["graph"], seen["cloud"]
    pairs = [
        *((stored["graph"][name], getattr(graph, name)) for name in graph._fields),
        (stored["cloud"]["0"]["nodes"], cloud.nodes),
        (stored["words"], seen["words"]),
        (stored["number"], seen["number"]),
    ]
    for array, wanted in pairs:
        np.testing.assert_array_equal(np.asarray(array), wanted)


@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
def test_a_saved_sampler_goes_on_bit_for_bit(on_end, tmp_path):
    def made():
        options = {"on_end": on_end, "random_steps": 2, "max_steps": 3, "seed": 3}
        return SerialSampler(vec(Mixed, 3), agent_of(Mixed), 5, **options)

    with made() as sampler, made() as other:
        sampler.collect()
        save(tmp_path / "state", sampler.state_dict())
        other.load_state_dict(load(tmp_path / "state"))
        for _ in range(2):
            mine = arrays_of(sampler.collect().data)
            assert_equal(arrays_of(other.collect().data), mine)


# Networks ------------------------------------------------------------------------------


def shown_rows(count):
    """Return B observations as an agent is shown them, and the env that made them."""
    with SerialSampler(vec(Mixed, count), agent_of(Mixed), 1, seed=7) as sampler:
        sampler.collect()
        return sampler._actors[0].inputs(1)


@pytest.mark.parametrize("items", ["sets", "attention"])
def test_rows_do_not_depend_on_each_other(items):
    agent, inputs = agent_of(Mixed, items=items), shown_rows(21)
    agent.set_mode("eval")
    values = agent.value(inputs, None)
    assert len(np.unique(values)) == 21
    for rows in (np.arange(1), np.arange(5, 18), np.array([20, 3])):
        part = inputs._replace(
            obs=mapped(lambda leaf, r=rows: leaf[r], inputs.obs), first=inputs.first[rows]
        )
        np.testing.assert_array_equal(agent.value(part, None), values[rows])


def encoded(network, number, rows):
    """Return what an encoder makes of rows, and its layers."""
    part = network.body.parts[number]
    with torch.no_grad():
        return part(rows).numpy(), part


def test_sets_are_means_and_maxima_of_items():
    array = Array((3,), np.float32, kind="jagged", max_mean_num_elem=4, feature_shape=(4,))
    points = np.random.default_rng(0).random((3, 4)).astype(np.float32)
    array[...] = [points, points[::-1][:2], np.zeros((0, 4))]
    network = agent_of(Dearest).network
    found, part = encoded(network, 0, Items.of(array))
    with torch.no_grad():
        each = part.items(torch.from_numpy(points)).numpy()
    for row, x in zip(found, (each, each[1:], None), strict=True):
        wanted = np.zeros(33) if x is None else [*x.mean(0), *x.max(0), np.log1p(len(x))]
        np.testing.assert_allclose(row, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("items", ["sets", "attention"])
def test_nodes_are_told_along_edges(items):
    # Against a loop over graphs, nodes and edges.
    obs = shown_rows(9).obs["graph"]
    network = agent_of(Mixed, items=items).network
    number = [leaf.path for leaf in network.body.layout.leaves].index(("graph",))
    found, part = encoded(network, number, mapped(Items.of, obs))
    told = part.exchange
    for row, got in enumerate(found):
        nodes, edges, links = (
            torch.from_numpy(np.asarray(obs[name][row]))
            for name in ("nodes", "edges", "edge_links")
        )
        with torch.no_grad():
            x = part.items(nodes)
            out = []
            for node in range(len(x)):
                known = (links[:, 1] == node).nonzero()[:, 0].tolist()
                total = torch.zeros(16)
                if known:
                    one_hot = torch.eye(3)[edges[known]]
                    said = torch.cat([x[links[known, 0]], one_hot], dim=1)
                    weight = torch.full((len(known), 4), 1 / len(known))
                    if items == "attention":
                        score = (told.key(said) * told.query(x[node])).view(-1, 4, 4).sum(2)
                        weight = (score / 4**0.5).softmax(0)
                    message = told.message(said).view(-1, 4, 4)
                    total = (message * weight[..., None]).sum(0).flatten()
                out.append(x[node] + told.activation(told.joined(torch.cat([x[node], total]))))
            x = torch.stack(out)
            wanted = torch.cat([x.mean(0), x.amax(0), torch.tensor([len(x)]).log1p()])
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_attention_tells_each_item_of_all_of_its_row():
    agent = agent_of(Dearest, items="attention")
    array = Array((2,), np.float32, kind="jagged", max_mean_num_elem=9, feature_shape=(4,))
    points = np.random.default_rng(0).random((5, 4)).astype(np.float32)
    array[...] = [points, points[[3, 0, 4, 2, 1]]]
    (one, other), part = encoded(agent.network, 0, Items.of(array))
    np.testing.assert_allclose(one, other, rtol=1e-5)  # whatever their order is
    alone = Items.of(array)
    alone.length[:] = 1
    with torch.no_grad():
        apart = part(alone).numpy()
    assert not np.allclose(apart[0, :16], one[:16])


# Refusals ------------------------------------------------------------------------------


def test_what_has_no_items_of_one_shape_is_refused():
    space = spaces.Sequence(spaces.Dict(one=spaces.Discrete(3)))
    with pytest.raises(InvalidOption, match="Sequence and Graph"):
        make_agent_network(spaces.Text(4), spaces.Discrete(2), seed=0)
    with pytest.raises(InvalidOption, match="must be Box"):
        make_agent_network(space, spaces.Discrete(2), seed=0)
    with pytest.raises(InvalidOption, match="Sequence"):
        make_network(Mixed.observation_space, spaces.Discrete(2), seed=0)


@pytest.mark.parametrize("links", [[[0, 2]], [[-1, 0]], [[0, 1], [1, 0]]], ids=str)
def test_links_that_lead_out_of_their_graph_are_refused(links):
    space = Mixed.observation_space["graph"]
    graph = spaces.GraphInstance(np.zeros((2, 2), np.float32), np.zeros(1, int), np.array(links))
    with pytest.raises(InvalidObservation, match="a graph of 2 nodes and 1 edges"):
        item_rows(space, (graph,))
