"""Teams with algorithms of their own in one run: rows, losses, learning, going on bit for bit."""

from __future__ import annotations

import copy
import json
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium import spaces

import plangym_ext
from plangym_ext.envs import AgentsEnv
from plangym_ext.errors import ForeignNetwork, InvalidOption, UnknownName
from plangym_ext.learn import (
    DQN,
    PPO,
    SAC,
    ActorCriticAgent,
    AgentConfig,
    DQNConfig,
    PolicyAgent,
    PPOConfig,
    QAgent,
    QAgentConfig,
    RandomAgent,
    SACConfig,
    SerialSampler,
    SoftPolicyConfig,
    TeamsAgent,
    TeamsLearning,
    TeamsNetwork,
    WorkerSampler,
    make_agent_network,
    make_teams,
)
from plangym_ext.learn.several.axis import agent_rows
from plangym_ext.run import Runner, Trained, compose

STEPS = 6
NAMES = ("walker", "b", "pusher", "a")


class Chase:
    """A walker of steps left and right, a pusher of forces, two signs; each has a goal of its own.

    The walker is paid for being near 2, the pusher for pushing as the sign says, "b" and "a" for
    naming the side of the walker. "b" leaves two steps before the end.
    """

    metadata: ClassVar = {"render_modes": []}
    possible_agents = NAMES
    rng = np.random.default_rng(0)

    def observation_space(self, agent):
        return spaces.Box(-9.0, 9.0, (2 if agent == "walker" else 3,), np.float32)

    def action_space(self, agent):
        if agent == "pusher":
            return spaces.Box(-1.0, 1.0, (1,), np.float32)
        return spaces.Discrete(3 if agent == "walker" else 2)

    def _seen(self):
        more = np.array([self.at, self.sign, self.time / STEPS], np.float32)
        return {name: more[:2] if name == "walker" else more for name in self.agents}

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.time, self.at = list(NAMES), 0, int(self.rng.integers(-2, 3))
        self.sign = float(self.rng.choice([-1.0, 1.0]))
        return self._seen(), {}

    def step(self, actions):
        there = list(self.agents)
        side = int(self.at > 0)
        reward = {name: float(actions[name] == side) for name in ("a", "b") if name in there}
        reward["pusher"] = 1.0 - abs(float(actions["pusher"][0]) - 0.5 * self.sign)
        self.at = int(np.clip(self.at + int(actions["walker"]) - 1, -4, 4))
        reward["walker"] = -abs(self.at - 2) / 4
        self.time += 1
        seen = self._seen()
        ended = {name: self.time == STEPS - 2 * (name == "b") for name in there}
        self.agents = [name for name in there if not ended[name]]
        return seen, {name: reward[name] for name in there}, ended, dict.fromkeys(there, False), {}

    def close(self):
        pass


def chase():
    return AgentsEnv(Chase())


def of_rows(count):
    return plangym_ext.make_vec(chase, count, autoreset_mode="same_step", backend="serial")


def rows_of(rows):
    return of_rows(len(rows))


MEMBERS = {"walkers": ["walker"], "pushers": ["pusher"], "signs": ["a", "b"]}


def parts(**options):
    """Return network, agent and algorithm of PPO, SAC and DQN side by side."""
    with plangym_ext.make(chase, n_workers=0) as env:
        teams = make_teams(env.observation_space, env.action_space, MEMBERS)
    configs = {
        "walkers": AgentConfig(hidden=(8,), **options),
        "pushers": SoftPolicyConfig(hidden=(8,)),
        "signs": QAgentConfig(hidden=(8,)),
    }
    networks = {
        name: make_agent_network(one.observation_space, one.action_space, configs[name], seed=k)
        for k, (name, one) in enumerate(teams.items())
    }
    kinds = {"walkers": ActorCriticAgent, "pushers": PolicyAgent, "signs": QAgent}
    network = TeamsNetwork(teams, networks)
    agent = TeamsAgent(network, {name: kinds[name](networks[name]) for name in teams})
    by_env = {"minibatch": "env"} if options else {}
    algorithms = {
        "walkers": PPO(networks["walkers"], PPOConfig(batch_size=16, epochs=2, **by_env)),
        "pushers": SAC(networks["pushers"], SACConfig(learning_starts=8, batch_size=8)),
        "signs": DQN(networks["signs"], DQNConfig(learning_starts=8, batch_size=8)),
    }
    return network, agent, TeamsLearning(network, algorithms=algorithms)


def sampled(agent, count=3, steps=7, **options):
    return SerialSampler(of_rows(count), agent, steps, env_info=agent.env_info, **options)


def test_rows_of_a_team_are_what_its_agents_saw_played_and_earned():
    network, agent, _ = parts()
    with sampled(agent) as sampler:
        tree = sampler.collect().data
    told, order = tree["env_info"], [NAMES.index(name) for name in ("a", "b")]
    found = agent_rows(tree, network.teams["signs"])
    for k, (name, place) in enumerate(zip(("a", "b"), order, strict=True)):
        columns = slice(k, None, 2)
        pairs = [
            (found["obs"], tree["obs"][name]),
            (found["action"], tree["action"][name]),
            (found["reward"], told["agent_reward"][:, :, place]),
            (found["terminated"], told["agent_terminated"][:, :, place]),
            (found["valid"], told["agent_acted"][:, :, place]),
            (found["agent_info"]["q"], tree["agent_info"]["signs"]["q"][:, :, k]),
        ]
        for mine, theirs in pairs:
            np.testing.assert_array_equal(
                mine.to_ndarray()[:, columns], np.asarray(theirs.to_ndarray())
            )
    # "b" is away for two steps of each episode.
    assert not found["valid"].to_ndarray()[:, 1::2].all()
    assert found["valid"].to_ndarray()[:, ::2].all()
    assert set(np.unique(told["agent_reward"].to_ndarray()[:, :, order])) <= {0.0, 1.0}
    # The last row answers to what follows.
    np.testing.assert_array_equal(found["obs"][7, ::2], np.asarray(tree["obs"]["a"][7]))


def test_a_team_learns_what_it_learns_of_its_rows_alone():
    network, agent, learning = parts()
    before = copy.deepcopy(network)
    alone = PPO(before.parts["walkers"], PPOConfig(batch_size=16, epochs=2))
    with sampled(agent) as sampler:
        collected = sampler.collect()
        learning.take(collected)
        logged = learning.train()
        data = agent_rows(collected.data, network.teams["walkers"])
        alone.take(collected._replace(data=data))
        wanted = alone.train()
    assert logged["train/loss.walkers"] == wanted["train/loss"]
    for one, other in zip(
        network.parts["walkers"].parameters(), before.parts["walkers"].parameters(), strict=True
    ):
        assert torch.equal(one, other)
    assert {"updates.pushers", "replay_steps.signs"} <= logged.keys()
    assert learning.updates == sum(one.updates for one in learning.algorithms.values()) > 0


@pytest.mark.parametrize("options", [{}, {"recurrent": "gru", "recurrent_size": 4}], ids=str)
def test_workers_play_the_same_bytes(options):
    found = []
    for made in (SerialSampler, WorkerSampler):
        _, agent, learning = parts(**options)
        learning.prepare(agent)
        if made is SerialSampler:
            sampler = sampled(agent, 4, 5, seed=3)
        else:
            sampler = WorkerSampler(
                rows_of, agent, 5, 4, seed=3, n_workers=2, env_info=agent.env_info
            )
        with sampler:
            shown = []
            for _ in range(3):
                collected = sampler.collect(version=learning.updates)
                leaves = {k: v.to_ndarray().tobytes() for k, v in collected.data.leaves()}
                shown.append({k: v for k, v in leaves.items() if not k.startswith("final_obs")})
                learning.take(collected)
                learning.train()
                learning.prepare(agent)
        found.append(shown)
    assert found[0] == found[1]


@pytest.mark.parametrize("members", [[0, 2], [1]])
def test_an_axis_of_agents_is_shared_out_by_numbers(members):
    from parallel_envs import NumberedAgents

    rest = [one for one in range(3) if one not in members]
    env = AgentsEnv(NumberedAgents())
    teams = make_teams(env.observation_space, env.action_space, {"x": members, "y": rest})
    spaces_of = teams["x"].observation_space, teams["x"].action_space
    network = TeamsNetwork(teams, {"x": make_agent_network(*spaces_of, AgentConfig(), seed=0)})
    agents = {"x": ActorCriticAgent(network.parts["x"]), "y": RandomAgent(spaces_of[1])}
    agent = TeamsAgent(network, agents)
    venv = plangym_ext.make_vec(lambda: AgentsEnv(NumberedAgents()), 2, autoreset_mode="same_step")
    with SerialSampler(venv, agent, 5, env_info=agent.env_info) as sampler:
        tree = sampler.collect().data
    found = agent_rows(tree, teams["x"])
    obs = tree["obs"].to_ndarray()[:, :, members]
    np.testing.assert_array_equal(found["obs"].to_ndarray(), obs.reshape(5, -1, obs.shape[-1]))


TEAMS: dict[str, Any] = {
    "walkers": {"members": ["walker"], "hidden": [16]},
    "pushers": {"members": ["pusher"], "name": "soft_policy", "hidden": [16]},
    "signs": {"members": ["a", "b"], "name": "q", "hidden": [16]},
}
LEARNING: dict[str, Any] = {
    "walkers": {"name": "ppo", "batch_size": 48, "epochs": 4, "learning_rate": 0.01},
    "pushers": {
        "name": "sac",
        "learning_starts": 96,
        "batch_size": 64,
        "learning_rate": 0.003,
        "updates_per_step": 0.25,
        "discount": 0.0,
    },
    "signs": {
        "name": "dqn",
        "learning_starts": 96,
        "batch_size": 64,
        "learning_rate": 0.003,
        "updates_per_step": 0.5,
        "discount": 0.0,
        "exploration": {"start": 0.5, "end": 0.02, "over": 500},
    },
}


def settings(**changed):
    return {
        "env": {"max_steps": STEPS},
        "agent": {"name": "teams", "teams": TEAMS},
        "algorithm": {"name": "teams", "teams": LEARNING},
        "collector": {"num_envs": 8, "moves": 6},
        "evaluation": {"every": 0, "stop_at": None},
        **changed,
    }


def started(folder, *more, **options):
    config = compose(["ppo_cartpole", settings(), *more])
    return Runner(config, folder, make_env=lambda **_: chase(), show=False, **options)


def rows(folder):
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_a_run_of_three_algorithms_goes_on_bit_for_bit(tmp_path):
    states = []
    for name, ends in (("whole", [6]), ("broken", [3, 6])):
        for k, rounds in enumerate(ends):
            with started(tmp_path / name, {"rounds": rounds}, resume=k > 0) as runner:
                runner.run()
        states.append({k: v.clone() for k, v in runner.network.state_dict().items()})
    assert all(torch.equal(one, states[1][name]) for name, one in states[0].items())
    assert rows(tmp_path / "whole") == rows(tmp_path / "broken")
    last = rows(tmp_path / "whole")[-1]
    assert min(last[f"updates.{name}"] for name in TEAMS) > 0
    with Trained(tmp_path / "whole", make_env=lambda **_: chase()) as trained:
        (episode,) = trained.play(1)
    assert episode.length == STEPS


@pytest.mark.slow
def test_each_team_learns_by_its_algorithm(tmp_path):
    with started(tmp_path, {"rounds": 45}) as runner:
        runner.run()
    first, last = ([row[f"agent_reward.{k}"] for k in range(4)] for row in rows(tmp_path)[::44])
    # Of 6 steps, "b" has 4; 1 a step is best for all but the walker, who begins 0 to 4 away from 2.
    wanted = [-1.0, 3.5, 4.2, 5.3]
    assert all(np.array(first) < wanted), first
    assert all(np.array(last) > wanted), last


def test_a_team_without_an_algorithm_and_one_that_plays_at_random_stay(tmp_path):
    teams = {**TEAMS, "signs": {"members": ["a", "b"], "name": "random"}}
    only = {"name": "teams", "teams": {"walkers": LEARNING["walkers"]}}
    changed = settings(agent={"name": "teams", "teams": teams}, algorithm=only, rounds=2)
    config = compose(["ppo_cartpole", changed])
    with Runner(config, tmp_path, make_env=lambda **_: chase(), show=False) as runner:
        before = copy.deepcopy(runner.network.state_dict())
        runner.run()
        after = runner.network.state_dict()
        assert runner.agent.agents["pushers"].version == 1
    moved = {k.split(".")[1] for k, one in before.items() if not torch.equal(one, after[k])}
    assert moved == {"walkers"}


def test_what_cannot_be_is_refused(tmp_path):
    env = chase()
    for members in ({"x": ["a"]}, {"x": [*NAMES, "a"]}, {"x": [], "y": NAMES}):
        with pytest.raises(InvalidOption, match=r"each of the agents .* must be in one team"):
            make_teams(env.observation_space, env.action_space, members)
    with pytest.raises(InvalidOption, match="'x' must have equal spaces"):
        make_teams(env.observation_space, env.action_space, {"x": NAMES})
    network, agent, learning = parts()
    with pytest.raises(InvalidOption, match="an agent for each of the teams"):
        TeamsAgent(network, {})
    with pytest.raises(InvalidOption, match="algorithms must be of some of the teams"):
        TeamsLearning(network, algorithms={"none": learning.algorithms["signs"]})
    with pytest.raises(InvalidOption, match="previous reward"):
        parts(previous_reward=True)
    state = learning.state_dict()
    del state["trainer"]["teams"]["signs"]
    with pytest.raises(ForeignNetwork, match="of the teams"):
        learning.load_state_dict(state)
    other = make_teams(env.observation_space, env.action_space, MEMBERS)
    other["signs"] = other["signs"]._replace(observation_space=spaces.Box(0, 1, (3,)))
    foreign = TeamsAgent(TeamsNetwork(other, network.parts), agent.agents)
    with pytest.raises(InvalidOption, match="Make them with its spaces"):
        foreign.check_spaces(env.observation_space, env.action_space)
    for changed, error, message in (
        ({"agent": {"teams": {"x": {"hidden": [3]}}}}, InvalidOption, "with members"),
        ({"algorithm": {"teams": {"x": {"name": "ppo"}}}}, UnknownName, "algorithm.teams.x"),
        ({"algorithm": {"teams": {"walkers": {"name": "pqo"}}}}, UnknownName, "pqn"),
        ({"algorithm": {"teams": {"walkers": {"clap": 1}}}}, UnknownName, "clip"),
    ):
        with pytest.raises(error, match=message):
            started(tmp_path / "refused", changed)
    assert not (tmp_path / "refused").exists()


def test_members_are_known_by_number_or_by_its_text():
    spaces_of = spaces.Box(-1.0, 1.0, (3, 2)), spaces.MultiDiscrete([2, 2, 2])
    wanted = make_teams(*spaces_of, {"x": [2, 0], "y": [1]})
    for members in ({"x": ["2", "0"], "y": ["1"]}, {"x": (2, 0), "y": 1}, {"x": [2, 0], "y": "1"}):
        assert make_teams(*spaces_of, members) == wanted
    for members in ({"x": 5}, {"x": "012"}, {"x": [0, 1, 2.5]}, {"x": [0, 1], "y": []}):
        with pytest.raises(InvalidOption, match="make_teams: each of the agents"):
            make_teams(*spaces_of, members)
