"""Toy text: the contract, and what is particular to these envs."""

import functools
from typing import ClassVar

import numpy as np
import pytest
from contract.env_contract import EnvContract
from gymnasium.envs.toy_text.blackjack import BlackjackEnv
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

import plangym_ext
from plangym_ext.errors import ForeignState
from plangym_ext.testing.episode import outcome_of


class ToyContract(EnvContract):
    """Small states: every bit is flipped."""

    all_bits = True


class TestFrozenLake(ToyContract):
    """Most episodes end in a hole."""

    name = "FrozenLake-v1"

    @classmethod
    def constructor(cls, **overrides):
        if "max_episode_steps" in overrides:
            # Where the limit is looked at, no hole may end the episode before.
            overrides["desc"] = ["SFFF", "FFFF", "FFFF", "FFFG"]
        return super().constructor(**overrides)


class TestCliffWalking(ToyContract):
    name = "CliffWalking-v1"
    options: ClassVar = {"max_episode_steps": 210}


class TestCliffWalkingSlippery(ToyContract):
    name = "CliffWalkingSlippery-v1"
    options: ClassVar = {"max_episode_steps": 120}


class TestTaxi(ToyContract):
    name = "Taxi-v4"
    options: ClassVar = {"max_episode_steps": 210}
    renders = False  # drawing changes the way the taxi faces: see below


class TestTaxiInTheRain(ToyContract):
    """The generator decides about moves, and a passenger changes their mind."""

    name = "Taxi-v4"
    options: ClassVar = {"is_rainy": True, "fickle_passenger": True, "max_episode_steps": 120}
    renders = False

    @classmethod
    def policy(cls, env, seed):
        # Only what the mask of the square allows: such a random taxi meets passengers.
        taxi, rng = env.gym_env.unwrapped, np.random.default_rng(seed)
        return lambda t: int(rng.choice(np.flatnonzero(taxi.action_mask(taxi.s))))


class TestBlackjack(ToyContract):
    name = "Blackjack-v1"
    limit = 2  # one more card, and the seed's first hand is over

    @classmethod
    def policy(cls, env, seed):
        # Cards until no further one is safe.
        game = env.gym_env.unwrapped
        return lambda t: int(sum(game.player) < 12)

    @classmethod
    def harmless_action(cls, env):
        return 1  # a card


# Types -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_square_keeps_its_type_and_observations_are_ints(name):
    # A reset gives numpy's integer, FrozenLake's and Taxi's steps a Python one.
    with plangym_ext.make(name) as env, env.clone() as other:
        state, obs, _ = env.reset(seed=0)
        for _ in range(5):
            assert type(obs) is int
            other.set_state(state)
            ours, theirs = env.gym_env.unwrapped, other.gym_env.unwrapped
            assert (type(theirs.s), theirs.s) == (type(ours.s), ours.s)
            assert type(other.step(1).obs) is int
            state, obs, *_ = env.step(1, return_state=True)


def test_hands_stay_lists_of_ints():
    with plangym_ext.make("Blackjack-v1") as env:
        state, *_ = env.reset(seed=0)
        game = env.gym_env.unwrapped
        before = list(game.player), list(game.dealer)
        env.step(1)
        env.set_state(state)
        assert (game.player, game.dealer) == before
        assert all(type(card) is int for card in game.player + game.dealer)


def test_hand_that_outgrows_its_row_widens_it():
    with plangym_ext.make("Blackjack-v1", autoreset=False) as env, env.clone() as other:
        env.reset(seed=0)
        width = env.state_width
        steps = [env.step(1, return_state=True) for _ in range(80)]
        assert env.state_width > width
        for before, after in zip(steps[::9], steps[1::9], strict=False):
            env.set_state(before.state)
            assert outcome_of(env.step(1, return_state=True))[:-1] == outcome_of(after)[:-1]
        other.set_state(steps[-1].state)
        game = other.gym_env.unwrapped
        assert (len(game.player), len(game.dealer)) == (82, 2)


# Pictures --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1"])
def test_picture_after_a_restore_is_the_one_before(name):
    with plangym_ext.make(name, render_mode="rgb_array", autoreset=False) as env:
        env.action_space.seed(1)
        state, *_ = env.reset(seed=1)
        seen = []
        for _ in range(6):
            picture = env.render()
            seen.append((env.get_state(), picture))
            env.step(env.sample_action())
        for state, picture in reversed(seen):
            env.set_state(state)
            assert env.render().tobytes() == picture.tobytes()


def test_drawing_a_taxi_changes_nothing_but_the_way_it_faces():
    # Gymnasium turns the taxi when it is drawn, so that is part of its state.
    with plangym_ext.make("Taxi-v4", render_mode="rgb_array") as env, env.clone() as unseen:
        state, *_ = env.reset(seed=0)
        before = env.step(2, state)  # east
        assert env.gym_env.unwrapped.taxi_orientation == 0
        env.render()
        assert env.gym_env.unwrapped.taxi_orientation == 2
        drawn = env.get_state()
        assert np.count_nonzero(drawn[48:] != before.state[48:]) == 1
        one, two = env.step(3, drawn), unseen.step(3, before.state)
        assert one[1:5] == two[1:5]


# Foreign states --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (TaxiEnv, functools.partial(TaxiEnv, is_rainy=True)),
        (TaxiEnv, functools.partial(TaxiEnv, fickle_passenger=True)),
        (FrozenLakeEnv, functools.partial(FrozenLakeEnv, success_rate=0.5)),
        (FrozenLakeEnv, functools.partial(FrozenLakeEnv, reward_schedule=(2, 0, 0))),
        (FrozenLakeEnv, functools.partial(FrozenLakeEnv, desc=["SFFF", "FHHH", "FFFH", "HFFG"])),
        (BlackjackEnv, functools.partial(BlackjackEnv, natural=True)),
    ],
)
def test_state_of_an_env_built_with_other_rules_is_refused(make, other):
    with plangym_ext.GymEnv(make) as one, plangym_ext.GymEnv(other) as two:
        state, *_ = one.reset(seed=0)
        with pytest.raises(ForeignState):
            two.set_state(state)


def test_maps_that_are_drawn_at_construction_do_not_share_states():
    # Without a map gymnasium draws one from no seed at all: every instance has its own.
    make = functools.partial(FrozenLakeEnv, map_name=None)
    with plangym_ext.GymEnv(make, name="Lake") as one, one.clone() as two:
        state, *_ = one.reset(seed=0)
        one.set_state(state)
        with pytest.raises(ForeignState):
            two.set_state(state)


# Subclasses ------------------------------------------------------------------------


class TippingTaxi(TaxiEnv):
    """Pays a tip from the tenth step of an episode on."""

    def reset(self, **kwargs):
        self.num_steps = 0
        return super().reset(**kwargs)

    def step(self, a):
        self.num_steps += 1
        obs, reward, *rest = super().step(a)
        return obs, reward + (self.num_steps >= 10), *rest


class DrawnLake(FrozenLakeEnv):
    """Has another map in every episode."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        generator = self.np_random
        rows = ["".join(generator.choice(["F", "F", "H"], 4)) for _ in range(4)]
        FrozenLakeEnv.__init__(self, desc=["S" + rows[0][1:], *rows[1:3], rows[3][:3] + "G"])
        self._np_random = generator
        self.s, self.lastaction = 0, None
        return obs, info


@pytest.mark.parametrize("make", [TippingTaxi, DrawnLake])
def test_what_a_subclass_adds_is_restored(make):
    with plangym_ext.GymEnv(make) as env:
        assert env.codec.method == "codec"
        report = plangym_ext.check_env(env, num_steps=25)
        assert report.exact, str(report)
