"""Learned models refuse what does not fit them, before a network sees it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from gymnasium import spaces

from plangym_ext.errors import InvalidAction, InvalidObservation, InvalidOption, PlangymExtError
from plangym_ext.learn import (
    EnsembleConfig,
    EnsembleModel,
    LatentConfig,
    LatentModel,
    make_ensemble_network,
    make_latent_network,
)

SPACE = spaces.Box(-1.0, 1.0, (4,), np.float32)
OBS = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@functools.cache
def network(kind):
    if kind is LatentModel:
        config = LatentConfig(representation=(8,), latent=4, hidden=(8,))
        return make_latent_network(SPACE, spaces.Discrete(2), config, seed=0)
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    return make_ensemble_network(SPACE, box, EnsembleConfig(members=2, hidden=(8,)), seed=0)


@pytest.fixture(params=[LatentModel, EnsembleModel])
def kind(request):
    return request.param


@pytest.mark.parametrize(
    "obs",
    [OBS[0], OBS[:, :3], OBS[:, :1], OBS[None], "a", None, 0.0, {"a": 1}, [[0, 1], [2]]],
    ids=lambda one: str(np.shape(one)) if isinstance(one, np.ndarray) else repr(one),
)
def test_observations_have_the_shape_of_the_envs(kind, obs):
    with pytest.raises(InvalidObservation, match="observations"):
        kind(network(kind)).states_of(obs)
    if obs is not None:
        with pytest.raises(InvalidObservation, match="starts"):
            kind(network(kind), starts=obs)


def test_resets_want_starts_and_a_seed(kind):
    with pytest.raises(PlangymExtError, match="has no starts"):
        kind(network(kind), starts=OBS[:0]).reset()
    for seed in ("a", -1, 1.5):
        with pytest.raises(InvalidOption, match="seed"):
            kind(network(kind), starts=OBS).reset(seed=seed)


def test_a_single_action_is_checked_as_one_of_a_batch():
    model = LatentModel(network(LatentModel), starts=OBS)
    model.reset(seed=0)
    for action in ("a", 0.7, 2):
        with pytest.raises(InvalidAction):
            model.step(action)
    assert model.step(1).obs.shape == (4,)


def test_corrections_have_a_row_for_each_step():
    model = LatentModel(network(LatentModel))
    states, actions, rewards = model.states_of(OBS), np.zeros(2, int), np.zeros(2)
    with pytest.raises(InvalidOption, match="a row for each step"):
        model.correct(states, actions[:1], states, rewards)
    with pytest.raises(InvalidOption, match="a row for each step"):
        model.correct(states, actions, states, rewards[:1])
    for wrong in (actions + 7, actions + 0.5, actions[:, None], ["a", "b"]):
        with pytest.raises(InvalidAction, match="correct"):
            model.correct(states, wrong, states, rewards)
    for wrong in (states[:, :-5], states ^ 1):
        with pytest.raises(PlangymExtError, match="correct"):
            model.correct(wrong, actions, states, rewards)
        with pytest.raises(PlangymExtError, match="correct"):
            model.correct(states, actions, wrong, rewards)
