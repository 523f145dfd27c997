"""PPO, A2C and REINFORCE: what follows an end, what counts, and going on bit for bit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from fragment_table import ACTION, OBS, REWARD, B, T, advantages, fragment

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import ForeignNetwork, InvalidOption, LossNotFinite  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    A2C,
    PPO,
    PQN,
    REINFORCE,
    A2CConfig,
    ActorCriticAgent,
    AgentConfig,
    PPOConfig,
    QAgent,
    QAgentConfig,
    ReinforceConfig,
    Schedule,
    SerialSampler,
    VTrace,
    VTraceConfig,
    make_agent_network,
)
from plangym_ext.learn.agents.inputs import Inputs  # noqa: E402
from plangym_ext.learn.algorithms.rollouts.rollout import rollout_of  # noqa: E402
from plangym_ext.learn.distributions.categorical import Categorical  # noqa: E402
from plangym_ext.learn.engines.rows import Rows, minibatches  # noqa: E402
from plangym_ext.learn.networks.network import NetworkOutput  # noqa: E402
from plangym_ext.learn.sampling.collected import Collected, episode_rows  # noqa: E402
from plangym_ext.planners.plans import Budget  # noqa: E402

ALL = [A2C, PPO, REINFORCE, VTrace]


# A table ----------------------------------------------------------------------------------


class Table(torch.nn.Module):
    """Worth what it observes; two actions, whatever it observes."""

    inputs_used = ("obs", "first")
    distribution = Categorical(2)

    def __init__(self, *, values=True):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor([0.3, -0.2]))
        self.scale = torch.nn.Parameter(torch.ones(())) if values else None

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        logits = self.logits.expand(*inputs.first.shape, 2)
        value = None if self.scale is None else self.scale * inputs.obs[..., 0]
        return NetworkOutput(logits, value, None), None


def numbers(network):
    return {name: tensor.tolist() for name, tensor in network.state_dict().items()}


def collected(network, *, values=True, **changed):
    """Return what a sampler would, of the table."""
    with torch.no_grad():
        logs = network.logits.log_softmax(0).numpy()
    info = {"log_prob": logs[ACTION]}
    if values:
        info["value"] = OBS[:T]
    return fragment(info, **changed)


@pytest.mark.parametrize("kind", ALL)
def test_truncation_bootstraps_termination_does_not_and_the_end_of_the_fragment_does(kind):
    plain = {"discount": 0.9, "normalize_advantage": "none"}
    lam = {A2C: 0.5, PPO: 0.5}.get(kind, 1.0)
    if lam < 1:
        plain["gae_lambda"] = lam
    network = Table()
    algorithm = kind(network, kind.config_class(**plain))
    algorithm.take(collected(network))
    wanted = advantages(lam, 0.9)
    rows = algorithm._rows
    np.testing.assert_allclose(rows.advantage, wanted, rtol=1e-5)
    np.testing.assert_allclose(rows.target, wanted + OBS[:T], rtol=1e-5)


@pytest.mark.parametrize("kind", ALL)
def test_rows_that_were_not_played_change_nothing(kind):
    """The last two steps of the first env, after its episode ended, wait for the next fragment."""
    valid = np.ones((T, B), bool)
    valid[2:, 0] = False
    learned = []
    for waste in (0.0, 1e6):
        reward = np.where(valid, REWARD, waste)
        network = Table()
        algorithm = kind(network, kind.config_class(normalize_advantage="batch"), seed=3)
        algorithm.take(collected(network, valid=valid, reward=reward))
        assert algorithm.steps == 10
        found = algorithm.train()
        learned.append((numbers(network), found))
    assert learned[0] == learned[1]
    assert algorithm.updates > 0


def test_a_loss_of_one_update_is_the_one_by_hand():
    network = Table()
    config = A2CConfig(discount=0.9, value_weight=0.25, entropy_weight=0.1, max_grad_norm=None)
    algorithm = A2C(network, config)
    algorithm.take(collected(network))
    logs = torch.tensor([0.3, -0.2]).log_softmax(0).numpy()
    advantage = advantages(1.0, 0.9)
    policy = -(advantage * logs[ACTION]).mean()
    value = (advantage**2).mean()
    entropy = -(np.exp(logs) * logs).sum()
    found = algorithm.train()
    assert found["train/policy_loss"] == pytest.approx(policy, rel=1e-5)
    assert found["train/value_loss"] == pytest.approx(value, rel=1e-5)
    assert found["train/entropy"] == pytest.approx(entropy, rel=1e-5)
    assert found["train/loss"] == pytest.approx(policy + 0.25 * value - 0.1 * entropy, rel=1e-5)


def test_a_network_without_values_is_taught_by_whole_episodes_alone():
    network = Table(values=False)
    algorithm = REINFORCE(network, ReinforceConfig(discount=0.9, normalize_advantage="none"))
    algorithm.take(collected(network, values=False))
    rows = algorithm._rows
    # Steps 0 and 1 of the envs whose episodes ended there.
    assert rows.valid.tolist() == [[True, True, False]] * 2 + [[False] * 3] * 2
    np.testing.assert_allclose(rows.advantage[:2, :2], [[1 + 0.9 * 4, 2 + 0.9 * 5], [4, 5]])
    assert algorithm.train()["updates"] == 1


def test_what_cannot_be_learned_from_is_refused():
    network = Table(values=False)
    with pytest.raises(InvalidOption, match="value head"):
        PPO(network).take(collected(network, values=False))
    with pytest.raises(InvalidOption, match="config must be a PPOConfig; got a A2CConfig"):
        PPO(network, A2CConfig())
    with pytest.raises(InvalidOption, match="PPOConfig: minibatch must be one of step, env"):
        PPOConfig(minibatch="row")
    with pytest.raises(InvalidOption, match="normalize_advantage must be one of none, batch;"):
        A2CConfig(normalize_advantage="minibatch")
    with pytest.raises(InvalidOption, match="minibatch='env'"):
        PPO(agent_of(RECURRENT).network)
    network = Table()
    algorithm = A2C(network)
    algorithm.take(collected(network, reward=np.full((T, B), np.inf)))
    before = numbers(network)
    with pytest.raises(LossNotFinite, match="update 0"):
        algorithm.train()
    assert numbers(network) == before
    assert algorithm.updates == 0


# Minibatches ------------------------------------------------------------------------------


@pytest.mark.parametrize("minibatch", ["step", "env"])
def test_an_epoch_has_every_row_once_in_parts_of_nearly_one_size(minibatch):
    network = Table()
    algorithm = PPO(network, PPOConfig(minibatch=minibatch, batch_size=5, epochs=1))
    algorithm.take(collected(network))
    rows = algorithm._rows
    assert rows.valid is None
    by_step = minibatch == "step"
    parts = list(minibatches(rows.steps() if by_step else rows, 5, by_step=by_step))
    if by_step:
        assert [len(part.advantage) for part in parts] == [4, 4, 4]
    else:
        assert [part.advantage.shape for part in parts] == [(4, 1)] * 3
    drawn = torch.cat([part.inputs.obs.flatten() for part in parts])
    assert sorted(drawn.tolist()) == sorted(rows.inputs.obs.flatten().tolist())
    assert drawn.tolist() != rows.inputs.obs.flatten().tolist()


def test_minibatches_of_screens_have_their_channels_innermost():
    screens = spaces.Box(0, 255, (4, 36, 36), np.uint8)
    network = make_agent_network(screens, spaces.Discrete(3), AgentConfig(kind="nature"), seed=0)
    drawn = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (6, 4, 36, 36), np.uint8))
    number = torch.arange(6.0)
    rows = Rows(
        Inputs(drawn, None, None, torch.zeros(6, dtype=torch.bool)),
        *(number, number, None, number, number, None, None),
    )
    batch = PPO(network, PPOConfig(), seed=0).gradients.batch(rows)
    parts = list(minibatches(batch, 3, by_step=True))
    assert len(parts) == 2
    for part in parts:
        assert part.inputs.obs.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(part.inputs.obs, drawn[part.target.long()])


@pytest.mark.parametrize("most", [1, 5, 11, 12, 13])
def test_steps_that_are_looked_at_once_more_are_spread_over_all(most):
    network = Table()
    algorithm = PPO(network)
    algorithm.take(collected(network))
    rows = algorithm._rows.steps()
    assert len(rows.target) == 12
    found = rows._replace(target=torch.arange(12.0)).spread(most).target.tolist()
    assert len(found) == min(most, 12)
    assert found == sorted(set(found))
    assert max(np.diff([*found, 12])) - min(np.diff([*found, 12])) <= 1


def test_epochs_end_where_the_policy_has_moved_too_far():
    def updates(target):
        network = Table()
        config = PPOConfig(learning_rate=0.1, batch_size=6, epochs=4, target_kl=target)
        algorithm = PPO(network, config)
        algorithm.take(collected(network))
        algorithm.train()
        return algorithm.updates

    assert updates(None) == 8
    # The first minibatch is of the policy that played; the second is not.
    assert updates(1e-9) == 1


def test_a_round_whose_first_minibatch_is_too_far_makes_no_update():
    network = Table()
    algorithm = PPO(network, PPOConfig(learning_rate=0.1, batch_size=6, target_kl=1e-9))
    algorithm.take(collected(network))
    with torch.no_grad():  # as where a layer draws, such as a dropout
        for parameter in network.parameters():
            parameter += torch.linspace(0.0, 3.0, parameter.numel()).view_as(parameter)
    found = algorithm.train()
    assert algorithm.updates == 0
    assert "train/loss" not in found


def test_numbers_follow_their_schedules():
    schedule = Schedule(start=0.4, end=0.1, over=2)
    network = Table()
    algorithm = PPO(
        network,
        PPOConfig(learning_rate=schedule, clip=schedule, value_clip=0.3, epochs=1),
    )
    for rate, clip in ((0.4, 0.25), (0.25, 0.1), (0.1, 0.1)):  # before and after the update
        algorithm.take(collected(network))
        found = algorithm.train()
        assert found["train/learning_rate"] == pytest.approx(rate)
        assert found["train/clip"] == pytest.approx(clip)


# With samplers ----------------------------------------------------------------------------

RECURRENT = AgentConfig(
    hidden=(8,), recurrent="lstm", recurrent_size=6, previous_action=True, previous_reward=True
)


def spaces_of(name="CartPole-v1"):
    with make_vec(name, 1, autoreset_mode="same_step") as venv:
        return venv.single_observation_space, venv.single_action_space


def agent_of(config, name="CartPole-v1", seed=4):
    return ActorCriticAgent(make_agent_network(*spaces_of(name), config, seed=seed))


def rounds(sampler, algorithm, count):
    found = []
    for _ in range(count):
        algorithm.take(sampler.collect(version=algorithm.updates))
        found.append(algorithm.train())
    return found


@pytest.mark.parametrize("network", [AgentConfig(hidden=(8,)), RECURRENT])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_the_learner_finds_the_policy_that_played(network, name):
    """Ratios are 1 and values those of the sampler, over ends and with carries too."""
    agent = agent_of(network, name)
    with SerialSampler(make_vec(name, 5, autoreset_mode="same_step"), agent, 30) as sampler:
        for _ in range(2):
            fragment = sampler.collect()
        rows = rollout_of(fragment.data, agent.network)
        out, _ = agent.network(rows.inputs, rows.carry)
        log_prob = agent.distribution.log_prob(out.policy_logits, rows.action)
        torch.testing.assert_close(log_prob, rows.log_prob)
        torch.testing.assert_close(out.value, rows.value)


def test_a_truncated_row_of_a_recurrent_network_has_the_value_that_the_carry_leads_to():
    """Played step by step with `agent.step`, and asked with `agent.value`, as a sampler would."""
    agent, rows = agent_of(RECURRENT), 4
    venv = make_vec("CartPole-v1", rows, autoreset_mode="same_step", max_episode_steps=7)
    with SerialSampler(venv, agent, 16, seed=5) as sampler:
        tree = sampler.collect().data
        found = rollout_of(tree, agent.network).ends
        data = tree.to_ndarray()
        # Episodes of at most 7 steps: all are cut before the pole falls.
        assert data["truncated"].any()
        carry = {name: part.copy() for name, part in data["carry"].items()}
        nothing = np.zeros(rows, bool)
        agent.set_mode("eval")
        for t in range(16):
            before = ("obs", "prev_action", "prev_reward", "first")
            shown = Inputs(*(data[name][t] for name in before))
            carry = agent.step(shown, carry).carry
            after = Inputs(data["final_obs"][t], data["action"][t], data["reward"][t], nothing)
            wanted = np.where(data["truncated"][t], agent.value(after, carry), 0)
            np.testing.assert_allclose(found["final_value"][t], wanted, atol=1e-6)
        last = Inputs(*(tree[name][0:17].to_ndarray()[16] for name in before))
        np.testing.assert_allclose(found["bootstrap"], agent.value(last, carry), atol=1e-6)


def test_states_of_others_are_refused():
    network = Table()
    algorithm = PPO(network)
    with pytest.raises(ForeignNetwork, match="the trainer 'A2C'; here it is 'PPO'"):
        algorithm.load_state_dict(A2C(Table()).state_dict())
    with pytest.raises(ForeignNetwork, match="the optimizer 'sgd'"):
        algorithm.load_state_dict(PPO(Table(), PPOConfig(optimizer="sgd")).state_dict())


def test_observations_and_actions_may_be_nested():
    observed = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    played = spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2,))))
    network = make_agent_network(observed, played, AgentConfig(hidden=(8,)), seed=0)

    class Spaces:
        single_observation_space, single_action_space, num_envs = observed, played, 3

    from plangym_ext.learn import build_sample_tree

    agent = ActorCriticAgent(network)
    tree = build_sample_tree(Spaces(), agent, 4, 3)
    tree["reward"][...] = 1.0
    algorithm = PPO(network, PPOConfig(epochs=1))
    algorithm.take(Collected(tree, episode_rows([], [], []), Budget(model_steps=12), 0))
    assert np.isfinite(algorithm.train()["train/loss"])


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (
            VTraceConfig,
            {"ratio_clip": 0.0},
            "ratio_clip must be .* above 0; got 0.0. None: there",
        ),
        (
            VTraceConfig,
            {"trace_clip": 0.0},
            "trace_clip must be .* above 0; got 0.0. None: there",
        ),
        (
            PPOConfig,
            {"target_kl": 0.0},
            "target_kl must be .* above 0; .* None: no epoch ends",
        ),
        (PPOConfig, {"max_grad_norm": 0.0}, "max_grad_norm must be a finite number above 0"),
        (A2CConfig, {"clip_reward": 0.0}, "clip_reward must be a finite number above 0"),
        (A2CConfig, {"clip_reward": -1.0}, "clip_reward must be a finite number above 0"),
        (PPOConfig, {"advantages": "forked"}, r"must be an AdvantageConfig, .*; got 'forked'"),
    ],
)
def test_settings_from_which_nothing_is_learned_are_refused(config, options, message):
    with pytest.raises(InvalidOption, match=message):
        config(**options)


@pytest.mark.parametrize("num_envs", [3, 16])
@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
@pytest.mark.parametrize("kind", [PPO, A2C, VTrace, PQN])
def test_spaces_need_not_begin_at_0(kind, on_end, num_envs):
    class Begins(gym.Env):
        observation_space = spaces.Dict(a=spaces.Discrete(4, start=1), b=spaces.Discrete(2))
        action_space = spaces.Discrete(3, start=5)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"a": np.int64(1), "b": np.int64(0)}, {}

        def step(self, action):
            assert self.action_space.contains(action)
            seen = {"a": np.int64(1 + self.np_random.integers(4)), "b": np.int64(1)}
            return seen, 1.0, bool(self.np_random.random() < 0.2), False, {}

    q = kind is PQN
    venv = make_vec(Begins, num_envs, backend="serial", autoreset_mode="same_step")
    settings = (QAgentConfig if q else AgentConfig)(hidden=(8,))
    network = make_agent_network(
        venv.single_observation_space, venv.single_action_space, settings, seed=0
    )
    by_env = {"minibatch": "env"} if kind in (PPO, PQN) else {}
    algorithm = kind(network, kind.config_class(**by_env), seed=0)
    player = (QAgent if q else ActorCriticAgent)(network)
    with SerialSampler(venv, player, 8, seed=0, on_end=on_end) as sampler:
        algorithm.take(sampler.collect())
        assert algorithm.train()["updates"] > 0
