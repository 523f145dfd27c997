"""Normalisers: the moments of gymnasium's, exact over every split."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402
from gymnasium.wrappers.utils import RunningMeanStd  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import ForeignNetwork, InvalidOption  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    A2C,
    PPO,
    A2CConfig,
    ActorCriticAgent,
    AgentConfig,
    EvaluationSampler,
    ObservationNormalizer,
    PPOConfig,
    RewardNormalizer,
    SerialSampler,
    WorkerSampler,
    make_agent_network,
)
from plangym_ext.learn.transforms.moments import moments_of, no_moments  # noqa: E402

RNG = np.random.default_rng(5)
#: Far from 0 beside the deviation, where adding up squares would lose all digits.
ROWS = 1e6 + RNG.normal(size=(12, 4, 3)) * [1e-2, 1.0, 7.0]


# Moments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[12], [1, 11], [5, 0, 7], [1] * 12])
def test_moments_of_parts_merge_to_those_of_the_whole(cuts):
    found, begin = no_moments((3,)), 0
    for length in cuts:
        found = found.merged(moments_of(ROWS[begin : begin + length]))
        begin += length
    flat = ROWS.reshape(-1, 3)
    assert found.num_rows == 48
    np.testing.assert_allclose(found.mean, flat.mean(0), rtol=1e-15)
    np.testing.assert_allclose(found.variance, flat.var(0), rtol=1e-7)


def test_rows_that_do_not_count_are_in_no_moment():
    valid = RNG.random((12, 4)) < 0.5
    rows = np.where(valid[..., None], ROWS, np.nan)
    np.testing.assert_allclose(moments_of(rows, valid).mean, ROWS[valid].mean(0), rtol=1e-15)
    nothing = moments_of(rows, np.zeros((12, 4), bool))
    assert nothing.num_rows == 0
    some = moments_of(ROWS)
    assert some.merged(nothing) is some


def test_moments_by_hand():
    found = moments_of(np.array([[[1.0]], [[3.0]]])).merged(moments_of(np.array([[[8.0]]])))
    # 1, 3 and 8: mean 4, deviations -3, -1 and 4.
    assert (found.num_rows, found.mean.tolist(), found.squares.tolist()) == (3, [4.0], [26.0])


# Observations -----------------------------------------------------------------------------


def test_observations_have_mean_0_and_variance_1_and_are_clipped():
    normalizer = ObservationNormalizer(spaces.Box(-np.inf, np.inf, (3,)), clip=2.0)
    obs = torch.from_numpy(ROWS.reshape(-1, 3))
    torch.testing.assert_close(normalizer(obs[:1] * 0), torch.zeros(1, 3))  # nothing seen
    normalizer.add([moments_of(ROWS)])
    flat = ROWS.reshape(-1, 3)
    wanted = ((flat - flat.mean(0)) / flat.std(0)).clip(-2, 2)
    assert (abs(wanted) == 2).any()
    np.testing.assert_allclose(normalizer(obs).numpy(), wanted, atol=2e-4)
    assert normalizer(obs).dtype == torch.float32


def test_numbers_are_normalised_and_classes_and_pixels_are_not():
    space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (4,), np.uint8),
            "kind": spaces.Discrete(3),
            "level": spaces.Box(-np.inf, np.inf, ()),
            "wide": spaces.Box(-(2**40), 2**40, (2,), np.int64),
        }
    )
    normalizer = ObservationNormalizer(space, clip=10.0)
    assert len(normalizer.parts) == 2
    batch = {
        "image": np.full((2, 4), 9, np.uint8),
        "kind": np.array([1, 2]),
        "level": np.array([1.0, 3.0], np.float32),
        "wide": np.array([[0, 10], [4, 30]]),
    }
    normalizer.add([moments_of(batch[name][:, None]) for name in ("level", "wide")])
    found = normalizer({name: torch.from_numpy(rows) for name, rows in batch.items()})
    assert found["image"].tolist() == batch["image"].tolist()
    assert found["kind"].tolist() == [1, 2]
    torch.testing.assert_close(found["level"], torch.tensor([-1.0, 1.0]))
    torch.testing.assert_close(found["wide"], torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))


def agent_of(name, config, seed=4):
    with make_vec(name, 1, autoreset_mode="same_step") as venv:
        found = venv.single_observation_space, venv.single_action_space
    return ActorCriticAgent(make_agent_network(*found, config, seed=seed))


def made_venv(rows):
    return make_vec("Pendulum-v1", len(rows), autoreset_mode="same_step")


NORMALIZED = AgentConfig(hidden=(8,), normalize_obs=True)
LEARN = PPOConfig(epochs=1, batch_size=40, normalize_reward=True, clip_reward=5.0)


def learned(sampler, algorithm, rounds):
    for _ in range(rounds):
        algorithm.take(sampler.collect(version=algorithm.updates))
        algorithm.train()
    return {name: part.clone() for name, part in algorithm.network.state_dict().items()}


LONG = pytest.mark.skipif(
    not os.environ.get("PYTEST_LONG"), reason="workers import torch; runs in tox -e long"
)


@pytest.mark.parametrize("n_workers", [pytest.param(1, marks=LONG), 2, pytest.param(3, marks=LONG)])
def test_moments_and_weights_have_the_same_bits_over_any_number_of_workers(n_workers):
    """The actors normalise with the moments that travel with the weights."""
    agent = agent_of("Pendulum-v1", NORMALIZED)
    venv = make_vec("Pendulum-v1", 6, autoreset_mode="same_step")
    with SerialSampler(venv, agent, 20, seed=1) as sampler:
        wanted = learned(sampler, PPO(agent.network, LEARN, seed=2), 3)
    other = agent_of("Pendulum-v1", NORMALIZED)
    with WorkerSampler(made_venv, other, 20, 6, n_workers=n_workers, seed=1) as split:
        found = learned(split, PPO(other.network, LEARN, seed=2), 3)
    assert wanted["normalizer.parts.0.count"] == 3 * 6 * 20
    assert all(torch.equal(found[name], part) for name, part in wanted.items())


def test_what_is_learned_from_was_normalised_as_when_it_was_played():
    """Ratios are 1 before the first update of each round; the moments change after the last."""
    agent = agent_of("Pendulum-v1", NORMALIZED)
    venv = make_vec("Pendulum-v1", 6, autoreset_mode="same_step")
    algorithm = PPO(agent.network, LEARN)
    with SerialSampler(venv, agent, 20, seed=1) as sampler:
        learned(sampler, algorithm, 1)
        seen = float(agent.network.normalizer.parts[0].count)
        algorithm.take(sampler.collect(version=algorithm.updates))
        rows = algorithm._rows
        out, _ = agent.network(rows.inputs, rows.carry)
        log_prob = agent.distribution.log_prob(out.policy_logits, rows.action)
        torch.testing.assert_close(log_prob, rows.log_prob)
        torch.testing.assert_close(out.value, rows.value)
        algorithm.train()
    assert seen == 120
    assert float(agent.network.normalizer.parts[0].count) == 240


def test_evaluation_changes_no_moment():
    agent = agent_of("Pendulum-v1", NORMALIZED)
    agent.network.normalizer.add([moments_of(RNG.normal(size=(5, 1, 3)))])
    before = copy.deepcopy(agent.state_dict())
    venv = make_vec("Pendulum-v1", 2, autoreset_mode="same_step", max_episode_steps=5)
    with EvaluationSampler(venv, agent, 2) as sampler:
        sampler.evaluate()
    after = agent.state_dict()
    assert all(np.array_equal(after[name], part) for name, part in before.items())


# Rewards ----------------------------------------------------------------------------------


def played(steps=40, rows=3):
    """Return rewards and endings of a made-up stream."""
    rng = np.random.default_rng(8)
    return rng.normal(size=(steps, rows)).astype(np.float32), rng.random((steps, rows)) < 0.1


@pytest.mark.parametrize("cuts", [[40], [13, 27], [1] * 40])
def test_discounted_sums_go_on_over_fragments_and_end_with_episodes(cuts):
    reward, ended = played()
    normalizer, begin = RewardNormalizer(0.9), 0
    for length in cuts:
        scaled = normalizer.scaled(reward[begin : begin + length], ended[begin : begin + length])
        begin += length
    sums = np.zeros((40, 3))
    for b in range(3):
        running = 0.0
        for t in range(40):
            running = 0.9 * running + float(reward[t, b])
            sums[t, b] = running
            running *= not ended[t, b]
    assert normalizer.seen.num_rows == 120
    np.testing.assert_allclose(normalizer.seen.variance, sums.var(), rtol=1e-12)
    np.testing.assert_allclose(scaled, reward[40 - cuts[-1] :] / sums.std(), rtol=1e-6)


def test_rows_that_wait_change_no_sum():
    reward, ended = played()
    valid = np.ones((40, 3), bool)
    valid[5:9] = False
    some, all_of_them = RewardNormalizer(0.9), RewardNormalizer(0.9)
    some.scaled(np.where(valid, reward, 1e9).astype(np.float32), ended & valid, valid)
    rest = np.concatenate([reward[:5], reward[9:]]), np.concatenate([ended[:5], ended[9:]])
    all_of_them.scaled(*rest)
    assert some.seen.num_rows == 108
    np.testing.assert_allclose(some.seen.variance, all_of_them.seen.variance, rtol=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_spoils_no_later_one(wrong):
    reward, ended = played()
    spoiled, left_out = reward.copy(), np.ones((40, 3), bool)
    spoiled[7, 1], left_out[7, 1] = wrong, False
    some, rest = RewardNormalizer(0.9), RewardNormalizer(0.9)
    found = some.scaled(spoiled, ended)
    wanted = rest.scaled(reward, ended, left_out)
    assert some.state_dict()["squares"] == rest.state_dict()["squares"] > 0
    assert not np.isfinite(found[7, 1])
    np.testing.assert_array_equal(found[left_out], wanted[left_out])


def test_rewards_are_clipped_after_they_are_scaled():
    reward, ended = played()
    agent = agent_of("Pendulum-v1", AgentConfig(hidden=(8,)))
    scaled = RewardNormalizer(0.9).scaled(reward, ended)
    for normalize, wanted in ((True, scaled), (False, reward)):
        config = A2CConfig(discount=0.9, normalize_reward=normalize, clip_reward=0.3)
        algorithm = A2C(agent.network, config)
        parts = {"truncated": torch.from_numpy(ended)}
        rollout = Rewarded(torch.from_numpy(reward), torch.from_numpy(ended), parts)
        np.testing.assert_array_equal(algorithm._scaled(rollout), wanted.clip(-0.3, 0.3))


class Rewarded:
    """What an algorithm reads of a rollout to scale its rewards."""

    valid = None

    def __init__(self, reward, ended, ends):
        self.reward, self.ended, self.ends = reward, ended, ends


# Peers ------------------------------------------------------------------------------------


def test_moments_are_those_of_gymnasium():
    """It begins with 1e-4 rows of mean 0 and variance 1."""
    obs = RNG.normal([5.0, -2.0, 0.0], [1.0, 9.0, 0.1], size=(300, 1, 3)).astype(np.float32)
    normalizer = ObservationNormalizer(spaces.Box(-np.inf, np.inf, (3,)), 10.0)
    theirs = RunningMeanStd(shape=(3,))
    for row in obs:
        theirs.update(row)
    normalizer.add([moments_of(obs)])
    mine = normalizer.parts[0]
    np.testing.assert_allclose(mine.mean[0], theirs.mean, rtol=1e-5)
    np.testing.assert_allclose((mine.squares / mine.count)[0], theirs.var, rtol=1e-4)


# Saving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recurrent", ["none", "gru"])
def test_learning_with_normalisers_goes_on_bit_for_bit(recurrent):
    config = AgentConfig(hidden=(8,), normalize_obs=True, recurrent=recurrent, recurrent_size=6)

    def made():
        agent = agent_of("Pendulum-v1", config)
        venv = make_vec("Pendulum-v1", 4, autoreset_mode="same_step")
        settings = A2CConfig(normalize_reward=True)
        return SerialSampler(venv, agent, 20, seed=1), A2C(agent.network, settings)

    (sampler, algorithm), (other_sampler, other) = made(), made()
    with sampler, other_sampler:
        learned(sampler, algorithm, 2)
        other.load_state_dict(copy.deepcopy(algorithm.state_dict()))
        other_sampler.load_state_dict(sampler.state_dict())
        wanted, found = learned(sampler, algorithm, 2), learned(other_sampler, other, 2)
        assert all(torch.equal(found[name], part) for name, part in wanted.items())
        one, two = (a.state_dict()["trainer"]["rewards"] for a in (algorithm, other))
        assert one["num_rows"] == two["num_rows"] == 4 * 4 * 20
        assert one["squares"] == two["squares"]
        np.testing.assert_array_equal(one["sums"], two["sums"])


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidOption, match="clip_obs must be a finite number above 0; got 0"):
        AgentConfig(clip_obs=0.0)
    with pytest.raises(InvalidOption, match="clip_reward must be a finite number"):
        A2CConfig(clip_reward=-1.0)
    network = agent_of("Pendulum-v1", AgentConfig(hidden=(8,))).network
    state = A2C(network, A2CConfig(normalize_reward=True)).state_dict()
    with pytest.raises(ForeignNetwork, match="has moments of rewards"):
        A2C(network).load_state_dict(state)
    with pytest.raises(ForeignNetwork, match="lacks moments of rewards"):
        A2C(network, A2CConfig(normalize_reward=True)).load_state_dict(A2C(network).state_dict())
