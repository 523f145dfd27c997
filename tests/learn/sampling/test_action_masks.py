"""Masks of actions: kept where they belong, heeded by agents and by the losses."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sampling_envs import assert_same, copied

from plangym_ext import Array, ArrayDict, make_vec
from plangym_ext.errors import InvalidObservation, InvalidSamples
from plangym_ext.learn import StepReplay
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.sampling.evaluation import EvaluationSampler
from plangym_ext.learn.sampling.local import AlternatingSampler, SerialSampler
from plangym_ext.learn.sampling.worker import WorkerSampler

ACTIONS, T, B = 4, 9, 3


def mask_at(index, episode, count):
    """What may be played; told apart from any other step's by its pattern."""
    allowed = np.array([(index + episode * 2 + count + k) % 3 > 0 for k in range(ACTIONS)], np.int8)
    allowed[(index + count) % ACTIONS] = 1
    return allowed


class Masked(gym.Env):
    """Raises where an action is played that its last info has not allowed."""

    observation_space = spaces.Box(-1000, 1000, (3,), np.float32)
    action_space = spaces.Discrete(ACTIONS)

    def __init__(self, index):
        self.index, self.episode = index, -1

    def _told(self):
        obs = np.array([self.index, self.episode, self.count], np.float32)
        return obs, {"action_mask": mask_at(self.index, self.episode, self.count)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return self._told()

    def step(self, action):
        assert mask_at(self.index, self.episode, self.count)[action], "an illegal action"
        self.count += 1
        over = self.count == 2 + (self.index + self.episode) % 3
        obs, info = self._told()
        if over:  # the mask of an ending is another one, and of no use
            info = {"action_mask": np.zeros(ACTIONS, np.int8)}
        return (
            obs,
            float(action),
            over and self.episode % 2 == 0,
            over and self.episode % 2 == 1,
            info,
        )


#: What networks are made for.
SPACES = Masked.observation_space, Masked.action_space


def masked_rows(rows, **options):
    makes = [lambda index=index: Masked(index) for index in rows]
    # Not checked: the check plays actions that are not legal.
    options = {"backend": "serial", "autoreset_mode": "same_step", "check": False, **options}
    return make_vec(makes, **options)


def agent():
    return RandomAgent(Masked.action_space)


def check_masks(tree, known):
    """Compare the masks of a tree with what its observations say that they are."""
    obs = np.array(tree["obs"][0 : T + 1])
    legal = np.array(tree["action_mask"][0 : T + 1])
    assert legal.dtype == bool
    for t, row in np.argwhere(known):
        expected = mask_at(*obs[t, row].astype(int)).astype(bool)
        assert legal[t, row].tolist() == expected.tolist(), (t, row)


@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
@pytest.mark.parametrize("random_steps", [0, 5])
def test_masks_are_kept_beside_the_observations_that_they_belong_to(on_end, random_steps):
    options = {"on_end": on_end, "random_steps": random_steps, "seed": 3}
    with SerialSampler(masked_rows(range(B)), agent(), T, **options) as sampler:
        for _ in range(4):
            tree = sampler.collect().data
            valid = np.vstack([np.array(tree["valid"]), np.ones((1, B), bool)])
            # Rows that wait show zeros, or stick to what their next episode begins with.
            check_masks(tree, known=valid | (on_end == "sticky"))
            assert valid.all() == (on_end == "reset")


def test_all_samplers_keep_the_same_masks():
    def fragments(sampler):
        with sampler:
            return [copied(sampler.collect().data) for _ in range(3)]

    wanted = fragments(SerialSampler(masked_rows(range(B)), agent(), T))
    assert any(name.startswith("action_mask") for name in wanted[0])
    others = [
        SerialSampler(masked_rows(range(B), backend="process", n_workers=2), agent(), T),
        AlternatingSampler(masked_rows(range(B)), agent(), T),
        WorkerSampler(masked_rows, agent(), T, B, n_workers=2),
    ]
    for sampler in others:
        for found, want in zip(fragments(sampler), wanted, strict=True):
            assert_same(found, want)


def test_masks_are_saved_with_where_the_rows_are():
    with SerialSampler(masked_rows(range(B)), agent(), T) as whole:
        whole.collect()
        state = whole.state_dict()
        wanted = copied(whole.collect().data)
        with SerialSampler(masked_rows(range(B)), agent(), T) as other:
            other.load_state_dict(state)
            assert_same(copied(other.collect().data), wanted)


def test_an_evaluation_plays_what_is_legal():
    with EvaluationSampler(masked_rows(range(B)), agent(), 20) as evaluation:
        assert len(evaluation.evaluate().episodes["return"]) == 20


def test_masks_can_be_left_alone():
    class Anything(Masked):
        def step(self, action):
            self.count += 1
            return *self._told()[:1], 0.0, False, False, self._told()[1]

    venv = make_vec([lambda: Anything(0)] * 2, backend="serial", autoreset_mode="same_step")
    with SerialSampler(venv, agent(), T, action_mask=False) as sampler:
        assert "action_mask" not in sampler.collect().data


def test_a_mask_that_does_not_fit_is_refused():
    class Short(Masked):
        def _told(self):
            obs, _ = super()._told()
            return obs, {"action_mask": np.ones(ACTIONS - 1, np.int8)}

    venv = make_vec([lambda: Short(0)] * 2, backend="serial", autoreset_mode="same_step")
    with (
        SerialSampler(venv, agent(), T) as sampler,
        pytest.raises(InvalidObservation, match="a number for each of the 4"),
    ):
        sampler.collect()


class Late(Masked):
    """Tells masks in steps alone."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {}

    def step(self, action):
        self.count += 1
        obs, info = self._told()
        return obs, 0.0, False, False, info


@pytest.mark.parametrize("sampler", [SerialSampler, AlternatingSampler])
def test_masks_that_come_in_steps_alone_are_not_left_out(sampler):
    def rows():
        return make_vec([lambda: Late(0)] * 2, backend="serial", autoreset_mode="same_step")

    with sampler(rows(), agent(), T) as one, pytest.raises(InvalidObservation, match="Return it"):
        one.collect()
    with sampler(rows(), agent(), T, action_mask=False) as one:
        assert "action_mask" not in one.collect().data


def test_masks_that_come_in_steps_of_workers_alone_are_not_left_out():
    def late_rows(rows):
        makes = [lambda: Late(0)] * len(rows)
        return make_vec(makes, backend="serial", autoreset_mode="same_step")

    with (
        WorkerSampler(late_rows, agent(), T, 2, n_workers=1) as one,
        pytest.raises(InvalidObservation, match="Return it"),
    ):
        one.collect()


# What learns ---------------------------------------------------------------------------


def policy(seed=0, heads=("policy", "value"), **options):
    pytest.importorskip("torch")
    from plangym_ext.learn import AgentConfig, make_agent_network

    config = AgentConfig(hidden=(16,), heads=heads, **options)
    return make_agent_network(*SPACES, config, seed=seed)


@pytest.mark.parametrize("name", ["A2C", "PPO", "VTrace", "REINFORCE", "PQN"])
@pytest.mark.parametrize("compiled", [False, True])
def test_algorithms_learn_under_the_mask(name, compiled):
    pytest.importorskip("torch")
    from plangym_ext import learn

    kind = getattr(learn, name)
    if name == "PQN":
        network = policy(heads=("q",), layer_norm=True)
        player = learn.QAgent(network, epsilon=0.5)
        config = kind.config_class()
    else:
        network = policy()
        player = learn.ActorCriticAgent(network)
        config = kind.config_class(compiled=compiled)
    algorithm = kind(network, config, seed=0)
    with SerialSampler(masked_rows(range(B)), player, T) as sampler:
        for round_ in range(4):
            algorithm.prepare(player)
            collected = sampler.collect(version=round_)
            tree = collected.data
            legal, action = np.array(tree["action_mask"]), np.array(tree["action"])
            assert np.take_along_axis(legal, action[..., None], 2).all()
            algorithm.take(collected)
            found = algorithm.train()
            assert all(np.isfinite(number) for number in found.values())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_losses_and_gradients_are_those_of_a_policy_over_legal_actions_alone(compiled, clip):
    torch = pytest.importorskip("torch")
    from plangym_ext import learn
    from plangym_ext.learn.algorithms.rollouts.rollout import rollout_of
    from plangym_ext.learn.engines.policy_value import LossTerms

    network = policy()
    player = learn.ActorCriticAgent(network)
    algorithm = learn.A2C(network, learn.A2CConfig(compiled=compiled), seed=0)
    with SerialSampler(masked_rows(range(B)), player, T) as sampler:
        rollout = rollout_of(sampler.collect().data, network)
    rows = rollout.rows_by_gae(rollout.value, 0.9, 0.8).steps()
    algorithm.optimizer.read()
    views = algorithm.optimizer.views()
    found = algorithm.gradients.losses(
        algorithm.gradients.batch(rows), LossTerms(0.5, 0.1, clip=clip)
    )
    algorithm.gradients.leave()
    mine = [views[id(part)][1].copy() for part in network.parameters()]

    # The same by hand: a softmax over the legal logits of each row.
    out, _ = network(rows.inputs, None)
    logs, entropies = [], []
    for logits, legal, action in zip(
        out.policy_logits, rows.inputs.legal, rows.action, strict=True
    ):
        chances = torch.softmax(logits[legal], 0)
        logs.append(chances[int(legal[:action].sum())].log())
        entropies.append(-(chances * chances.log()).sum())
    log_prob, entropy = torch.stack(logs), torch.stack(entropies).mean()
    np.testing.assert_allclose(log_prob.detach(), rows.log_prob, atol=1e-5)
    if clip is None:
        loss = -(rows.advantage * log_prob).mean()
    else:
        ratio = (log_prob - rows.log_prob).exp()
        loss = -torch.minimum(
            ratio * rows.advantage, ratio.clamp(1 - clip, 1 + clip) * rows.advantage
        ).mean()
    whole = loss + 0.5 * ((out.value - rows.target) ** 2).mean() - 0.1 * entropy
    assert float(found["entropy"]) == pytest.approx(float(entropy.detach()), rel=1e-5)
    assert float(found["loss"]) == pytest.approx(float(whole.detach()), rel=1e-4)
    wanted = torch.autograd.grad(whole, list(network.parameters()))
    for found_part, part in zip(mine, wanted, strict=True):
        np.testing.assert_allclose(found_part, part.numpy(), atol=2e-5)


# Replays ---------------------------------------------------------------------------------


def legal_at(obs):
    """What may be played where rows `[N, 3]` of observations are, by the env's own rule."""
    return np.array([mask_at(*row.astype(int)) for row in obs]).astype(bool)


def check_steps(samples, n, ends):
    """Compare masks that were drawn with observations; return how many follow an ending."""
    np.testing.assert_array_equal(samples["legal"], legal_at(samples["obs"]))
    after = samples["next_obs"]
    # Of the row's episode: at its last observation everything may be played.
    over = np.array([ends(*row.astype(int)) for row in after])
    np.testing.assert_array_equal(samples["next_legal"][~over], legal_at(after[~over]))
    assert samples["next_legal"][over].all()
    return int(over.sum())


def is_last(index, episode, count):
    return count == 2 + (index + episode) % 3


@pytest.mark.parametrize("n", [1, 3])
def test_a_replay_of_steps_draws_the_masks_of_what_it_draws(n):
    replay = StepReplay(60, n_steps=n, seed=0)
    with SerialSampler(masked_rows(range(B)), agent(), T) as sampler:
        for _ in range(5):
            replay.add(sampler.collect().data)
            assert check_steps(replay.sample(200).samples, n, is_last) > 0
    again = StepReplay(60, n_steps=n, seed=1)
    again.load_state_dict(copy.deepcopy(replay.state_dict()))
    wanted, found = replay.sample(50).samples, again.sample(50).samples
    for name, want in wanted.items():
        np.testing.assert_array_equal(found[name], want)


def test_a_replay_of_sequences_draws_the_masks_of_what_it_draws():
    pytest.importorskip("torch")
    from plangym_ext import learn

    config = learn.QAgentConfig(hidden=(8,), recurrent="lstm", recurrent_size=8)
    network = learn.make_agent_network(*SPACES, config, seed=0)
    player = learn.QAgent(network, epsilon=0.5)
    replay = learn.SequenceReplay(200, burn_in=1, length=5, seed=0)
    with SerialSampler(masked_rows(range(B)), player, T) as sampler:
        for _ in range(5):
            replay.add(sampler.collect().data)
    samples = replay.sample(60).samples
    obs, legal, played = samples["obs"], samples["legal"], samples["learned"]
    assert legal.shape == (*obs.shape[:2], ACTIONS)
    np.testing.assert_array_equal(legal[played], legal_at(obs[played]))
    last = np.apply_along_axis(lambda row: is_last(*row.astype(int)), 2, obs)
    assert last.any()
    assert legal[last].all()


def test_fragments_without_masks_allow_everything():
    replay = StepReplay(200, seed=0)
    with SerialSampler(masked_rows(range(B)), agent(), T) as sampler:
        told = sampler.collect().data
        silent = ArrayDict({name: leaf for name, leaf in told.items() if name != "action_mask"})
        replay.add(silent)
        assert "legal" not in replay.sample(20).samples
        replay.add(told)
        replay.add(silent)
        size = 300
        batch = replay.sample(size)
    step = batch.indices // B
    among = (step >= T) & (step < 2 * T)
    assert 0 < among.sum() < size
    legal = batch.samples["legal"]
    np.testing.assert_array_equal(legal[among], legal_at(batch.samples["obs"][among]))
    assert legal[~among].all()


def test_masks_of_another_number_of_actions_are_refused():
    replay = StepReplay(200, seed=0)
    with SerialSampler(masked_rows(range(B)), agent(), T) as sampler:
        tree = sampler.collect().data
        replay.add(tree)
        wide = Array((T, B), bool, feature_shape=(ACTIONS + 1,), padding=1)
        with pytest.raises(InvalidSamples, match=f"of {ACTIONS} actions.*got {ACTIONS + 1}"):
            replay.add(ArrayDict({**dict(tree.items()), "action_mask": wide}))
        assert len(replay) == T * B


#: Of a space of three the last is never legal, and would be worth a hundred.
ALWAYS = np.array([1, 1, 0], np.int8)


class Tempting(gym.Env):
    """Every step gives 1, and every fourth ends the episode by its time limit."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {"action_mask": ALWAYS}

    def step(self, action):
        assert ALWAYS[action]
        self.count += 1
        obs = np.full(2, self.count / 4, np.float32)
        return obs, 1.0, self.count == 4, False, {"action_mask": ALWAYS}


def promise(module, actions=3):
    """Have the last layer say that the last action is worth a hundred, or the most there is."""
    torch = pytest.importorskip("torch")
    last = [part for part in module.modules() if isinstance(part, torch.nn.Linear)][-1]
    with torch.no_grad():
        rows = last.bias.view(actions, -1)
        rows[-1, -1 if rows.shape[1] == 51 else slice(None)] += 100.0


LEARNERS = {
    "DQN": ({}, {}),
    "DQN, compiled": ({}, {"compiled": True}),
    "DQN, compiled and double": ({}, {"compiled": True, "double": True}),
    "DQN, not compiled": ({}, {"compiled": False, "double": True}),
    "C51": ({"returns": "atoms", "atoms": 51}, {}),
    "QRDQN": ({"returns": "quantiles", "atoms": 20}, {}),
    "R2D1": ({"recurrent": "lstm", "recurrent_size": 8}, {"burn_in": 1, "length": 3, "n_steps": 1}),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_returns_do_not_go_on_with_what_cannot_be_played(name):
    pytest.importorskip("torch")
    from plangym_ext import learn

    net, options = LEARNERS[name]
    kind = getattr(learn, name.partition(",")[0])
    space = Tempting.observation_space, Tempting.action_space
    config = learn.QAgentConfig(**{"hidden": (8,), **net})
    network = learn.make_agent_network(*space, config, seed=0)
    promise(network)
    small = {"capacity": 400, "learning_starts": 8, "batch_size": 16, "learning_rate": 1e-3}
    algorithm = kind(network, kind.config_class(**{**small, **options}), seed=0)
    player = learn.QAgent(network, epsilon=0.5)
    options = {"backend": "serial", "autoreset_mode": "same_step", "check": False}
    with SerialSampler(make_vec([Tempting] * 2, **options), player, 8) as sampler:
        for round_ in range(6):
            algorithm.take(sampler.collect(version=round_))
            found = algorithm.train()
    if name != "R2D1":
        steps = algorithm._steps_of(algorithm.replay.sample(100))
        _, best = algorithm._following(steps)
        # Where a return ends, what would follow counts for nothing.
        assert (best[steps.discount > 0] < 2).all()
    # Returns are 4 at most. Were the last action followed, targets would be about 100.
    if name != "C51":
        assert found["train/q"] < 20
        assert found["train/loss"] < 10


def test_a_soft_policy_is_one_over_legal_actions_alone():
    torch = pytest.importorskip("torch")
    from plangym_ext import learn

    space = Tempting.observation_space, Tempting.action_space
    network = learn.make_agent_network(*space, learn.SoftPolicyConfig(hidden=(8,)), seed=0)
    small = {"capacity": 400, "learning_starts": 8, "batch_size": 16, "critic_hidden": (8,)}
    algorithm = learn.SAC(network, learn.SACConfig(**small), seed=0)
    with torch.no_grad():
        for module in algorithm.modules.values():
            for part in module.parameters():
                # The last axis of what critics say is that of actions.
                if part.ndim and part.shape[-1] == 3:
                    part[..., 2] += 100.0
    player = learn.PolicyAgent(network)
    options = {"backend": "serial", "autoreset_mode": "same_step", "check": False}
    with SerialSampler(make_vec([Tempting] * 2, **options), player, 8) as sampler:
        for round_ in range(6):
            algorithm.take(sampler.collect(version=round_))
            found = algorithm.train()
            assert all(np.isfinite(number) for number in found.values())
    assert found["train/critic_loss"] < 20
    assert found["train/q"] < 20
    # Of two actions of three, a policy has no more than this.
    assert found["train/entropy"] <= np.log(2) + 1e-5
