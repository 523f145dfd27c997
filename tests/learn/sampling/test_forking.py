"""Branches from visited states: their numbers, their cost, and what they are an estimate of."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from sampling_envs import Oracle, Tally, assert_same, copied, oracle_venv

from plangym_ext import make, make_vec
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.learn import (
    Acted,
    ActorCriticAgent,
    Agent,
    AgentConfig,
    ForkingSampler,
    Inputs,
    RandomAgent,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.returns import branch_returns, forked_advantages
from plangym_ext.learn.sampling.forking import STREAM
from plangym_ext.learn.sampling.noise import RowNoise

CHAIN = "plangym_ext/ChainMDP-v0"
#: How likely the move to the right is in each cell, and how well moves succeed.
RIGHT, SUCCESS, GAMMA = np.array([0.3, 0.5, 0.8, 0.5]), 0.8, 0.9


class Chance(Agent):
    """Moves to the right by chance; its values are as given."""

    looks_at = frozenset()

    def __init__(self, values=None, right=RIGHT):
        self.values = np.zeros(4) if values is None else values
        self.right = right

    def step(self, inputs, carry):
        right = self.right[inputs.obs.argmax(axis=1)]
        action = (inputs.noise.uniform()[:, 0] < right).astype(np.int64)
        log_prob = np.log(np.where(action == 1, right, 1 - right)).astype(np.float32)
        return Acted(action, {"log_prob": log_prob}, None)

    def value(self, inputs, carry):
        return self.values[inputs.obs.argmax(axis=1)].astype(np.float32)


def chain_values():
    """Q `[3, 2]` and V `[4]` of the chain of three cells, from the equations of its rules."""
    # V(c) = sum over actions of pi(a|c) (success: reward + gamma V(next); else: gamma V(c)).
    move, pay = np.zeros((3, 2, 3)), np.zeros((3, 2))
    for cell in range(3):
        for action in range(2):
            move[cell, action, cell] += 1 - SUCCESS
            after = cell + (1 if action else -1)
            if 0 <= after < 3:
                move[cell, action, after] += SUCCESS
            else:
                pay[cell, action] = SUCCESS * (1.0 if action else 0.7)
    policy = np.stack([1 - RIGHT[:3], RIGHT[:3]], axis=1)
    value = np.linalg.solve(
        np.eye(3) - GAMMA * np.einsum("ca,cad->cd", policy, move), (policy * pay).sum(axis=1)
    )
    return pay + GAMMA * move @ value, np.append(value, 0.0)


def chain_sampler(agent, num_envs=64, moves=24, **more):
    venv = make_vec(CHAIN, num_envs, p=SUCCESS, autoreset_mode="same_step")
    return ForkingSampler(venv, agent, moves, make(CHAIN, p=SUCCESS), seed=1, **more)


def chain_estimates(found):
    """Cell, action and advantage `[N, k]` of what was collected."""
    forks = found.forks
    returned = branch_returns(*forks.branches, discount=GAMMA).reshape(-1, forks.num_branches)
    cells = copied(found.data)["obs"][forks.step, forks.row].argmax(axis=1)
    actions = forks.action.reshape(returned.shape)
    return np.broadcast_to(cells[:, None], actions.shape), actions, forked_advantages(returned)


def pooled(agent, fragments, **more):
    """The estimates of some fragments, in one."""
    with chain_sampler(agent, **more) as sampler:
        parts = [chain_estimates(sampler.collect()) for _ in range(fragments)]
    return [np.concatenate([one[i] for one in parts]) for i in range(3)]


@pytest.mark.parametrize("common", [False, True], ids=["apart", "common"])
@pytest.mark.parametrize(
    ("horizon", "known"), [(3, True), (60, False)], ids=["true critic", "no critic"]
)
def test_advantages_are_those_of_the_rules(common, horizon, known):
    q, value = chain_values()
    agent = Chance(value if known else None)
    options = {"every": 3, "branches": 3, "horizon": horizon, "common_random_numbers": common}
    cells, actions, found = pooled(agent, 8, **options)
    for cell in range(3):
        for action in range(2):
            these = found[(cells == cell) & (actions == action)]
            error = these.std() / np.sqrt(len(these))
            assert error < 0.015
            # The means of groups lie 0.1 and more from 0; those of the same state are not apart.
            assert abs(these.mean() - (q - value[:3, None])[cell, action]) < 4 * error
    # One that leaves the absorbing cell earns nothing, whatever it does.
    assert (found[cells == 3] == 0).all()


def test_common_numbers_make_estimates_less_noisy():
    q, value = chain_values()
    errors = {}
    for common in (False, True):
        options = {"every": 3, "branches": 2, "horizon": 40, "common_random_numbers": common}
        cells, actions, found = pooled(Chance(), 4, **options)
        inside = cells < 3
        truth = (q - value[:3, None])[cells[inside], actions[inside]]
        # Where both play the same the difference is 0 with common numbers, which is no estimate
        # of the one advantage but of its mean: the errors of all are compared.
        errors[common] = float(np.mean((found[inside] - truth) ** 2))
    assert errors[True] < 0.8 * errors[False]


def test_returns_and_advantages_are_sums():
    # Of three branches the first terminates after one step, the second is cut after two.
    reward = np.array([[1.0, 2, 3], [0, 4, 5], [0, 0, 6]])
    found = branch_returns(reward, np.array([1, 2, 3]), np.array([0.0, 8, 16]), discount=0.5)
    # By hand: 1; 2 + 4/2 + 8/4; 3 + 5/2 + 6/4 + 16/8.
    np.testing.assert_array_equal(found, [1, 6, 9])
    # By hand: 1 - (6 + 9)/2, 6 - (1 + 9)/2, 9 - (1 + 6)/2.
    np.testing.assert_allclose(forked_advantages(found), [-6.5, 1, 5.5])


class Counted(gym.Wrapper):
    """Counts the steps of all of its kind."""

    done: list[int] = []  # noqa: RUF012 - of all instances

    def step(self, action):
        Counted.done.append(1)  # grows, as a log does: a number would be state
        return self.env.step(action)


def counted():
    return Counted(gym.make("CartPole-v1"))


def cartpole_agent(seed=0):
    spaces = gym.make("CartPole-v1")
    shape = AgentConfig(hidden=(8,), shared_body=False)
    return ActorCriticAgent(
        make_agent_network(spaces.observation_space, spaces.action_space, shape, seed=seed)
    )


def cartpole_sampler(env=None, moves=12, **more):
    venv = make_vec("CartPole-v1", 3, autoreset_mode="same_step")
    options = {"branches": 3, "horizon": 5, "every": 5, "seed": 4} | more
    return ForkingSampler(venv, cartpole_agent(), moves, env or make("CartPole-v1"), **options)


@pytest.mark.parametrize("common", [False, True], ids=["apart", "common"])
def test_every_step_of_the_envs_is_charged(common):
    venv = make_vec(counted, 2, backend="serial", autoreset_mode="same_step")
    with (
        make(counted, backend="serial") as env,
        ForkingSampler(
            venv, cartpole_agent(), 9, env, every=4, horizon=6, common_random_numbers=common
        ) as sampler,
    ):
        Counted.done.clear()
        found = sampler.collect()
    assert found.cost.model_steps == len(Counted.done)
    assert found.forks.cost.model_steps == len(Counted.done) - 18
    # Steps 0, 4 and 8 of two envs; of two actions no more than two branches differ.
    assert len(found.forks.step) == 6
    assert found.forks.cost.restores == 24 if not common else found.forks.cost.restores <= 12
    assert found.cost.restores == found.forks.cost.restores


def test_what_is_played_does_not_depend_on_branches():
    venv = make_vec("CartPole-v1", 3, autoreset_mode="same_step")
    with SerialSampler(venv, cartpole_agent(), 12, seed=4) as plain, cartpole_sampler() as forking:
        for _ in range(3):
            wanted, found = plain.collect(), forking.collect()
            assert_same(copied(found.data), copied(wanted.data))
            assert wanted.forks is None


def branched(env, agent, state, action, drawn, horizon):
    """Rewards, length and rest of one branch, in a plain loop; `drawn(h)` are its numbers."""
    rewards = []
    for h in range(horizon):
        state, obs, reward, terminated, truncated, _ = env.step(action, state)
        rewards.append(reward)
        shown = obs[None], np.zeros(1, np.int64), np.zeros(1, np.float32), np.zeros(1, bool)
        inputs = Inputs(*shown, drawn(h + 1))
        if terminated:
            return rewards, 0.0
        if truncated or h + 1 == horizon:
            return rewards, float(agent.value(inputs, None)[0])
        action = agent.step(inputs, None).action[0]
    raise AssertionError


@pytest.mark.parametrize("common", [False, True], ids=["apart", "common"])
def test_branches_are_those_of_a_plain_loop(common):
    with (
        make("CartPole-v1", backend="serial") as env,
        cartpole_sampler(common_random_numbers=common) as sampler,
    ):
        sampler.collect()
        before = sampler._actors[0].state_dict()["envs"]
        found = sampler.collect()
        agent, forks = sampler._agent, found.forks
        assert forks.row.tolist()[:3] == [0, 1, 2]
        assert forks.step.tolist()[:3] == [0, 0, 0]
        played = copied(found.data)
        for i in range(3):
            assert forks.action[3 * i] == played["action"][0, i]
            assert forks.log_prob[3 * i] == played["agent_info.log_prob"][0, i]
            for j in range(3):
                # 12 steps were taken before; a step has the numbers of 6.
                row = 3 * i + (0 if common else j)
                noise = RowNoise(4, [row], STREAM)

                def drawn(h, noise=noise):
                    noise.move_to(np.array([12 * 6 + h], np.uint64))
                    return noise

                one = 3 * i + j
                rewards, rest = branched(env, agent, before[i], forks.action[one], drawn, 5)
                length = int(forks.branches.length[one])
                assert forks.branches.reward[:, one].tolist() == rewards + [0.0] * (5 - length)
                assert (len(rewards), np.float32(rest)) == (length, forks.branches.rest[one])


def oracle(index=0):
    # As `oracle_venv` names it: states of envs whose constructors name other numbers are foreign.
    return Oracle(index)


def forks_of(sampler, count=2):
    with sampler:
        return [sampler.collect().forks for _ in range(count)]


def assert_same_forks(found, wanted):
    for one, want in zip(found, wanted, strict=True):
        for mine, other in zip([*one[:5], *one.branches], [*want[:5], *want.branches], strict=True):
            np.testing.assert_array_equal(mine, other)
        assert one.cost.model_steps == want.cost.model_steps


def test_every_backend_plays_the_same_branches():
    wanted = forks_of(cartpole_sampler())
    for options in ({"backend": "serial"}, {"backend": "process", "n_workers": 1}):
        with make("CartPole-v1", **options) as env:
            assert_same_forks(forks_of(cartpole_sampler(env)), wanted)


def test_mujoco_plays_the_same_branches():
    pytest.importorskip("mujoco")
    name = "InvertedPendulum-v5"
    found = []
    for backend in ("serial", "mujoco"):
        venv = make_vec(name, 2, backend=backend, autoreset_mode="same_step")
        spaces = venv.single_observation_space, venv.single_action_space
        agent = ActorCriticAgent(make_agent_network(*spaces, AgentConfig(hidden=(8,)), seed=0))
        with make(name, backend=backend) as env:
            found.append(
                forks_of(ForkingSampler(venv, agent, 6, env, every=3, horizon=4, branches=2))
            )
    assert_same_forks(*found)
    # Drawn beyond the bounds, played within them.
    assert found[0][0].action.dtype == np.float32


def test_a_sampler_goes_on_bit_for_bit():
    with cartpole_sampler() as first, cartpole_sampler() as second:
        first.collect()
        second.load_state_dict(first.state_dict())
        assert_same_forks([second.collect().forks], [first.collect().forks])


def test_a_fragment_whose_branches_failed_is_played_again(monkeypatch):
    wanted = forks_of(cartpole_sampler(), 3)
    with cartpole_sampler() as sampler:
        found = [sampler.collect().forks]
        with monkeypatch.context() as patch:
            patch.setattr(sampler._agent, "value", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                sampler.collect()
        assert len(sampler._env.states) == 0
        found += [sampler.collect().forks for _ in range(2)]
    assert_same_forks(found, wanted)


def test_rows_that_wait_are_not_forked():
    class Ended(Agent):
        def step(self, inputs, carry):
            rows = len(inputs.first)
            return Acted(np.zeros(rows, np.int64), {"log_prob": np.zeros(rows, np.float32)}, None)

        def value(self, inputs, carry):
            return np.zeros(len(inputs.first), np.float32)

    with (
        make(oracle) as env,
        ForkingSampler(
            oracle_venv(3), Ended(), 6, env, every=1, horizon=2, on_end="wait"
        ) as sampler,
    ):
        found = sampler.collect()
        valid = copied(found.data)["valid"]
    assert not valid.all()
    at = np.zeros(valid.shape, bool)
    at[found.forks.step, found.forks.row] = True
    np.testing.assert_array_equal(at, valid)


def test_what_cannot_be_branched_is_refused():
    def refused(agent, error, match, env=None, **options):
        with (
            make_vec(oracle, 2, autoreset_mode="same_step") as venv,
            make(oracle) as own,
            pytest.raises(error, match=match),
        ):
            ForkingSampler(venv, agent, 4, env or own, **options)

    refused(Tally(), InvalidOption, "must not be recurrent, .*Tally is")
    refused(RandomAgent(oracle().action_space), InvalidOption, "log_prob.*RandomAgent does not")
    loose = SimpleNamespace(exact=False, name="Loose-v0")
    refused(Chance(), IncompleteState, "those of Loose-v0 are not", env=loose)
    refused(Chance(), InvalidOption, "branches must be an integer >= 2; got 1", branches=1)
    refused(Chance(), InvalidOption, "horizon must be an integer >= 1; got 0", horizon=0)
    refused(Chance(), InvalidOption, "every must be an integer >= 1; got 0", every=0)
