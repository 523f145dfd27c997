"""PEARL: posteriors by hand, gradients that reach what they should, contexts of one task each."""

from __future__ import annotations

import copy
import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces
from training_runs import log, weights

import plangym_ext
from plangym_ext.errors import ForeignNetwork, InvalidOption, InvalidSamples
from plangym_ext.learn import (
    PEARL,
    SAC,
    ContextAgent,
    ContextConfig,
    PEARLConfig,
    SerialSampler,
    WorkerSampler,
    make_agent_network,
    make_context_network,
)
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.meta.agent import divergence, posterior_of
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.run import Callback
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

SEEN = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTS = spaces.Box(-0.1, 0.1, (2,), np.float32)
CONFIG = PEARLConfig(
    critic_hidden=(16,), batch_size=8, tasks=3, context=12, learning_starts=40, updates_per_step=0.1
)


def network(seed=0, **more):
    config = ContextConfig(hidden=(16,), encoder_hidden=(16,), latent=4, **more)
    made = make_context_network(SEEN, ACTS, config, seed=seed)
    # Heads begin at 0: a policy that does not depend on z.
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        for parameter in made.policy.heads.parameters():
            parameter.normal_()
    return made


def trials(rows, **more):
    options = {"env": "plangym_ext/PointRobot-v0", "tasks": 6, **more}
    return plangym_ext.make_vec(
        "plangym_ext/Trials-v0", len(rows), autoreset_mode="same_step", n_workers=0, **options
    )


def filled(rounds=4, config=CONFIG, **more):
    """Return an algorithm that has taken some trials in, and its sampler."""
    net = network(**more)
    algorithm, agent = PEARL(net, config, seed=3), ContextAgent(net)
    sampler = SerialSampler(trials(range(4)), agent, 40, env_info=agent.env_info)
    for _ in range(rounds):
        algorithm.prepare(agent)
        algorithm.take(sampler.collect())
    return algorithm, sampler


# Posteriors -------------------------------------------------------------------


def test_the_posterior_is_the_product_of_the_factors():
    mean, variance = np.float32([[1.0, -2.0], [3.0, 0.5]]), np.float32([[0.5, 1.0], [2.0, 4.0]])
    precision = torch.from_numpy(1 / variance)
    weighted = precision * torch.from_numpy(mean)
    found = posterior_of(precision.sum(0), weighted.sum(0))
    # 1 / (2 + 1/2) = 0.4, 0.4 (2 * 1 + 3 / 2) = 1.4; 1 / (1 + 1/4) = 0.8, 0.8 (-2 + 0.5 / 4) = -1.5
    np.testing.assert_allclose(found[0], [1.4, -1.5], rtol=1e-6)
    np.testing.assert_allclose(found[1], [0.4, 0.8], rtol=1e-6)
    # On a grid: the product of the densities, with its sum brought to 1.
    grid = np.linspace(-12, 12, 200_001)
    for k in range(2):
        density = np.exp(-0.5 * ((grid[:, None] - mean[:, k]) ** 2 / variance[:, k]).sum(axis=1))
        density /= density.sum()
        center = (grid * density).sum()
        assert center == pytest.approx(float(found[0][k]), rel=1e-5)
        spread = ((grid - center) ** 2 * density).sum()
        assert spread == pytest.approx(float(found[1][k]), rel=1e-5)


def test_without_context_it_is_the_prior_from_which_it_does_not_diverge():
    mean, variance = posterior_of(torch.zeros(2, 3), torch.zeros(2, 3))
    assert mean.tolist() == [[0.0] * 3] * 2
    assert variance.tolist() == [[1.0] * 3] * 2
    assert divergence(mean, variance).tolist() == [0.0, 0.0]


def test_the_divergence_is_that_of_the_posterior_from_the_prior():
    generator = torch.Generator().manual_seed(0)
    mean, deviation = (torch.rand(5, 3, generator=generator) + 0.3 for _ in range(2))
    one, prior = torch.distributions.Normal(mean, deviation), torch.distributions.Normal(0.0, 1.0)
    wanted = torch.distributions.kl_divergence(one, prior).sum(dim=1)
    torch.testing.assert_close(divergence(mean, deviation**2), wanted)
    reverse = torch.distributions.kl_divergence(prior, one).sum(dim=1)
    assert not torch.allclose(wanted, reverse, rtol=0.1)


def test_the_encoder_is_shown_what_the_papers_code_shows_it():
    rng, shapes = np.random.default_rng(0), ((2,), (2,), (1,), (3,))
    parts = [torch.from_numpy(rng.normal(size=(5, *k)).astype(np.float32)) for k in ((3,), *shapes)]
    obs, action, _, reward, following = parts
    for next_obs, shown in ((False, ()), (True, (following,))):
        net = network(next_obs=next_obs)
        # `context = torch.cat([o, a, r, no])`, then means and softplus of the rest.
        rows = torch.cat([obs, action * 10, reward, *shown], dim=1)
        mean, raw = net.encoder(rows).chunk(2, dim=1)
        precision = 1 / torch.nn.functional.softplus(raw)
        found = net.factors(obs, action, reward[:, 0], *shown)
        torch.testing.assert_close(found, (precision, precision * mean))


def test_the_order_of_the_context_does_not_count():
    net, rng = network(), np.random.default_rng(0)
    parts = [
        torch.from_numpy(rng.normal(size=(2, 9, *k)).astype(np.float32)) for k in ((3,), (2,), ())
    ]
    order = rng.permutation(9)
    torch.testing.assert_close(net.posterior(*parts), net.posterior(*(p[:, order] for p in parts)))


# The agent --------------------------------------------------------------------


@pytest.mark.parametrize("next_obs", [False, True])
def test_the_agents_posterior_is_that_of_the_steps_of_its_trial(next_obs):
    net, rng = network(next_obs=next_obs), np.random.default_rng(1)
    agent, rows, noise = ContextAgent(net), 3, RowNoise(5, range(3))
    agent.version = 1
    carry, kept = agent.initial_carry(rows), []
    obs, action, reward = (np.zeros((rows, *k), np.float32) for k in ((3,), (2,), ()))
    for t in range(12):
        first = np.full(rows, t == 0)
        first[1] |= t == 7  # another trial
        if first[1] and t:
            begun = len(kept)
        seen = rng.normal(size=(rows, 3)).astype(np.float32)
        seen[:, -1] = t in (0, 5, 7)
        z = carry["z"]
        acted = agent.step(Inputs(seen, action, reward, first, noise), carry)
        carry, action = acted.carry, acted.action
        reward = rng.normal(size=rows).astype(np.float32)
        same = (carry["z"] == z).all(axis=1)
        assert same.tolist() == [t not in (0, 5, 7)] * rows
        kept.append((seen, action, reward))
        obs = seen
        noise.advance()
    assert (carry["obs"] == obs).all()
    for row in range(rows):
        pairs = [*pairwise(kept)][begun if row == 1 else 0 :]
        steps = [(*one, after[0]) for one, after in pairs if not (next_obs and after[0][row, -1])]
        fields = range(3 + next_obs)
        parts = [torch.from_numpy(np.stack([s[k][row] for s in steps])[None]) for k in fields]
        mean, variance = net.posterior(*parts)
        found = posterior_of(*(torch.from_numpy(carry[n][row]) for n in ("precision", "weighted")))
        torch.testing.assert_close(found[0], mean[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found[1], variance[0], rtol=1e-4, atol=1e-6)


def test_without_noise_z_is_the_mean_and_the_prior_is_standard_normal():
    agent = ContextAgent(network())
    agent.set_mode("eval")
    rows = 4000
    obs = np.tile(np.float32([0, 0, 1]), (rows, 1))
    zeros = np.zeros((rows, 2), np.float32), np.zeros(rows, np.float32), np.ones(rows, bool)
    acted = agent.step(Inputs(obs, *zeros), agent.initial_carry(rows))
    assert (acted.carry["z"] == 0).all()
    drawn = agent.step(Inputs(obs, *zeros, RowNoise(0, range(rows))), agent.initial_carry(rows))
    z = drawn.carry["z"]
    assert abs(z.mean()) < 0.05
    assert z.std() == pytest.approx(1.0, abs=0.05)


# Replays ----------------------------------------------------------------------


def _goals():
    return trials(range(1)).call("tasks")[0]


@pytest.mark.parametrize("next_obs", [False, True])
def test_steps_and_context_are_of_their_own_task_alone(next_obs):
    algorithm, sampler = filled(next_obs=next_obs)
    goals = _goals()
    for _ in range(20):
        samples = algorithm.replay.sample(3).samples
        assert len(set(samples["task"].tolist())) == 3
        for kind, count in (("steps", 8), ("context", 12)):
            part = samples[kind]
            place = part["obs"].reshape(3, count, 3)[..., :2] + part["action"].reshape(3, count, 2)
            away = np.linalg.norm(place - goals[samples["task"]][:, None], axis=2)
            np.testing.assert_allclose(part["reward"].reshape(3, count), -away, atol=1e-5)
        if next_obs:
            assert not samples["context"]["next_obs"][..., -1].any()
            after = samples["context"]["next_obs"][..., :2].reshape(place.shape)
            np.testing.assert_allclose(after, place, atol=1e-6)
        steps = samples["steps"]
        # What follows is of the same episode: never of the next one's reset.
        moved = steps["obs"][:, :2] + steps["action"]
        np.testing.assert_allclose(steps["next_obs"][:, :2], moved, atol=1e-6)
        assert (steps["discount"] == np.float32(0.99)).all()
    sampler.close()


def test_contexts_are_recent_and_of_first_episodes():
    net = network()
    algorithm = PEARL(net, dataclasses.replace(CONFIG, recent=20), seed=3)
    agent, first, later = ContextAgent(net), {}, set()
    sampler = SerialSampler(trials(range(4)), agent, 25, env_info=agent.env_info)
    for _ in range(12):
        collected = sampler.collect()
        algorithm.take(collected)
        tree = collected.data
        task, episode = (tree["env_info"][n].to_ndarray(copy=True) for n in ("task", "episode"))
        actions = tree["action"].to_ndarray(copy=True)
        for row, t in np.ndindex(task.T.shape):
            if episode[t, row] == 0:
                first.setdefault(int(task[t, row]), []).append(actions[t, row].tobytes())
            else:
                later.add(actions[t, row].tobytes())
    for _ in range(30):
        samples = algorithm.replay.sample(3).samples
        for number, actions in zip(samples["task"], samples["context"]["action"], strict=True):
            drawn = {action.tobytes() for action in actions}
            assert drawn <= set(first[number][-20:])
            assert not drawn & later
    sampler.close()


def test_contexts_are_consecutive_steps():
    # Single steps of many episodes tell more than the one that an agent has.
    algorithm, sampler = filled(8)
    for _ in range(20):
        context = algorithm.replay.sample(3).samples["context"]
        place, follows = context["obs"][..., :2], context["obs"][:, 1:, 2] == 0
        moved = place[:, :-1] + context["action"][:, :-1]
        np.testing.assert_allclose(place[:, 1:][follows], moved[follows], atol=1e-6)
        # Episodes have 20 steps, contexts 12: they are of two at most.
        assert ((~follows).sum(axis=1) <= 1).all()
    sampler.close()


@pytest.mark.parametrize("lost", ["steps", "recent", "tasks", "rng"])
@pytest.mark.parametrize("inner", ["buckets", "added", "rng", ""])
def test_a_state_of_a_replay_that_is_refused_changes_nothing(lost, inner):
    (one, first), (other, second) = filled(2), filled(4)
    with first, second:
        replay, state = one.replay, copy.deepcopy(other.replay.state_dict())
        inside = state[lost] if inner and isinstance(state[lost], dict) else state
        del inside[inner if inside is not state else lost]
        before = copy.deepcopy(replay.state_dict())
        with pytest.raises(InvalidSamples):
            replay.load_state_dict(state)
        np.testing.assert_equal(replay.state_dict(), before)
        # And it goes on as if nothing had been asked.
        again = filled(2)
        with again[1]:
            for name, part in again[0].replay.sample(3).samples["steps"].items():
                np.testing.assert_array_equal(part, replay.sample(3).samples["steps"][name])
                break


def test_tasks_of_which_there_are_no_steps_are_refused():
    replay, sampler = filled(2)
    with sampler:
        state = replay.replay.state_dict()
        for tasks in ([*state["tasks"], 10**6], state["tasks"][:0], state["tasks"][::-1]):
            with pytest.raises(InvalidSamples, match="tasks must be those of its steps"):
                replay.replay.load_state_dict({**state, "tasks": np.array(tasks)})


def test_fragments_without_tasks_are_refused():
    net = network()
    venv = trials(range(2))
    sampler = SerialSampler(venv, ContextAgent(net), 4)
    with pytest.raises(InvalidSamples, match="infos task, episode, over"):
        PEARL(net, CONFIG).take(sampler.collect())
    sampler.close()


# Gradients --------------------------------------------------------------------


class _Changes:
    """Which numbers of a network have changed since."""

    def __init__(self, module):
        self.module = module
        self.before = [p.detach().clone() for p in module.parameters()]

    @property
    def any(self):
        pairs = zip(self.before, self.module.parameters(), strict=True)
        return not all(torch.equal(one, two) for one, two in pairs)


def _updated(monkeypatch, **changes):
    """Make an update; return by step of an optimiser what it has changed, and the algorithm."""
    algorithm, sampler = filled(config=dataclasses.replace(CONFIG, **changes))
    sampler.close()
    found = {}
    step = PEARL._descend

    def descend(self, name, *args, **kwargs):
        parts = {"encoder": self.network.encoder, "policy": self.network.policy}
        parts["critics"] = self.modules["critics"]
        changed = {key: _Changes(part) for key, part in parts.items()}
        gradient = [g.clone() for g in self.optimizers[name]._gradients]
        norm = step(self, name, *args, **kwargs)
        found[name] = {key for key, part in changed.items() if part.any}, gradient
        return norm

    monkeypatch.setattr(PEARL, "_descend", descend)
    algorithm._owed = algorithm._owed * 0 + 1
    logged = algorithm.train()
    return found, algorithm, logged


def test_an_encoder_that_is_shown_next_observations_learns():
    algorithm, sampler = filled(next_obs=True)
    sampler.close()
    before = _Changes(algorithm.network.encoder)
    algorithm._owed = algorithm._owed * 0 + 1
    assert np.isfinite(list(algorithm.train().values())).all()
    assert before.any


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_the_encoder_learns_of_the_critics_and_not_of_the_policy(monkeypatch, weight):
    found, _, logged = _updated(monkeypatch, divergence_weight=weight)
    # Without the divergence, too: the critics' gradient itself reaches the encoder.
    assert found["critics"][0] == {"critics", "encoder"}
    assert found["policy"][0] == {"policy"}
    assert set(found) == {"critics", "policy"}
    assert np.isfinite(list(logged.values())).all()


def test_the_critics_gradient_is_that_of_the_whole_loss(monkeypatch):
    seen = {}
    update = PEARL._update

    def kept(self, steps):
        seen.update(steps=steps, noise=torch.random.get_rng_state())
        seen["weights"] = {k: v.clone() for k, v in self.network.state_dict().items()}
        seen["critics"] = {k: v.clone() for k, v in self.modules["critics"].state_dict().items()}
        return update(self, steps)

    target = PEARL._target

    def told(self, steps):
        seen["target"] = target(self, steps)
        return seen["target"]

    monkeypatch.setattr(PEARL, "_update", kept)
    monkeypatch.setattr(PEARL, "_target", told)
    found, algorithm, _ = _updated(monkeypatch)
    # The loss once more, by autograd alone.
    net, critics = algorithm.network, algorithm.modules["critics"]
    net.load_state_dict(seen["weights"])
    critics.load_state_dict(seen["critics"])
    one, context = seen["steps"].steps, seen["steps"].context
    torch.random.set_rng_state(seen["noise"])
    mean, variance = net.posterior(*context)
    z = mean + variance.sqrt() * torch.randn(mean.shape)
    q = critics(torch.cat([one.obs, z.repeat_interleave(8, dim=0)], dim=1), one.action)
    loss = 0.5 * ((q - seen["target"]) ** 2).mean(dim=1).sum()
    prior = torch.distributions.Normal(0.0, 1.0)
    posterior = torch.distributions.Normal(mean, variance.sqrt())
    apart = torch.distributions.kl_divergence(posterior, prior).sum(dim=1).mean()
    parameters = [*critics.parameters(), *net.encoder.parameters()]
    whole = torch.autograd.grad(loss + CONFIG.divergence_weight * apart, parameters)
    torch.testing.assert_close(
        torch.cat(found["critics"][1]),
        torch.cat([g.flatten() for g in whole]),
        rtol=1e-4,
        atol=1e-6,
    )


# Runs -------------------------------------------------------------------------


def test_workers_play_as_this_process_does():
    found = []
    for kind in ("serial", "workers"):
        net = network()
        agent = ContextAgent(net)
        agent.version = 1
        if kind == "serial":
            sampler = SerialSampler(trials(range(4)), agent, 25, env_info=agent.env_info)
        else:
            sampler = WorkerSampler(
                trials, agent, 25, 4, n_workers=2, threads=1, env_info=agent.env_info
            )
        parts = [sampler.collect().data for _ in range(2)]
        names = ("obs", "action", "reward", "truncated")
        found.append([parts[-1][n].to_ndarray(copy=True).tobytes() for n in names])
        found[-1].append(parts[-1]["env_info"]["task"].to_ndarray(copy=True).tobytes())
        sampler.close()
    assert found[0] == found[1]


SMALL = {
    "rounds": 6,
    "checkpoint_every": 2,
    "agent": {"hidden": [16], "encoder_hidden": [16]},
    "collector": {"num_envs": 2},
    "algorithm": {
        "critic_hidden": [16],
        "batch_size": 8,
        "learning_starts": 80,
        "updates_per_step": 0.05,
    },
    "evaluation": {"every": 3, "episodes": 2},
}


class _StopError(Exception):
    pass


class _Killed(Callback):
    def on_round(self, runner, values):
        if runner.round == 3:
            raise _StopError


def test_a_run_goes_on_bit_for_bit(tmp_path):
    config = compose(["pearl_point_robot", SMALL])
    with Runner(config, tmp_path / "whole", show=False) as runner:
        runner.run()
        whole = weights(runner.network)
        assert runner.algorithm.updates > 5

    cut = Runner(config, tmp_path / "cut", callbacks=[_Killed()], show=False)
    with pytest.raises(_StopError), cut as runner:
        runner.run()
    with Runner(config, tmp_path / "cut", resume=True, show=False) as runner:
        assert runner.round == 2
        runner.run()
        assert weights(runner.network) == whole
    assert log(tmp_path / "whole") == log(tmp_path / "cut")


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InvalidOption, match="ContextNetwork"):
        PEARL(make_agent_network(SEEN, ACTS, seed=0), CONFIG)
    with pytest.raises(InvalidOption, match="vectors of floats"):
        make_context_network(spaces.Discrete(3), ACTS, seed=0)
    with pytest.raises(InvalidOption, match="of a Box"):
        make_context_network(SEEN, spaces.Discrete(3), seed=0)
    with pytest.raises(InvalidOption, match="n_steps must be 1"):
        PEARLConfig(n_steps=3)
    with pytest.raises(InvalidOption, match="context must be the only memory"):
        ContextConfig(recurrent="gru")
    with pytest.raises(InvalidOption):
        SAC(network())
    algorithm, state = PEARL(network(), CONFIG), PEARL(network(), CONFIG).state_dict()
    algorithm.load_state_dict(state)
    other = make_context_network(SEEN, ACTS, ContextConfig(hidden=(16,)), seed=0)
    with pytest.raises(ForeignNetwork):
        PEARL(other, CONFIG).load_state_dict(state)
