"""VDN and QMIX: what each can represent, its loss by hand, runs that go on bit for bit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium import spaces

import plangym_ext
from plangym_ext.envs import AgentsEnv
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import (
    QMIX,
    VDN,
    AgentsConfig,
    AgentsQAgent,
    AgentsQConfig,
    SerialSampler,
    make_agents_network,
)
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.run import Callback
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner


class TwoSteps:
    """The two-step game of Rashid et al. 2018, section 5: 7 is safe, 8 needs both agents."""

    metadata: ClassVar = {"render_modes": []}
    possible_agents = ("one", "two")

    def observation_space(self, agent):
        return spaces.Box(0.0, 1.0, (5,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def _seen(self):
        seen = {name: np.zeros(5, np.float32) for name in self.possible_agents}
        for i, name in enumerate(self.possible_agents):
            seen[name][[self.place, 3 + i]] = 1
        return seen

    def reset(self, seed=None, options=None):
        self.agents, self.place = list(self.possible_agents), 0
        return self._seen(), {}

    def step(self, actions):
        one, two = (int(actions[name]) for name in self.possible_agents)
        there, payoff, is_over = self.agents, 0.0, self.place > 0
        if is_over:
            payoff = (((7, 7), (7, 7)), ((0, 1), (1, 8)))[self.place - 1][one][two] / 2
            self.agents = []
        else:
            self.place = 1 + one
        rewards, ended = dict.fromkeys(there, payoff), dict.fromkeys(there, is_over)
        return self._seen(), rewards, ended, dict.fromkeys(there, False), {}

    def close(self):
        pass


SETTINGS: dict[str, Any] = {
    "env": {"max_steps": 2},
    "agent": {"name": "agents_q", "hidden": [32]},
    "algorithm": {
        "learning_rate": 0.003,
        "learning_starts": 100,
        "updates_per_step": 1.0,
        "discount": 0.99,
        "target_every": 50,
        "loss": "squared",
        # As in the source: nothing is to be learned but what the actions are worth.
        "exploration": 1.0,
    },
    "collector": {"num_envs": 8, "moves": 4},
}


def last_line(folder):
    return json.loads((folder / "progress.jsonl").read_text().splitlines()[-1])


def settings(name, rounds, **agent):
    changed = {
        **SETTINGS,
        "agent": SETTINGS["agent"] | agent,
        "algorithm": {"name": name, **SETTINGS["algorithm"]},
        "evaluation": {"every": rounds, "episodes": 1},
        "rounds": rounds,
    }
    return compose(["dqn_cartpole", changed])


def two_steps(**_):
    return AgentsEnv(TwoSteps())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "found"), [("vdn", 7.0), ("qmix", 8.0)])
def test_qmix_finds_what_a_sum_cannot_represent(tmp_path, name, found):
    # A sum of two values cannot tell 8 from its neighbours, so VDN takes what is safe.
    with Runner(settings(name, 90), tmp_path, make_env=two_steps, show=False) as runner:
        runner.run()
        assert runner.algorithm.updates > 2_000
    assert last_line(tmp_path)["eval/return"] == found


class _StopError(Exception):
    pass


class _Killed(Callback):
    def on_round(self, runner, values):
        if runner.round == 3:
            raise _StopError


@pytest.mark.parametrize(("name", "groups"), [("vdn", []), ("qmix", [0, 1])])
def test_a_run_goes_on_bit_for_bit(tmp_path, name, groups):
    def weights(runner):
        mixer = runner.algorithm.modules["mixer"].state_dict()
        arrays = {**runner.agent.state_dict(), **mixer}
        return {key: np.asarray(array).tobytes() for key, array in arrays.items()}

    config = dataclasses.replace(settings(name, 6, groups=groups), checkpoint_every=2)
    with Runner(config, tmp_path / "whole", make_env=two_steps, show=False) as runner:
        runner.run()
        assert runner.algorithm.updates > 20
        whole = weights(runner)
    cut = Runner(config, tmp_path / "cut", make_env=two_steps, callbacks=[_Killed()], show=False)
    with pytest.raises(_StopError), cut as runner:
        runner.run()
    folder = tmp_path / "cut"
    with Runner(config, folder, make_env=two_steps, resume=True, show=False) as runner:
        assert runner.round == 2
        runner.run()
        assert weights(runner) == whole


def test_workers_play_what_a_run_in_this_process_plays(tmp_path):
    found = []
    for workers in (0, 2):
        config = settings("qmix", 6)
        collector = dataclasses.replace(config.collector, n_workers=workers)
        config = dataclasses.replace(config, collector=collector)
        folder = tmp_path / str(workers)
        with Runner(config, folder, make_env=two_steps, show=False) as runner:
            runner.run()
            assert runner.algorithm.updates > 20
            found.append({k: np.asarray(v).tobytes() for k, v in runner.agent.state_dict().items()})
    assert found[0] == found[1]


def made(learner, **config):
    env = plangym_ext.make(two_steps)
    network = make_agents_network(
        env.observation_space, env.action_space, AgentsQConfig(hidden=(8,), **config), seed=1
    )
    env.close()
    # Heads begin at 0: other numbers tell rows and agents apart.
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
    options = {"learning_starts": 0, "batch_size": 16, "loss": "squared", "double": False}
    return network, learner(network, learner.config_class(**options), seed=2)


def drawn(algorithm, network):
    with plangym_ext.make_vec(two_steps, 4, autoreset_mode="same_step") as venv:
        agent = AgentsQAgent(network)
        agent.epsilon = 1.0
        with SerialSampler(venv, agent, 8) as sampler:
            algorithm.take(sampler.collect())
    return algorithm._steps_of(algorithm._sample(1))


@pytest.mark.parametrize("groups", [(), (0, 1)])
def test_the_loss_of_a_sum_is_that_of_a_loop_over_steps(groups):
    network, algorithm = made(VDN, groups=groups)
    steps = drawn(algorithm, network)
    networks = [network] * 2 if not groups else list(network.policies)

    def q(obs):
        """Return the agents' Q values [2, 2] of one env's observations."""
        return [net(shown(row[None]))[0].q[0] for net, row in zip(networks, obs, strict=True)]

    errors = []
    for n in range(len(steps.reward)):
        played = sum(q(steps.obs[n])[i][steps.action[n, i]] for i in range(2))
        best = sum(values.max() for values in q(steps.next_obs[n]))
        errors.append(played - steps.reward[n] - steps.discount[n] * best)
    by_hand = 0.5 * torch.stack(errors).square().mean()
    torch.testing.assert_close(algorithm._loss(steps).loss, by_hand)
    assert {*steps.reward.tolist()} > {0.0}


def test_the_mixed_value_never_falls_where_an_agents_value_rises():
    network, algorithm = made(QMIX)
    obs = drawn(algorithm, network).obs
    q = torch.randn(len(obs), 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    value = algorithm.modules["mixer"](q, obs)
    (slope,) = torch.autograd.grad(value.sum(), q)
    assert (slope >= 0).all()
    assert (slope > 0).any()
    # The weights are of the state: the same values are worth another number elsewhere.
    alike = algorithm.modules["mixer"](torch.ones_like(q), obs).detach()
    assert len({*alike.tolist()}) > 1


def test_learners_and_networks_that_do_not_fit_are_refused():
    env = plangym_ext.make(two_steps)
    spaces_of = env.observation_space, env.action_space
    env.close()
    with pytest.raises(InvalidOption, match=r"AgentsQConfig\(\)"):
        VDN(make_agents_network(*spaces_of, AgentsConfig(), seed=0))
    with pytest.raises(InvalidOption, match="noisy"):
        AgentsQConfig(noisy=True)
    with pytest.raises(InvalidOption, match="without gaps"):
        AgentsQConfig(groups=(0, 2))
    with pytest.raises(InvalidOption, match="exploration_least"):
        VDN.config_class(exploration_least=0.1)
