"""Planners ask the agents that runs have trained: `plan --network` and `trained_evaluator`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import plangym_ext
from plangym_ext.errors import ForeignCheckpoint, InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.planners import ICEM, MCTS
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import asking, trained_evaluator

SMALL = {
    "agent": {"hidden": [8]},
    "rounds": 4,
    "checkpoint_every": 4,
    "evaluation": {"every": 0},
    "collector": {"num_envs": 2, "moves": 16},
}
FROM_REPLAY = {"algorithm": {"learning_starts": 16, "batch_size": 8, "capacity": 200}}
OF_CRITICS = {"algorithm": {**FROM_REPLAY["algorithm"], "critic_hidden": [8]}}


def run(folder, *sources):
    """Train a little; return the algorithm and the agent."""
    with Runner(compose([sources[0], SMALL, *sources[1:]]), folder) as runner:
        runner.run()
        assert runner.algorithm.updates > 0
        return runner.algorithm, runner.agent


def inputs_of(obs):
    rows = len(obs)
    return Inputs(obs, None, np.zeros(rows, np.float32), np.ones(rows, np.bool_))


def observed(env, count=5):
    return np.stack([env.reset(seed=i)[1] for i in range(count)])


@pytest.mark.parametrize("preset", ["sac_pendulum", "td3_pendulum", "ddpg_pendulum"])
@pytest.mark.parametrize("normalised", [False, True])
def test_values_are_the_lowest_of_the_critics_and_actions_the_agents(tmp_path, preset, normalised):
    critics = {"algorithm": {"critic_layer_norm": normalised}}
    algorithm, agent = run(tmp_path, preset, OF_CRITICS, critics)
    agent.set_mode("eval")
    with plangym_ext.make("Pendulum-v1") as env:
        obs = observed(env)
        evaluator = trained_evaluator(tmp_path, env)
    prior, value = evaluator(obs)
    assert prior is None
    played = agent.step(inputs_of(obs), None).action
    np.testing.assert_allclose(evaluator.actions(obs), played, rtol=1e-6)
    with torch.no_grad():
        rated = algorithm.modules["critics"](torch.from_numpy(obs), torch.from_numpy(played))
    assert len(rated) == (1 if preset == "ddpg_pendulum" else 2)
    np.testing.assert_allclose(value, rated.amin(dim=0).numpy(), rtol=1e-5)


def test_files_of_weights_are_asked_as_checkpoints_are(tmp_path):
    run(tmp_path, "sac_pendulum", OF_CRITICS, {"weights_every": 4})
    with plangym_ext.make("Pendulum-v1") as env:
        obs = observed(env)
        paths = tmp_path, tmp_path / "weights" / "weights-00000004.pt"
        of_run, of_weights = (trained_evaluator(path, env)(obs)[1] for path in paths)
    np.testing.assert_array_equal(of_run, of_weights)


def test_discrete_soft_policies_are_priors_over_their_critics(tmp_path):
    env_of = {"env": {"id": "CartPole-v1"}}
    algorithm, agent = run(tmp_path, "sac_pendulum", env_of, OF_CRITICS)
    with plangym_ext.make("CartPole-v1") as env:
        obs = observed(env)
        prior, value = trained_evaluator(tmp_path, env)(obs)
    with torch.no_grad():
        logits = agent.network(inputs_of(torch.from_numpy(obs)), None)[0].policy_logits
        weights = torch.softmax(logits, dim=1)
        rated = algorithm.modules["critics"](torch.from_numpy(obs)).amin(dim=0)
    np.testing.assert_allclose(prior, weights.numpy(), rtol=1e-5)
    np.testing.assert_allclose(value, (weights * rated).sum(dim=1).numpy(), rtol=1e-5)


def test_values_come_in_the_rewards_of_the_env(tmp_path):
    values = {}
    for name, scaled in (("plain", False), ("scaled", True)):
        changed = {"algorithm": {"normalize_reward": scaled}}
        algorithm, agent = run(tmp_path / name, "ppo_cartpole", changed)
        with plangym_ext.make("CartPole-v1") as env:
            obs = observed(env)
            prior, value = trained_evaluator(tmp_path / name, env)(obs)
        told = agent.value(inputs_of(obs), None)
        unit = algorithm._rewards.deviation if scaled else 1.0
        np.testing.assert_allclose(value, told * unit, rtol=1e-5)
        np.testing.assert_allclose(prior.sum(axis=1), 1.0, rtol=1e-5)
        values[name] = unit
    assert values["scaled"] > 2.0


def test_q_values_rate_and_lead_a_tree(tmp_path):
    _, agent = run(tmp_path, "dqn_cartpole", FROM_REPLAY)
    agent.set_mode("eval")
    with plangym_ext.make("CartPole-v1") as env:
        state, first, _ = env.reset(seed=0)
        planner = asking(MCTS, tmp_path, env, {"num_simulations": 8})
        plan = planner.plan(env, state, rng=0, obs=first)
        # Without rollouts, as planners have none that ask: the root and eight leaves.
        assert plan.budget.evaluator_rows == 9
        assert plan.budget.model_steps == 8
        prior, value = planner.evaluator(first[None])
    q = agent.step(inputs_of(first[None]), None).info["q"]
    np.testing.assert_allclose(value, q.max(axis=1), rtol=1e-5)
    assert prior.argmax() == q.argmax()


def test_what_looks_at_more_than_observations_has_no_answer(tmp_path):
    recurrent = {"agent": {"recurrent": "lstm", "recurrent_size": 8}}
    run(tmp_path, "ppo_cartpole", recurrent, {"algorithm": {"minibatch": "env"}})
    refused = pytest.raises(InvalidOption, match="must take only observations; it takes")
    with plangym_ext.make("CartPole-v1") as env, refused:
        trained_evaluator(tmp_path, env)
    with plangym_ext.make("Pendulum-v1") as env, pytest.raises(ForeignCheckpoint):
        trained_evaluator(tmp_path, env)


def test_the_command_plans_beyond_an_agent(tmp_path, capsys):
    _, agent = run(tmp_path / "run", "sac_pendulum", OF_CRITICS)
    agent.set_mode("eval")
    with plangym_ext.make("Pendulum-v1") as env:
        one = {"num_simulations": 1, "horizon": 3}
        planner = asking(ICEM, tmp_path / "run", env, one)
        state, obs, _ = env.reset(seed=0)
        # Of one sequence it is the agent's own.
        action = planner.plan(env, state, rng=0, obs=obs).action
        played = agent.step(inputs_of(obs[None]), None).action[0]
        np.testing.assert_allclose(action, played, rtol=1e-5)
    out = tmp_path / "plan"
    planned = ["--planner", "icem", "--horizon", "3", "--num-simulations", "8"]
    asked = ["--network", str(tmp_path / "run"), "--max-steps", "2", "--out", str(out)]
    assert main(["plan", "Pendulum-v1", *planned, *asked]) == 0
    assert "2 moves" in capsys.readouterr().out
    # Three steps of the agent, and eight sequences of three.
    assert json.loads((out / "episode.json").read_text())["model_steps"] == 2 * (3 + 24)


def test_actions_can_be_held_for_more_than_a_step(tmp_path):
    """`env.frameskip` of an agent: rewards are sums, and it is judged as it learned."""
    held = {"env": {"id": "Pendulum-v1", "frameskip": 4, "max_steps": 50}}
    run(tmp_path, "sac_pendulum", OF_CRITICS, held, {"evaluation": {"every": 4, "episodes": 1}})
    rows = (tmp_path / "progress.jsonl").read_text().splitlines()
    last = json.loads(rows[-1])
    # Of 200 env steps, in which four are one.
    assert last["length"] == last["eval/length"] == 50.0


def test_the_command_tells_what_is_not_as_the_agent_learned_it(tmp_path, capsys):
    run(tmp_path / "run", "sac_pendulum", OF_CRITICS, {"env": {"frameskip": 4}})
    planned = ["plan", "Pendulum-v1", "--planner", "icem", "--horizon", "3", "--max-steps", "1"]
    asked = ["--network", str(tmp_path / "run"), "--out", str(tmp_path / "plan"), "--overwrite"]
    assert main([*planned, *asked]) == 0
    told = f"{tmp_path / 'run'}: trained with --frameskip 4; this is with the env's own"
    assert told in capsys.readouterr().out
    assert main([*planned, *asked, "--frameskip", "4"]) == 0
    assert "trained with" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "env", [{"id": "LunarLander-v3"}, {"id": "CartPole-v1", "n_workers": 1}], ids=str
)
def test_where_actions_cannot_be_held_is_told(tmp_path, env):
    held = {"env": {**env, "frameskip": 2}}
    with pytest.raises(InvalidOption, match=r"env\.frameskip of an agent needs an env with a"):
        run(tmp_path, "ppo_cartpole", held)
