"""What envs, plans, trees and episodes show of themselves: a line, and a table in a notebook."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.numbers import html_table
from plangym_ext.errors import WrongKind
from plangym_ext.planners import MCTS, play


def test_a_line_and_a_table_say_what_an_env_is():
    with plangym_ext.make("CartPole-v1") as env:
        assert repr(env) == "<KernelEnv CartPole-v1 (kernel)>"
        table = env._repr_html_()
        assert "<caption>CartPole-v1</caption>" in table
        assert "exact: True" in table
    with plangym_ext.make_vec("CartPole-v1", 4) as venv:
        assert repr(venv) == "PlanVectorEnv CartPole-v1(num_envs=4, backend=kernel)"
        assert "kernel" in venv._repr_html_()


def test_plans_trees_and_episodes_are_short():
    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        plan = MCTS(20, return_tree=True).plan(env, state, rng=0)
        assert repr(plan.tree) == f"SearchTree({len(plan.tree.parent)} nodes)"
        assert repr(plan).startswith(f"Plan(action={plan.action}, value=")
        assert len(repr(plan)) < 100
        rows = MCTS(20).plan(env, state, rng=0)._repr_html_().split("<tr>")
        assert len(rows) == 2 + env.action_space.n
        assert f"<td>{plan.visits[0]}</td>" in rows[2]
        assert "most visited" in plan.tree._repr_html_()
        episode = play(env, MCTS(8), seed=0, max_steps=5)
        assert repr(episode).startswith("Episode(seed=0, return_=5, length=5, ended=cut")
        assert "<td>return_</td><td>5</td>" in episode._repr_html_()


def test_texts_of_a_table_are_no_html():
    assert "<b>" not in html_table("<b>", [("<b>", np.float64(0.5))], ["<b>"])


@pytest.mark.parametrize("n_workers", [None, 2])
def test_a_vector_env_has_the_spec_of_its_id(n_workers):
    with plangym_ext.make_vec("CartPole-v1", 2, n_workers=n_workers, sutton_barto_reward=True) as v:
        assert v.spec.id == "CartPole-v1"
        assert v.spec.kwargs["sutton_barto_reward"] is True
        assert v.spec.max_episode_steps == 500
    assert "sutton_barto_reward" not in gym.spec("CartPole-v1").kwargs
    with plangym_ext.make_vec([lambda: gym.make("CartPole-v1")]) as v:
        assert v.spec is None


class Old(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self):
        return np.zeros(1, np.float32)

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, {}


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_an_env_without_a_space_is_told_which(name):
    class Spaceless(gym.Env):
        observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

    delattr(Spaceless, name)
    with pytest.raises(WrongKind, match=f"Spaceless: {name} must be a gymnasium space; there is"):
        plangym_ext.make(Spaceless)


@pytest.mark.parametrize("make", [plangym_ext.make, plangym_ext.make_vec])
def test_an_env_of_the_old_interface_is_told_what_to_write(make):
    with pytest.raises(WrongKind, match=r"Old: reset must take the keywords seed and options.*got"):
        make(Old)
