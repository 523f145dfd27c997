"""Attributes that a subclass of a known simulator adds are part of its state."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import ForeignState, IncompleteState

_serial = itertools.count()


class Bonus(CartPoleEnv):
    """Pays ten times from the tenth step on, and remembers what it was pushed."""

    def __init__(self, label: str = ""):
        super().__init__()
        self.label, self.serial = label, next(_serial)

    def reset(self, **kwargs):
        self.num_steps, self.pushes = 0, []
        vars(self).pop("fell", None)
        return super().reset(**kwargs)

    def step(self, action):
        self.num_steps += 1
        self.pushes = [*self.pushes, int(action)][-20:]
        obs, reward, terminated, *rest = super().step(action)
        if terminated:
            self.fell = self.num_steps
        return obs, reward * (10 if self.num_steps >= 10 else 1), terminated, *rest


class Drifting(PendulumEnv):
    """Its gravity, a constant of the class it derives from, is drawn by each reset."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        self.g = 9 + self.np_random.random()
        return obs, info


class Listening(CartPoleEnv):
    """Holds something that is no data, and whose count it pays."""

    class Ear:
        def __init__(self):
            self.count = 0

    def reset(self, **kwargs):
        self.ear = self.Ear()
        return super().reset(**kwargs)

    def step(self, action):
        self.ear.count += 1
        obs, reward, *rest = super().step(action)
        return obs, reward + self.ear.count, *rest


@pytest.mark.parametrize("make", [Bonus, Drifting])
def test_added_and_changed_attributes_are_restored(make):
    with GymEnv(make) as env:
        assert env.codec.method == "codec"
        report = plangym_ext.check_env(env)
        assert report.exact, str(report)


def test_attributes_come_and_go_with_the_state():
    with GymEnv(Bonus, autoreset=False) as env:
        bonus = env.gym_env
        state, *_ = env.reset(seed=0)
        states, terminated = [state], False
        while not terminated:  # pushed to one side it falls within some ten steps
            step = env.step(1, states[-1])
            states.append(step.state)
            terminated = step.terminated
        last = len(states) - 1
        assert (bonus.num_steps, bonus.pushes, bonus.fell) == (last, [1] * last, last)
        env.set_state(states[4])
        assert (bonus.num_steps, bonus.pushes) == (4, [1] * 4)
        assert not hasattr(bonus, "fell")
        env.set_state(states[last])
        assert bonus.fell == last


def test_what_never_changes_stays_the_instances_own():
    # Such as the number of something that an instance has opened.
    with GymEnv(lambda: Bonus("a"), name="B") as one, GymEnv(lambda: Bonus("a"), name="B") as two:
        assert one.state_width == two.state_width
        state, *_ = one.reset(seed=0)
        serial = two.gym_env.serial
        two.set_state(one.step(1, state).state)
        assert (two.gym_env.serial, two.gym_env.num_steps) == (serial, 1)


def test_states_of_other_arguments_are_refused():
    with GymEnv(lambda: Bonus("a"), name="B") as one, GymEnv(lambda: Bonus("bb"), name="B") as two:
        state, *_ = one.reset(seed=0)
        two.reset(seed=0)
        with pytest.raises(ForeignState):
            two.set_state(state)


def test_equal_states_are_equal_bytes_whatever_came_before():
    with GymEnv(Bonus) as one, GymEnv(Bonus) as two:
        two.reset(seed=5)
        two.step(0)
        rows = [
            np.stack([env.reset(seed=0)[0], env.step(1, None, 1, True).state]) for env in (one, two)
        ]
        assert rows[0].tobytes() == rows[1].tobytes()


def test_objects_are_left_to_the_next_way():
    with pytest.raises(IncompleteState, match=r"Listening\.ear"):
        GymEnv(Listening, capture="codec")
    with GymEnv(Listening) as env:
        assert env.codec.method == "snapshot"
        assert plangym_ext.check_env(env, num_steps=20).exact


class OtherPlanet(gym.Wrapper):
    """Changes a number of the simulator from the tenth step of an episode on."""

    def __init__(self, env, name, value):
        super().__init__(env)
        self.name, self.value = name, value
        self.first = getattr(env.unwrapped, name)

    def reset(self, **options):
        self.count = 0
        setattr(self.unwrapped, self.name, self.first)
        return self.env.reset(**options)

    def step(self, action):
        self.count += 1
        if self.count == 10:
            setattr(self.unwrapped, self.name, self.value)
        return self.env.step(action)


def played(env, count):
    for _ in range(count):
        env.step(env.action_space.sample() * 0)


@pytest.mark.parametrize(
    ("env_id", "name", "value"),
    [("CartPole-v1", "gravity", 30.0), ("HalfCheetah-v5", "frame_skip", 1)],
)
def test_a_number_that_no_state_holds_is_not_changed_in_silence(env_id, name, value):
    def make():
        return OtherPlanet(gym.make(env_id), name, value)

    # The proof comes to the tenth step, and chooses a way that holds the number.
    with plangym_ext.make(make, backend="serial", check=5.0) as env:
        assert env.codec.method in ("simulator", "snapshot")
    with plangym_ext.make(make, backend="serial", capture="codec", check=False) as env:
        env.reset(seed=0)
        played(env, 3)
        early = env.get_state()
        rewards = [env.step(env.action_space.sample() * 0).reward for _ in range(3)]
        played(env, 4)
        with pytest.raises(IncompleteState, match=rf"\.{name} must be .*; it is {value}"):
            env.get_state()
        # What was captured before comes back as it was, with the number.
        env.set_state(early)
        assert getattr(env.gym_env.unwrapped, name) == env.gym_env.first
        again = [env.step(env.action_space.sample() * 0).reward for _ in range(3)]
        assert again == rewards
    # A vector env steps on without states.
    codec = {"capture": "codec", "check": False}
    with plangym_ext.make_vec(make, 2, backend="serial", **codec) as venv:
        venv.reset(seed=0)
        for k in range(12):
            venv.step(venv.action_space.sample() * 0 + k % 2)
        with pytest.raises(IncompleteState):
            venv.get_states()


def test_a_number_that_every_reset_draws_is_captured_in_another_way():
    class Drawn(gym.Wrapper):
        def reset(self, **options):
            found = self.env.reset(**options)
            self.unwrapped.gravity = 5 + 10 * float(self.unwrapped.np_random.random())
            return found

    with plangym_ext.make(lambda: Drawn(gym.make("CartPole-v1")), backend="serial") as env:
        assert "codec" not in [part.method for part, name in env.codec.described()][1:]
        assert plangym_ext.check_env(env, num_steps=20).exact


def test_a_number_that_is_set_from_outside_is_meant():
    with plangym_ext.make_vec("CartPole-v1", 2, backend="serial") as venv:
        venv.set_attr("gravity", 3.0)
        venv.reset(seed=0)
        states = venv.get_states()
        venv.set_attr("gravity", 4.0)
        assert len(venv.get_states()) == len(states) == 2
