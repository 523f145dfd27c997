"""PettingZoo: the contract through snapshots; envs of turns; spaces that differ; masks."""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
from contract.env_contract import EnvContract
from parallel_envs import NumberedAgents

import plangym_ext
from plangym_ext.envs import AgentsEnv
from plangym_ext.errors import IncompleteState, UnknownName

pytest.importorskip("pettingzoo", reason="PettingZoo is not installed: pip install '.[pettingzoo]'")

pytestmark = pytest.mark.slow


class TestSimpleSpread(EnvContract):
    """Three agents on a plane."""

    name = "pettingzoo/mpe2.simple_spread_v3"
    options: ClassVar = {"max_cycles": 12}
    seeds = (0, 1, 2)
    # What agents did last stays in them over a reset, and no step reads it.
    same_bytes = False


@pytest.mark.parametrize(
    "name", ["mpe2.simple_tag_v3", "classic.connect_four_v3", "classic.rps_v2"]
)
def test_states_are_exact(name):
    with plangym_ext.make(f"pettingzoo/{name}", check=False) as env:
        report = plangym_ext.check_env(env, num_steps=40)
        assert report.exact, report
        assert [method for _, method, _ in report.layers] == ["objects"]


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_vector_env_plays_the_parallel_env_itself(n_workers):
    from mpe2 import simple_spread_v3

    name, rng = "pettingzoo/mpe2.simple_spread_v3", np.random.default_rng(0)
    venv = plangym_ext.make_vec(name, 2, n_workers=n_workers, autoreset_mode="same_step")
    obs, _ = venv.reset(seed=[3, 4])
    envs = [simple_spread_v3.parallel_env() for _ in range(2)]
    seen = [env.reset(seed=seed)[0] for env, seed in zip(envs, (3, 4), strict=True)]
    for _ in range(24):
        assert obs.tobytes() == np.stack([list(one.values()) for one in seen]).tobytes()
        actions = rng.integers(0, 5, (2, 3))
        obs, reward, _, _, infos = venv.step(actions)
        found = [
            env.step(dict(zip(env.possible_agents, map(int, row), strict=True)))
            for env, row in zip(envs, actions, strict=True)
        ]
        seen = [one[0] for one in found]
        own = np.array([list(one[1].values()) for one in found])
        assert infos["agent_reward"].tobytes() == own.tobytes()
        assert reward.tolist() == own.sum(axis=1).tolist()
    venv.close()


def test_masks_of_an_env_of_turns_are_joined():
    with plangym_ext.make("pettingzoo/classic.tictactoe_v3") as env:
        _, obs, info = env.reset(seed=0)
        assert obs.shape[0] == 2
        assert info["action_mask"].shape == (18,)
        info = env.step(np.array([4, 0])).info
        assert not info["action_mask"][9 + 4]
        assert info["action_mask"][9:].sum() == 8


def test_unknown_modules_are_named():
    with pytest.raises(UnknownName, match=r"no module pettingzoo\.classic.simple_spred"):
        plangym_ext.make("pettingzoo/classic.simple_spred_v3")


class Held:
    """What an env may draw with, or keep a number in."""

    def __init__(self):
        self.numbers = [0]


@pytest.mark.parametrize("name", ["clock", "_spaces", "viewer", "action_spaces"])
def test_what_steps_change_is_state_whatever_its_name(name):
    class Keeps(NumberedAgents):
        """Never shows it within the steps of a proof."""

        def __init__(self):
            super().__init__()
            held = {"viewer": Held(), "action_spaces": {"a": gym.spaces.Discrete(9, seed=0)}}
            setattr(self, name, held.get(name, [0]))

        def numbers(self):
            held = getattr(self, name)
            return held.numbers if name == "viewer" else held

        def step(self, actions):
            if name == "action_spaces":
                self.action_spaces["a"].sample()
            else:
                self.numbers()[0] += 1
            return super().step(actions)

    if name in ("viewer", "action_spaces"):
        # Of no state by their names and kinds; what steps change in them is watched.
        with pytest.raises(IncompleteState, match=rf"Keeps\.{name}"):
            plangym_ext.make(lambda: AgentsEnv(Keeps()), backend="serial")
        return
    with plangym_ext.make(lambda: AgentsEnv(Keeps()), backend="serial") as env:
        before, *_ = env.reset(seed=0)
        env.step([0, 0, 0])
        env.set_state(before)
        assert env.gym_env.unwrapped.env.numbers() == [0]
        assert env.exactness.method == "codec"
