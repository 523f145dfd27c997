"""SAC, TD3 and DDPG: endings, whose weights an update changes, and going on bit for bit."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402
from off_policy_tasks import goes_on_bit_for_bit, rounds  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.utils import parameters_to_vector  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import InvalidOption  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    DDPG,
    SAC,
    TD3,
    TQC,
    AgentConfig,
    CrossQ,
    DeterministicPolicyConfig,
    PolicyAgent,
    Schedule,
    SerialSampler,
    SoftPolicyConfig,
    make_agent_network,
)
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps  # noqa: E402

ALGORITHMS = {
    "sac": (SAC, SoftPolicyConfig),
    "tqc": (TQC, SoftPolicyConfig),
    "crossq": (CrossQ, SoftPolicyConfig),
    "td3": (TD3, DeterministicPolicyConfig),
    "ddpg": (DDPG, DeterministicPolicyConfig),
}
SMALL = {"capacity": 400, "learning_starts": 8, "batch_size": 8, "critic_hidden": (16,)}
#: A TQC that drops no quantile, whose values then are means.
TRUTHFUL = {"temperature": 1e-8, "learn_temperature": False, "quantiles": 4, "dropped": 0}


class Corridor(gym.Env):
    """Three steps of reward 1, whatever is done, then the end: the state, or the time, is over."""

    observation_space = spaces.Discrete(3)

    def __init__(self, *, terminates=True, discrete=False):
        self.terminates = terminates
        low, high = np.array([-3, 0], np.float32), np.array([3, 1], np.float32)
        self.action_space = spaces.Discrete(2, start=5) if discrete else spaces.Box(low, high)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.count += 1
        over = self.count == 3
        # Without an end one would stand in the first place again.
        return self.count % 3, 1.0, over and self.terminates, over and not self.terminates, {}


def corridors(count=4, **options):
    return make_vec(
        [lambda: Corridor(**options)] * count, backend="serial", autoreset_mode="same_step"
    )


def made(venv, name, *, seed=0, network=None, **options):
    """Return agent and algorithm for a vector env."""
    algorithm, config = ALGORITHMS[name]
    space = venv.single_observation_space, venv.single_action_space
    net = make_agent_network(*space, config(**{"hidden": (16,), **(network or {})}), seed=seed)
    settings = algorithm.config_class(**{**SMALL, **options})
    return PolicyAgent(net), algorithm(net, settings, seed=seed)


# Endings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize(
    ("name", "discrete", "options"),
    [
        ("sac", False, {"temperature": 1e-8, "learn_temperature": False}),
        ("sac", True, {"temperature": 1e-8, "learn_temperature": False, "prioritized": True}),
        ("tqc", False, TRUTHFUL),
        ("td3", False, {"n_steps": 2}),
        ("ddpg", False, {}),
    ],
)
def test_terminated_returns_end_and_truncated_ones_go_on(name, discrete, options, terminates):
    settings = {
        "discount": 0.8,
        "learning_rate": Schedule(start=0.15, end=0.003, over=180),
        # Critics that are a number per place and one per action.
        "critic_hidden": (),
        "target_every": 2,
        "target_rate": 0.5,
        "updates_per_step": 2,
        "policy_every": 1000,
        "capacity": 60,
        "batch_size": 16,
        **options,
    }
    with corridors(terminates=terminates, discrete=discrete) as venv:
        agent, algorithm = made(venv, name, **settings)
        with SerialSampler(venv, agent, 4, seed=0) as sampler:
            rounds(sampler, agent, algorithm, 7)
        places = torch.arange(3)
        action = None if discrete else torch.tensor([[0.0, 0.5]]).repeat(3, 1)
        q = algorithm.modules["critics"](places, action)
        q = q.mean(dim=2) if name == "tqc" else q
    wanted = [1 + 0.8 + 0.64, 1.8, 1.0] if terminates else [5.0, 5.0, 5.0]
    for critic in q:
        values = critic.detach().numpy()
        values = values.T if discrete else values[None]
        np.testing.assert_allclose(values, np.tile(wanted, (len(values), 1)), atol=0.1)


# Whose weights ----------------------------------------------------------------------------


def steps(rows=8, *, discrete=False):
    rng = np.random.default_rng(0)
    places = torch.from_numpy(rng.integers(3, size=rows))
    action = 5 + places % 2 if discrete else torch.from_numpy(rng.random((rows, 2), np.float32))
    number = torch.from_numpy(rng.random(rows, np.float32))
    return Steps(places, action, number, 0.9 * torch.ones(rows), (places + 1) % 3, None)


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.state_dict().values()]).clone()


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_critics_change_no_policy_and_the_policy_no_critics(name, discrete):
    if discrete and name != "sac":
        return
    with corridors(1, discrete=discrete) as venv:
        _, algorithm = made(
            venv, name, policy_every=2, target_every=3, network={"init": "orthogonal"}
        )
    parts = {"policy": algorithm.network, **algorithm.modules}
    changed = []
    for number in range(6):
        before = {part: weights(module) for part, module in parts.items()}
        algorithm._update(steps(discrete=discrete))
        algorithm.updates += 1
        now = {part: weights(module) for part, module in parts.items()}
        changed.append({part for part in parts if not torch.equal(before[part], now[part])})
        learned = {"policy"} | ({"temperature"} if "temperature" in parts else set())
        targets = {part for part in parts if part.startswith("target")}
        assert changed[-1] == (
            {"critics"}
            | (learned if number % 2 else set())
            | (targets if number % 3 == 2 else set())
        )
    for module in (algorithm.network, *algorithm.modules.values()):
        assert all(p.grad is None for p in module.parameters())


@pytest.mark.parametrize(("own", "rate"), [(None, 1e-3), (0.0, 0.0), (1e-2, 1e-2)])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_critics_may_have_a_rate_of_their_own(name, own, rate):
    options = {"learning_rate": 1e-3, "critic_learning_rate": own, "max_grad_norm": None}
    with corridors(1) as venv:
        _, algorithm = made(venv, name, **options, policy_every=1, epsilon=1e-8)
    parts = {"policy": algorithm.network, "critics": algorithm.modules["critics"]}
    # Parameters alone: the statistics of CrossQ's batches have no rate.
    before = {part: parameters_to_vector(one.parameters()).clone() for part, one in parts.items()}
    algorithm._update(steps())
    for part, size in (("policy", 1e-3), ("critics", rate)):
        moved = (parameters_to_vector(parts[part].parameters()) - before[part]).detach().abs().max()
        # The first step of Adam has the size of the rate, whatever the gradient.
        assert float(moved) == pytest.approx(size, rel=0.1)


@pytest.mark.parametrize("compiled", [True, False])
def test_means_are_of_the_updates_that_log_them(compiled, monkeypatch):
    with corridors(1) as venv:
        options = {"policy_every": 4, "learning_starts": 0, "updates_per_step": 1}
        agent, algorithm = made(venv, "td3", **options, compiled=compiled)
        update, losses = algorithm._update_policy, []

        def noted(steps):
            found = update(steps)
            losses.append(float(found["policy_loss"]))
            return found

        monkeypatch.setattr(algorithm, "_update_policy", noted)
        with SerialSampler(venv, agent, 9, seed=0) as sampler:
            logged = rounds(sampler, agent, algorithm, 1)
    assert len(losses) == 2
    assert logged["train/policy_loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_policy_climbs_the_critics_and_keeps_its_entropy():
    """A critic that wants the first number of an action large, and nothing of the second."""
    with corridors(1) as venv:
        rate = Schedule(start=0.03, end=0.003, over=250)
        _, algorithm = made(venv, "sac", learning_rate=rate, critic_hidden=(), temperature=0.1)
    with torch.no_grad():
        for part in [*algorithm.modules["critics"].weights, *algorithm.modules["critics"].biases]:
            part.zero_()
        algorithm.modules["critics"].weights[0][:, 0, 3] = 1.0
    drawn = steps(256)
    for _ in range(250):
        with torch.no_grad():
            algorithm._update_policy(drawn)
        algorithm.updates += 1
    params = algorithm.engine.params(torch.arange(3))
    entropy = algorithm.network.distribution.entropy(params)
    assert (params[:, 0] > 0.5).all()
    assert params[:, 1].abs().max() < 0.3
    assert entropy.detach().numpy() == pytest.approx(-2.0, abs=0.2)


@pytest.mark.parametrize(("share", "rises"), [(0.5, False), (None, True)])
def test_the_temperature_of_discrete_actions_follows_the_entropy(share, rises):
    with corridors(1, discrete=True) as venv:
        target = None if share is None else share * math.log(2)
        _, algorithm = made(venv, "sac", learning_rate=0.01, target_entropy=target)
    assert algorithm._target_entropy == pytest.approx((share or 0.89) * math.log(2))
    with torch.no_grad():
        # An entropy of 0.7 times the most.
        algorithm.network.heads.bias[0] = 1.47
    before = algorithm.modules["temperature"].log.item()
    with torch.no_grad():
        algorithm._update_policy(steps(discrete=True))
    assert (algorithm.modules["temperature"].log.item() > before) == rises


class Masked(Corridor):
    """Two of eight actions may be played."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(8)

    def masked(self, info):
        return info | {"action_mask": np.array([1, 1, 0, 0, 0, 0, 0, 0], np.int8)}

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return obs, self.masked(info)

    def step(self, action):
        assert action < 2
        *found, info = super().step(action)
        return *found, self.masked(info)


def test_no_more_entropy_is_asked_for_than_masks_allow():
    with make_vec([Masked] * 2, backend="serial", autoreset_mode="same_step") as venv:
        agent, algorithm = made(venv, "sac", learning_rate=0.02, learning_starts=20)
        with SerialSampler(venv, agent, 25, seed=0) as sampler:
            found = rounds(sampler, agent, algorithm, 8)
    # The policy is uniform over what may be played: its entropy is the most, and above its target.
    assert found["train/entropy"] <= math.log(2) + 1e-5
    assert found["train/temperature"] < 1.0


def test_targets_of_td3_are_of_smoothed_actions_and_the_lower_critic():
    with corridors(1) as venv:
        _, algorithm = made(venv, "td3", critic_hidden=(), target_noise=0.2, target_noise_clip=0.3)
    critics = algorithm.modules["target_critics"]
    with torch.no_grad():
        for part in [*critics.weights, *critics.biases]:
            part.zero_()
        critics.weights[0][0, 0, 3] = 1.0  # one says the first number of the action
        critics.weights[0][1, 0, 3] = -1.0  # and one the opposite
    drawn = steps(4000)
    target = (algorithm._target(drawn) - drawn.reward) / 0.9
    # Minus the size of the noise, as a fresh policy plays 0.
    assert (target <= 0).all()
    assert target.min().item() == pytest.approx(-0.3)
    clipped = (target < -0.2999).float().mean().item()
    assert clipped == pytest.approx(math.erfc(1.5 / math.sqrt(2)), abs=0.02)


def numbers_of(*shape):
    return torch.from_numpy(np.random.default_rng(1).normal(size=shape).astype(np.float32))


def test_tqc_drops_the_largest_of_all_quantiles(monkeypatch):
    """Beside a loop over rows, in numpy."""
    with corridors(1) as venv:
        options = {"quantiles": 3, "dropped": 1, "critics": 2, "temperature": 0.5}
        _, algorithm = made(venv, "tqc", **options)
    drawn, following, played = steps(4), numbers_of(2, 4, 3), numbers_of(2, 4, 3) + 0.3
    log_prob, gradients = numbers_of(4), []
    monkeypatch.setattr(algorithm, "_drawn", lambda params: (None, log_prob))
    monkeypatch.setattr(algorithm.engine, "next_values", lambda obs, action: following)
    monkeypatch.setattr(algorithm.engine, "played_values", lambda obs, action: played.clone())
    monkeypatch.setattr(algorithm.engine, "learn_critics", gradients.append)
    with torch.no_grad():
        target = algorithm._target(drawn)
        logged, _ = algorithm._update_critics(drawn, target)
    wanted, gradient = 0.0, np.zeros((2, 4, 3))
    for n in range(4):
        kept = sorted(following[:, n].flatten().tolist())[:4]
        kept = [drawn.reward[n] + 0.9 * (z - 0.5 * log_prob[n]) for z in kept]
        np.testing.assert_allclose(target[n], kept, rtol=1e-5)
        for e, i, z in np.ndindex(2, 3, 4):
            error = float(kept[z] - played[e, n, i])
            share = abs((i + 0.5) / 3 - (error < 0))
            size = 0.5 * error**2 if abs(error) < 1 else abs(error) - 0.5
            wanted += share * size / (2 * 4 * 3 * 4)
            gradient[e, n, i] -= share * np.clip(error, -1, 1) / (2 * 4 * 3 * 4)
    assert logged["critic_loss"] == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(gradients[0], gradient, atol=1e-6)


def test_the_policy_of_tqc_climbs_the_mean_of_all_quantiles():
    with corridors(1) as venv:
        _, algorithm = made(venv, "tqc", quantiles=5)
    z = numbers_of(2, 8, 5).requires_grad_()
    value, gradient = algorithm._rated(z)
    assert value.detach().numpy() == pytest.approx(z.detach().numpy().mean(axis=(0, 2)))
    (wanted,) = torch.autograd.grad(-value.mean(), z)
    torch.testing.assert_close(gradient, wanted)


def test_critics_of_crossq_learn_from_what_they_say_of_both_halves_of_a_batch():
    """Beside torch's batch norm, one critic after the other, by autograd."""
    with corridors(1) as venv:
        _, algorithm = made(venv, "crossq", temperature=0.5)
    critics, drawn = algorithm.modules["critics"], steps(16)
    action, log_prob = numbers_of(16, 2).tanh(), numbers_of(16)
    found = []
    algorithm.engine.learn_critics = lambda d_q: found.append(
        torch.autograd.grad(algorithm.engine._played, list(critics.parameters()), d_q)
    )
    with torch.no_grad():
        logged, _ = algorithm._update_critics(drawn, (action, 0.5 * log_prob))
    played = critics.action(drawn.action)
    rows = torch.cat(
        [
            functional.one_hot(torch.cat([drawn.obs, drawn.next_obs]), 3),
            torch.cat([played, action]),
        ],
        1,
    )
    q = []
    for e in range(2):
        x = rows
        for i, norm in enumerate(critics.renorms):
            layer = norm.scales[e], norm.offsets[e]
            x = functional.batch_norm(x, None, None, *layer, training=True, eps=1e-3)
            x = functional.linear(x, critics.weights[i][e], critics.biases[i][e])
            x = x.relu() if i == 0 else x
        q.append(x[:, 0])
    now, following = torch.stack(q).chunk(2, dim=1)
    target = drawn.reward + 0.9 * (following.amin(dim=0) - 0.5 * log_prob)
    loss = 0.5 * sum(functional.mse_loss(one, target.detach()) for one in now)
    assert logged["critic_loss"].item() == pytest.approx(loss.item(), rel=1e-4)
    wanted = torch.autograd.grad(loss, list(critics.parameters()))
    for one, other in zip(found[0], wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    assert not critics.training
    assert int(critics.renorms[0].batches) == 1


def test_ddpg_is_td3_with_other_settings():
    with corridors(1) as venv:
        same = {"critics": 1, "policy_every": 1, "target_every": 1, "target_noise": 0.0}
        _, td3 = made(venv, "td3", **same)
        _, ddpg = made(venv, "ddpg", target_rate=0.005)
    for _ in range(3):
        for algorithm in (td3, ddpg):
            algorithm._update(steps())
            algorithm.updates += 1
    assert torch.equal(weights(td3.network), weights(ddpg.network))


def test_the_noise_of_the_agent_is_that_of_the_config():
    with corridors(2) as venv:
        over = Schedule(start=0.4, end=0.0, over=8)
        agent, algorithm = made(venv, "td3", exploration=over, learning_starts=0)
        seen = []
        with SerialSampler(venv, agent, 1, seed=0) as sampler:
            for _ in range(4):
                rounds(sampler, agent, algorithm, 1)
                seen.append(agent.exploration)
    assert seen == pytest.approx([0.4, 0.3, 0.2, 0.1])


# Going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sac", {"n_steps": 2, "prioritized": True}),
        ("sac", {"precision": "bfloat16"}),
        ("tqc", {"prioritized": True}),
        ("crossq", {}),
        ("td3", {}),
        ("td3", {"critic_layer_norm": True}),
        ("ddpg", {}),
        ("discrete", {}),
    ],
)
def test_a_saved_algorithm_goes_on_bit_for_bit(name, options):
    discrete = name == "discrete"

    def begin():
        venv = corridors(3, discrete=discrete)
        return venv, *made(venv, "sac" if discrete else name, seed=5, **options)

    goes_on_bit_for_bit(begin, whole=5, before=2, least=20)


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_normalised_observations_are_what_all_networks_see(name):
    def begin():
        venv = make_vec("Pendulum-v1", 3, autoreset_mode="same_step")
        return venv, *made(venv, name, seed=5, network={"normalize_obs": True})

    goes_on_bit_for_bit(begin, whole=5, before=2, least=20)
    venv, agent, algorithm = begin()
    with SerialSampler(venv, agent, 4, seed=0) as sampler:
        rounds(sampler, agent, algorithm, 4)
        seen = torch.from_numpy(sampler.tree["obs"].to_ndarray()[:3, 0])
        action = torch.zeros(3, 1)
    normalizer, critics = agent.network.normalizer, algorithm.modules["critics"]
    assert float(normalizer.parts[0].count) == 4 * 4 * 3
    assert not torch.allclose(normalizer(seen), seen)
    found = critics(seen, action)
    # What follows is compared by the same units.
    theirs = algorithm.modules["target_critics"]
    with torch.no_grad():
        for mine, other in zip(critics.parameters(), theirs.parameters(), strict=True):
            other.copy_(mine)
    torch.testing.assert_close(theirs(seen, action), found)
    critics.normalizer = None
    torch.testing.assert_close(critics(normalizer(seen), action), found)


@pytest.mark.parametrize("options", [{"image_channels": "last"}, {"kind": "mlp"}])
def test_critics_see_images_as_the_policy_does(options):
    image = spaces.Box(0, 255, (10, 10, 10), np.uint8)  # of which every axis may be the channels
    policy = SoftPolicyConfig(**options)
    network = make_agent_network(image, spaces.Discrete(4), policy, seed=0)
    critics = SAC(network, seed=0).modules["critics"].parts
    mine = network.body.parts
    assert (critics.kind, critics.width) == (mine.kind, mine.width)
    rows = torch.from_numpy(np.random.default_rng(0).integers(256, size=(2, *image.shape)))
    encoded = [(parts[0][0] if len(parts[0]) else parts[0])(rows) for parts in (critics, mine)]
    assert torch.equal(*encoded)


# What cannot be ---------------------------------------------------------------------------


def test_policies_that_cannot_be_learned_are_refused():
    with corridors(1) as venv, corridors(1, discrete=True) as other:
        space = venv.single_observation_space, venv.single_action_space
        with pytest.raises(InvalidOption, match="must be a SquashedGaussian or a Categorical"):
            SAC(make_agent_network(*space, AgentConfig(), seed=0))
        with pytest.raises(InvalidOption, match="DeterministicActions of a Box"):
            TD3(make_agent_network(*space, SoftPolicyConfig(), seed=0))
        with pytest.raises(InvalidOption, match="DeterministicActions of a Box"):
            made(other, "ddpg")
        with pytest.raises(InvalidOption, match="policy head"):
            made(venv, "sac", network={"heads": ("value",)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "float16"}, "precision must be one of float32, bfloat16"),
        ({"critics": 0}, "critics must be an integer"),
        ({"critic_hidden": (4, 0)}, r"critic_hidden\[1\] must be an integer >= 1; got 0"),
        ({"temperature": 0.0}, "temperature must be a finite number"),
        ({"policy_every": 0}, "policy_every must be an integer"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        SAC.config_class(**options)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_all_networks_are_where_the_policy_is(name):
    algorithm_class, policy = ALGORITHMS[name]
    space = spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (2,))
    # Of this device tensors have no numbers; what is made elsewhere cannot be joined with them.
    network = make_agent_network(*space, policy(), seed=0).to("meta")
    algorithm = algorithm_class(network)
    parts = [part for one in algorithm.modules.values() for part in one.state_dict().values()]
    assert {part.device.type for part in parts} == {"meta"}
