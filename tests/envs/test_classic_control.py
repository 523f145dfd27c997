"""Classic control: the contract, and what is particular to these envs."""

import functools
from typing import ClassVar

import numpy as np
import pytest
from contract.env_contract import EnvContract
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv

import plangym_ext
from plangym_ext.errors import ForeignState


class TestCartPole(EnvContract):
    name = "CartPole-v1"
    all_bits = True
    stranger = "MountainCar-v0"


class TestPendulum(EnvContract):
    name = "Pendulum-v1"


class TestAcrobot(EnvContract):
    name = "Acrobot-v1"
    options: ClassVar = {"max_episode_steps": 150}


class TestMountainCar(EnvContract):
    name = "MountainCar-v0"


class TestMountainCarContinuous(EnvContract):
    name = "MountainCarContinuous-v0"
    options: ClassVar = {"max_episode_steps": 150}


class TestMountainCarThatArrives(EnvContract):
    """Pushing with the motion reaches the flag: a real termination."""

    name = "MountainCar-v0"

    @classmethod
    def policy(cls, env, seed):
        # The velocity is the second number of the state that the env holds.
        return lambda t: 2 if env.gym_env.unwrapped.state[1] >= 0 else 0

    def test_the_episode_terminates(self, episodes):
        for episode in episodes.values():
            last = episode.outcomes[episode.end]
            assert (last.terminated, last.truncated) == (True, False)


@pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning")
def test_reward_past_the_end_depends_on_the_restored_count_of_steps_past_it():
    # CartPole pays 1 for the step that falls and 0 for every one after it.
    with plangym_ext.make("CartPole-v1", autoreset=False) as env:
        state, *_ = env.reset(seed=0)
        standing = falling = state
        terminated = False
        while not terminated:
            falling = state
            state, _, _, terminated, *_ = env.step(1, state)
        fallen = state
        found = [env.step(1, s).reward for s in (fallen, falling, fallen, standing, falling)]
        assert found == [0.0, 1.0, 0.0, 1.0, 1.0]


def test_state_of_an_env_built_with_other_physics_is_refused():
    earth = plangym_ext.GymEnv(functools.partial(PendulumEnv, g=9.8))
    moon = plangym_ext.GymEnv(functools.partial(PendulumEnv, g=1.6))
    state, *_ = earth.reset(seed=0)
    with pytest.raises(ForeignState):
        moon.set_state(state)


def test_state_of_an_env_built_with_other_rewards_is_refused():
    usual = plangym_ext.GymEnv(CartPoleEnv)
    barto = plangym_ext.GymEnv(functools.partial(CartPoleEnv, sutton_barto_reward=True))
    state, *_ = usual.reset(seed=0)
    with pytest.raises(ForeignState):
        barto.set_state(state)


def test_state_does_not_depend_on_what_was_rendered():
    env = plangym_ext.make("Pendulum-v1", render_mode="rgb_array")
    plain = plangym_ext.make("Pendulum-v1")
    state, *_ = env.reset(seed=0)
    env.render()
    plain.set_state(state)
    action = np.array([0.5], np.float32)
    assert env.step(action).reward == plain.step(action).reward
    env.close()
    plain.close()


def test_constants_changed_by_hand_are_part_of_the_identity():
    def heavy():
        env = CartPoleEnv()
        env.gravity = 20.0
        return env

    state, *_ = plangym_ext.GymEnv(CartPoleEnv).reset(seed=0)
    with pytest.raises(ForeignState, match="gravity"):
        plangym_ext.GymEnv(heavy).set_state(state)
