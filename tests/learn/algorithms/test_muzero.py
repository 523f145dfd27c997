"""MuZero: targets of windows, the unrolled loss, reanalysis and policy improvement, by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from plangym_ext.errors import ForeignNetwork, InvalidOption, LossNotFinite, WrongKind
from plangym_ext.learn import (
    EpisodeRecord,
    LatentConfig,
    MuZero,
    MuZeroConfig,
    Schedule,
    make_latent_network,
    make_network,
    model_planner,
)
from plangym_ext.learn.algorithms.learned.muzero import halved
from plangym_ext.learn.targets import n_return
from plangym_ext.planners import MCTS
from tests.tabular_models import exact_network

OBS, ACTIONS = spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(2, start=5)
K, N, GAMMA = 3, 4, 0.9
SMALL = LatentConfig(
    representation=(6,), latent=4, hidden=(8,), activation="tanh", value_support=4, reward_support=3
)
CONFIG = MuZeroConfig(
    unroll=K,
    n_steps=N,
    discount=GAMMA,
    capacity=40,
    learning_starts=1,
    batch_size=16,
    updates_per_round=2,
    l2=0.0,
)


def record(rng, length, *, terminated, final=None, sides=None):
    policies = rng.dirichlet([1.0, 1.0], length)
    return EpisodeRecord(
        seed=0,
        observations=rng.normal(size=(length + 1, 3)).astype(np.float32),
        actions=rng.integers(5, 7, length),
        rewards=rng.normal(size=length),
        terminated=terminated,
        truncated=not terminated,
        root_values=rng.normal(size=length),
        policies=policies,
        final_value=final,
        sides=sides,
    )


def learner(rng, config=CONFIG, network=SMALL, episodes=9):
    made = make_latent_network(OBS, ACTIONS, network, seed=0)
    found = MuZero(made, config, seed=1)
    records = []
    for i in range(episodes):
        length = int(rng.integers(1, 9))
        sides = in_turns(length) if network.num_players == 2 else None
        told = {"terminated": i % 2 == 0, "final": 2.0 + i, "sides": sides}
        records.append(record(rng, length, **told))
    for one in records:
        found.replay.add(found.samples(one))
    return found, records


def in_turns(length):
    """Return the sides of two players, each of whom moves once in turn."""
    return np.where(np.arange(length + 1) % 2, -1.0, 1.0)


def wanted_value(one, t):
    """Return the target of step t of an episode, one step at a time; None: nothing is learned."""
    if t > one.length:
        return 0.0 if one.terminated else None

    def mine(gain, at):
        """Return what the player to move at t gains by what the one to move at `at` gains."""
        return gain if one.sides is None or one.sides[at] == one.sides[t] else -gain

    total = 0.0
    for i in range(N):
        if t + i == one.length:
            return total + GAMMA**i * (0.0 if one.terminated else mine(one.final_value, t + i))
        total += GAMMA**i * mine(one.rewards[t + i], t + i)
    after = t + N
    if after == one.length:
        return total + GAMMA**N * (0.0 if one.terminated else mine(one.final_value, after))
    return total + GAMMA**N * mine(one.root_values[after], after)


@pytest.mark.parametrize(
    ("endings", "scheduled", "players"),
    [(False, False, 1), (True, False, 1), (True, True, 1), (False, False, 2), (True, True, 2)],
)
def test_targets_of_windows_are_those_of_whole_episodes(endings, scheduled, players):
    rng = np.random.default_rng(3)
    network = LatentConfig(**{**vars(SMALL), "endings": endings, "num_players": players})
    config = CONFIG
    if scheduled:
        config = dataclasses.replace(CONFIG, discount=Schedule(start=0.1, end=GAMMA, over=2))
    made, records = learner(rng, config, network)
    if scheduled:
        made.train()
        made.train()  # two updates are made: the discount has come to its end
    assert len(made.replay) == 40  # and older rows were overwritten
    by_obs = {one.observations[t].tobytes(): (one, t) for one in records for t in range(one.length)}
    seen = set()
    for _ in range(20):
        batch = made.replay.sample(16).samples
        for row in range(16):
            one, t = by_obs[batch["obs"][row].tobytes()]
            seen.add((id(one), t))
            for k in range(K + 1):
                at = t + k
                mask = at < one.length
                assert batch["policy_mask"][row, k] == mask
                if mask:
                    np.testing.assert_allclose(batch["policy"][row, k], one.policies[at], rtol=1e-6)
                value = wanted_value(one, at)
                learned = value is not None and not (endings and one.terminated and not mask)
                assert batch["value_mask"][row, k] == learned
                if learned:
                    assert batch["value"][row, k] == pytest.approx(value, rel=1e-5, abs=1e-6)
                if k == 0:
                    continue
                reached = at <= one.length
                assert batch["reward_mask"][row, k - 1] == (
                    reached or (one.terminated and not endings)
                )
                assert batch["ending_mask"][row, k - 1] == reached
                over = one.terminated and at == one.length
                assert batch["ending"][row, k - 1] == over
                wanted = one.rewards[at - 1] if reached else 0.0
                if batch["reward_mask"][row, k - 1]:
                    assert batch["reward"][row, k - 1] == pytest.approx(wanted, rel=1e-6)
                if reached:
                    assert batch["action"][row, k - 1] == one.actions[at - 1] - 5
    assert len(seen) > 30


def test_a_game_of_four_moves_has_these_targets():
    # The second player wins at the end of four moves; N is 4, so all see the end.
    rng = np.random.default_rng(0)
    won = dataclasses.replace(
        record(rng, 4, terminated=True, sides=in_turns(4)), rewards=np.array([0.0, 0.0, 0.0, 1.0])
    )
    network = LatentConfig(**{**vars(SMALL), "num_players": 2})
    made, _ = learner(rng, network=network, episodes=0)
    made.replay.add(made.samples(won))
    batch = made.replay.sample(16).samples
    first = (batch["obs"] == won.observations[0]).all(1).argmax()
    np.testing.assert_allclose(batch["value"][first], [-(GAMMA**3), GAMMA**2, -GAMMA, 1], rtol=1e-6)
    # Whole episodes of other algorithms have the same.
    np.testing.assert_allclose(batch["value"][first], n_return(won, GAMMA, N), rtol=1e-6)


def test_what_follows_a_cut_game_is_of_who_moves_there():
    rng = np.random.default_rng(1)
    network = LatentConfig(**{**vars(SMALL), "num_players": 2})
    made, _ = learner(rng, network=network, episodes=0)
    cut = record(rng, 3, terminated=False, sides=in_turns(3))
    # A plan's value is its reward less gamma times what the other player expects.
    expected = (cut.rewards[-1] - cut.root_values[-1]) / GAMMA
    np.testing.assert_allclose(made.samples(cut)["final"], expected, rtol=1e-6)


def test_games_of_other_players_are_refused():
    rng = np.random.default_rng(2)
    two = LatentConfig(**{**vars(SMALL), "num_players": 2})
    made, _ = learner(rng, network=two, episodes=0)
    with pytest.raises(WrongKind, match=r"of 2 players.*got 1\. Set agent.num_players"):
        made.samples(record(rng, 3, terminated=True))
    again = np.array([1.0, -1.0, 1.0, 1.0])
    with pytest.raises(WrongKind, match=r"MuZero: the two players .* moved twice in a row"):
        made.samples(record(rng, 3, terminated=False, sides=again))
    made.samples(record(rng, 3, terminated=True, sides=again))  # no move follows the end
    made, _ = learner(rng, episodes=0)
    with pytest.raises(WrongKind, match=r"of 1 players.*got 2"):
        made.samples(record(rng, 3, terminated=True, sides=again))


def by_hand(network, batch, row, config):
    """Return the loss of one row and the gradients' scales by hooks, an action at a time."""

    def entropy(logits, target):
        return -(torch.tensor(target) * torch.log_softmax(logits, -1)).sum()

    def two_hot(support, number):
        h = math.copysign(math.sqrt(abs(number) + 1) - 1, number) + 0.001 * number
        h = min(max(h, -support.size), support.size)
        low = min(math.floor(h), support.size - 1)
        target = np.zeros(support.width, np.float32)
        target[low + support.size], target[low + 1 + support.size] = 1 - (h - low), h - low
        return target

    latent = network.represent(torch.tensor(batch["obs"][row : row + 1]))
    total = torch.zeros(())
    for k in range(K + 1):
        scale = 1.0 if k == 0 else 1.0 / K
        if k > 0:
            latent = latent.clone()
            latent.register_hook(lambda gradient: gradient / 2)
            step = network.step(latent, torch.tensor(batch["action"][row : row + 1, k - 1]))
            latent = step.latent
            target = two_hot(network.rewards, float(batch["reward"][row, k - 1]))
            weight = scale * config.reward_weight
            total = total + weight * batch["reward_mask"][row, k - 1] * entropy(
                step.reward[0], target
            )
            over = torch.tensor(batch["ending"][row, k - 1])
            chance = torch.sigmoid(step.ending[0])
            surprise = -(over * chance.log() + (1 - over) * (1 - chance).log())
            weight = scale * config.ending_weight
            total = total + weight * batch["ending_mask"][row, k - 1] * surprise
        rated = network.predict(latent)
        weight = scale * config.policy_weight
        total = total + weight * batch["policy_mask"][row, k] * entropy(
            rated.policy_logits[0], batch["policy"][row, k]
        )
        target = two_hot(network.values, float(batch["value"][row, k]))
        weight = scale * config.value_weight
        total = total + weight * batch["value_mask"][row, k] * entropy(rated.value[0], target)
    return total


WEIGHTS = {"reward_weight": 2.0, "ending_weight": 3.0, "policy_weight": 0.5, "value_weight": 0.7}


@pytest.mark.parametrize("weights", [{}, WEIGHTS])
def test_the_unrolled_loss_and_its_gradient_are_those_by_hand(weights):
    rng = np.random.default_rng(4)
    config = dataclasses.replace(CONFIG, **weights)
    made, _ = learner(rng, config)
    network = made.network
    with torch.no_grad():
        for parameter in network.parameters():  # heads begin at zero
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator()))
    batch = made.replay.sample(16).samples
    hand = torch.stack([by_hand(network, batch, row, config) for row in range(16)]).mean()
    wanted = torch.autograd.grad(hand, list(network.parameters()))
    tensors = {name: torch.tensor(rows) for name, rows in batch.items()}
    loss, _, errors = made._loss(tensors, None)
    found = torch.autograd.grad(loss, list(network.parameters()))
    assert float(loss.detach()) == pytest.approx(float(hand.detach()), rel=1e-5)
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-4, atol=2e-6)
    assert (errors() >= 0).all()


def test_gradients_are_halved():
    x = torch.tensor([3.0], requires_grad=True)
    y = halved(x)
    y.backward()
    assert y.item() == 3.0
    assert x.grad.item() == 0.5


@pytest.mark.parametrize("replay", ["uniform", "prioritized"])
def test_reanalysis_is_a_search_by_hand(replay):
    rng = np.random.default_rng(5)
    config = MuZeroConfig(
        **{
            **vars(CONFIG),
            "reanalyze": 0.5,
            "replay": replay,
            "learning_starts": 40,
            "capacity": 40,
        }
    )
    made, records = learner(rng, config, episodes=4)
    steps = sum(one.length for one in records)
    assert len(made.replay) == steps < 40  # nothing is learned yet

    def search():
        return model_planner(made.network, lambda asked: MCTS(6, evaluator=asked, root_noise=0.25))

    with pytest.raises(InvalidOption, match="search_with"):
        made.train()
    made._new_rows = steps
    before = made.replay.steps.all()
    made.search_with(search())
    assert made.train()["train/reanalyzed"] == round(0.5 * steps)
    after = made.replay.steps.all()
    changed = np.flatnonzero((before["policy"] != after["policy"]).any(1))
    stream = np.random.default_rng(np.random.SeedSequence(1, spawn_key=(5, 0)))
    places = stream.choice(steps, round(0.5 * steps), replace=False)
    assert set(changed) <= set(places)
    assert len(changed) > 0
    for place, own in zip(places, stream.spawn(len(places)), strict=True):
        obs = before["obs"][place]
        plan = search().plan(None, np.zeros(1, np.uint8), rng=own, obs=obs)
        np.testing.assert_array_equal(after["policy"][place], np.float32(plan.weights))
        assert after["value"][place] == np.float32(plan.value)
    others = np.setdiff1d(np.arange(steps), places)
    np.testing.assert_array_equal(before["value"][others], after["value"][others])
    assert made.train()["train/reanalyzed"] == 0  # nothing was added since


def test_gumbel_improves_the_policy_of_bandits():
    rng, gain = np.random.default_rng(6), []
    for _ in range(10):
        returns = rng.normal(size=8)
        table = [[(a + 1, float(r), True) for a, r in enumerate(returns)]]
        table += [[(0, 0.0, True)] * 8] * 8
        prior = np.exp(rng.normal(size=8) * 1.5)
        prior = (prior / prior.sum()).astype(np.float32)
        rewards = np.float32(returns)
        # The value of the state, without which what was not tried would be rated by chance.
        worth = float(prior @ rewards)

        def rated(obs, prior=prior, worth=worth):
            return np.repeat(prior[None], len(obs), 0), np.full(len(obs), worth, np.float32)

        network = exact_network(table)
        planner = model_planner(
            network,
            lambda _, rated=rated: MCTS(4, evaluator=rated, selection="gumbel", discount=1.0),
        )
        zeros = np.zeros(1000, np.int64)
        plans = planner.plan_batch(
            None, np.zeros((1000, 1), np.uint8), rngs=rng.spawn(1000), obs=zeros
        )
        weights, q = (np.stack([getattr(plan, n) for plan in plans]) for n in ("weights", "q"))
        # What was not tried is worth the mixed value (Danihelka et al., equation 33): by these
        # returns the improved policy is never worse than the prior, whatever was drawn.
        tried = ~np.isnan(q)
        mean = (prior * np.nan_to_num(q)).sum(1) / (prior * tried).sum(1)
        completed = np.where(tried, q, ((worth + 4 * mean) / 5)[:, None])
        assert ((weights - prior) * completed).sum(1).min() >= -1e-6
        played = rewards[[plan.action for plan in plans]]
        gain.append(played.mean() - worth)
        assert gain[-1] > -3 * played.std() / math.sqrt(1000)
    assert min(gain) > 0.0


def test_networks_and_states_of_others_are_refused():
    plain = make_network(OBS, ACTIONS, seed=0)
    with pytest.raises(WrongKind, match="LatentNetwork"):
        MuZero(plain)
    with pytest.raises(InvalidOption, match="Discrete"):
        make_latent_network(OBS, OBS, seed=0)
    made, _ = learner(np.random.default_rng(7))
    wide = LatentConfig(**{**vars(SMALL), "latent": 5})
    other = MuZero(make_latent_network(OBS, ACTIONS, wide, seed=0), CONFIG)
    with pytest.raises(ForeignNetwork):
        other.load_state_dict(made.state_dict())


@pytest.mark.parametrize("name", ["reward", "value"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_target_that_is_no_number_is_refused_by_name(name, wrong):
    algorithm = MuZero(make_latent_network(OBS, ACTIONS, SMALL, seed=0), CONFIG)
    algorithm.replay.add(algorithm.samples(record(np.random.default_rng(0), 9, terminated=True)))
    batch = algorithm.replay.sample(4).samples
    batch[name][0, 0] = wrong
    with pytest.raises(LossNotFinite, match=f"not finite in {name}"):
        algorithm.update(batch)
    assert algorithm.updates == 0
