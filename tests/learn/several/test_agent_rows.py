"""Several agents: rows are never mixed up; one agent learns as a single one does, bit for bit."""

import functools

import gymnasium as gym
import numpy as np
import pytest
from parallel_envs import NumberedAgents, numbered, one_cartpole

import plangym_ext
from plangym_ext.learn import (
    PPO,
    ActorCriticAgent,
    AgentConfig,
    AgentsAgent,
    AgentsConfig,
    AlternatingSampler,
    PPOConfig,
    SerialSampler,
    WorkerSampler,
    make_agent_network,
    make_agents_network,
)
from plangym_ext.learn.several.axis import agent_rows

COUNT, ENVS, STEPS = 3, 4, 11


def _venv(rows):
    return plangym_ext.make_vec(numbered, len(rows), autoreset_mode="same_step", n_workers=0)


def _network(env, **config):
    spaces = env.single_observation_space, env.single_action_space
    return make_agents_network(*spaces, AgentsConfig(hidden=(8,), **config), seed=0)


def _samplers():
    def told(agent):
        return {"env_info": agent.env_info, "episode_sums": agent.episode_sums}

    def serial(agent):
        return SerialSampler(_venv(range(ENVS)), agent, STEPS, **told(agent))

    def two_workers(agent):
        return WorkerSampler(_venv, agent, STEPS, ENVS, n_workers=2, threads=1, **told(agent))

    def alternating(agent):
        return AlternatingSampler(_venv(range(ENVS)), agent, STEPS, **told(agent))

    def env_workers(agent):
        venv = plangym_ext.make_vec(numbered, ENVS, autoreset_mode="same_step", n_workers=2)
        return SerialSampler(venv, agent, STEPS, **told(agent))

    return (serial, two_workers, alternating, env_workers)


def _expected(rounds):
    """Return what an env's agents see, and what becomes of it, step by step, from their rules."""
    env, steps = NumberedAgents(), []
    env.reset()
    for _ in range(rounds * STEPS):
        before, t = list(env.agents), env.t
        episode = env.episode
        seen, reward, terminated, truncated, _ = env.step(dict.fromkeys(before, 0))
        steps.append((episode, t, before, reward, terminated, truncated, seen))
        if not env.agents:
            env.reset()
    return steps


@pytest.mark.parametrize("make", _samplers(), ids=lambda make: make.__name__)
@pytest.mark.parametrize("critic", ["own", "central"])
def test_rows_are_those_of_their_agent_episode_and_step(make, critic):
    venv = _venv(range(1))
    network = _network(venv, critic=critic)
    venv.close()
    sampler = make(AgentsAgent(network))
    expected, returns = _expected(3), np.zeros((ENVS, COUNT))
    for i in range(3):
        collected = sampler.collect()
        rows, table = agent_rows(collected.data, network), collected.episodes
        ended = iter(zip(*(table[f"agent_reward.{k}"] for k in range(COUNT)), strict=True))
        obs = rows["obs"]["own"] if critic == "central" else rows["obs"]
        final = rows["final_obs"]["own"] if critic == "central" else rows["final_obs"]
        obs, final = (x.to_ndarray(copy=False) for x in (obs, final))
        found = {
            name: rows[name].to_ndarray(copy=False)
            for name in ("reward", "terminated", "truncated", "valid", "first")
        }
        for t, step in enumerate(expected[i * STEPS : (i + 1) * STEPS]):
            episode, number, there, reward, terminated, truncated, seen = step
            returns += [reward.get(name, 0) for name in NumberedAgents.possible_agents]
            if number == 5 + episode % 3:  # the last step of the last agent
                assert [list(next(ended)) for _ in range(ENVS)] == returns.tolist()
                returns[:] = 0
            for row in range(ENVS * COUNT):
                name = NumberedAgents.possible_agents[row % COUNT]
                assert found["valid"][t, row] == (name in there)
                assert found["first"][t, row] == (number == 0)
                if name not in there:
                    assert not found["reward"][t, row]
                    # One that has just left is shown its last observation once.
                    assert obs[t, row].tolist() in ([0, 0, 0], [row % COUNT, episode, number])
                    continue
                assert obs[t, row].tolist() == [row % COUNT, episode, number]
                assert found["reward"][t, row] == reward[name]
                assert found["terminated"][t, row] == terminated[name]
                assert found["truncated"][t, row] == truncated[name]
                if terminated[name] or truncated[name]:
                    assert final[t, row].tolist() == seen[name].tolist()
        if critic == "central":
            _check_central(rows)
    sampler.close()


def _check_central(rows):
    """Check that a row has its own number, and what the agents of its env see."""
    number, every, own = (
        rows["obs"][name].to_ndarray(copy=False) for name in ("agent", "all", "own")
    )
    assert (number.argmax(-1) == np.arange(ENVS * COUNT) % COUNT).all()
    for row in range(ENVS * COUNT):
        env = row // COUNT
        np.testing.assert_array_equal(every[:, row], own[:, env * COUNT : (env + 1) * COUNT])


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_one_agent_is_a_single_one_bit_for_bit(recurrent):
    config = {"hidden": (16,), "recurrent": recurrent, "recurrent_size": 8}
    learning = PPOConfig(
        batch_size=32, epochs=2, minibatch="step" if recurrent == "none" else "env"
    )
    found = []
    for several, make in (
        (False, functools.partial(gym.make, "CartPole-v1")),
        (True, one_cartpole),
    ):
        venv = plangym_ext.make_vec(make, 4, autoreset_mode="same_step", n_workers=0)
        spaces = venv.single_observation_space, venv.single_action_space
        if several:
            network = make_agents_network(*spaces, AgentsConfig(**config), seed=1)
            agent, more = AgentsAgent(network), {}
            more = {"env_info": agent.env_info}
        else:
            network = make_agent_network(*spaces, AgentConfig(**config), seed=1)
            agent, more = ActorCriticAgent(network), {}
        algorithm = PPO(network, learning, seed=2)
        sampler = SerialSampler(venv, agent, 40, seed=3, **more)
        logged = []
        for _ in range(4):
            algorithm.prepare(agent)
            algorithm.take(sampler.collect())
            logged.append(algorithm.train())
        found.append(([p.detach().numpy().tobytes() for p in network.parameters()], logged))
        sampler.close()
    assert found[0][0] == found[1][0]
    assert found[0][1] == found[1][1]


class Ended(gym.Wrapper):
    """Ends each episode after three steps, of which the agents say nothing."""

    def reset(self, **options):
        self.count = 0
        return self.env.reset(**options)

    def step(self, action):
        obs, reward, _, truncated, info = self.env.step(action)
        self.count += 1
        return obs, reward, self.count == 3, truncated, info


def test_an_end_of_the_env_is_one_of_its_agents():
    def make():
        return Ended(numbered())

    venv = plangym_ext.make_vec(make, 2, autoreset_mode="same_step", n_workers=0)
    network = _network(venv)
    agent = AgentsAgent(network)
    sampler = SerialSampler(venv, agent, 6, env_info=agent.env_info)
    tree = sampler.collect().data
    found = {
        name: agent_rows(tree, network)[name].to_ndarray()
        for name in ("terminated", "truncated", "valid")
    }
    sampler.close()
    ended = np.zeros((6, 2 * COUNT), bool)
    ended[[2, 5]] = True
    assert found["valid"][2].all()
    assert (found["terminated"] == ended).all()
    assert not found["truncated"].any()
