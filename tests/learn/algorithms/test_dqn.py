"""DQN and what algorithms with a replay share: endings, updates that are owed, resuming."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402
from off_policy_tasks import Corridor, goes_on_bit_for_bit, rounds  # noqa: E402
from sampling_envs import oracle_venv  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.errors import ForeignNetwork, InvalidOption, LossNotFinite  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    C51,
    DQN,
    QRDQN,
    DQNConfig,
    QAgent,
    QAgentConfig,
    Rainbow,
    Schedule,
    SerialSampler,
    StepReplay,
    WorkerSampler,
    make_agent_network,
)
from plangym_ext.learn.agents.inputs import example_inputs  # noqa: E402
from plangym_ext.learn.algorithms.off_policy.drawn_steps import TargetNetwork  # noqa: E402
from plangym_ext.learn.distributions.categorical import Categorical  # noqa: E402
from plangym_ext.learn.losses.q_values import chosen  # noqa: E402
from plangym_ext.learn.networks.bodies import (  # noqa: E402
    NoisyLinear,
    num_factors,
    reset_noise,
    row_noise,
)
from plangym_ext.learn.networks.network import NetworkOutput  # noqa: E402
from plangym_ext.learn.networks.quick_forward import shown  # noqa: E402
from plangym_ext.learn.sampling.noise import RowNoise  # noqa: E402

SMALL = {"capacity": 400, "learning_starts": 16, "batch_size": 8, "target_every": 5}


def made(venv, *, seed=0, network=None, kind=DQN, **options):
    """Return agent and algorithm for a vector env."""
    made_of = QAgentConfig(**{"hidden": (16,), **(network or {})})
    space = venv.single_observation_space, venv.single_action_space
    net = make_agent_network(*space, made_of, seed=seed)
    return QAgent(net), kind(net, kind.config_class(**{**SMALL, **options}), seed=seed)


# Endings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
@pytest.mark.parametrize("n", [1, 3])
def test_nothing_that_is_drawn_crosses_the_end_of_an_episode(on_end, n):
    """Observations of the oracle are (env, episode, step): what follows is k steps later."""
    venv = oracle_venv(3)
    agent, _ = made(venv, network={"kind": "mlp"})
    agent.epsilon = 1.0
    replay = StepReplay(60, n_steps=n, discount=0.5, seed=0)
    with SerialSampler(venv, agent, 7, seed=0, on_end=on_end) as sampler:
        for _ in range(6):
            replay.add(sampler.collect().data)
            newest = sampler.tree["obs"][7].to_ndarray()
            samples = replay.sample(150).samples
            for obs, action, reward, discount, after in zip(*samples.values(), strict=True):
                env, episode, count = obs
                last = 2 + (env + 2 * episode) % 4
                now = newest[int(env)]
                if now[1] == episode:
                    last = min(last, now[2])
                k = min(n, last - count)
                assert after.tolist() == [env, episode, count + k]
                over = count + k == 2 + (env + 2 * episode) % 4
                terminates = over and (env + episode) % 2 == 0
                assert discount == (0.0 if terminates else 0.5**k)
                first = 100 * env + 10 * episode + count + 1 + action / 10
                assert k > 1 or reward == pytest.approx(first)


class Table(torch.nn.Module):
    """A Q value for each place and action."""

    inputs_used = ("obs",)
    distribution = Categorical(2, 5)

    def __init__(self):
        super().__init__()
        self.q = torch.nn.Parameter(torch.zeros(3, 2))

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        return NetworkOutput(None, None, self.q[inputs.obs]), None


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"n_steps": 2, "double": True, "prioritized": True, "loss": "squared", "beta": 1.0}],
)
def test_terminated_returns_end_and_truncated_ones_go_on(terminates, options):
    venv = make_vec(
        [lambda: Corridor(terminates=terminates)] * 4,
        backend="serial",
        autoreset_mode="same_step",
    )
    config = {
        "discount": 0.8,
        "learning_rate": Schedule(start=0.1, end=0.003, over=350),
        "exploration": 1.0,
        "target_every": 2,
        "target_rate": 0.5,
        "max_grad_norm": None,
        "updates_per_step": 4,
        "capacity": 60,
        **options,
    }
    table = Table()
    agent, algorithm = QAgent(table), DQN(table, DQNConfig(**{**SMALL, **config}), seed=0)
    with SerialSampler(venv, agent, 4, seed=0) as sampler:
        rounds(sampler, agent, algorithm, 7)
    wanted = [1 + 0.8 + 0.64, 1.8, 1.0] if terminates else [5.0, 5.0, 5.0]
    np.testing.assert_allclose(table.q.detach().numpy(), np.tile(wanted, (2, 1)).T, atol=0.05)


ATOMS = {"returns": "atoms", "atoms": 41, "return_range": (0.0, 8.0)}
HEADS = {
    C51: ATOMS,
    QRDQN: {"returns": "quantiles", "atoms": 8},
    Rainbow: {**ATOMS, "dueling": True, "noisy": True},
}


@pytest.mark.parametrize(("kind", "terminates"), [(C51, True), (QRDQN, True), (Rainbow, False)])
def test_distributions_of_returns_have_their_means(kind, terminates):
    makes = [lambda: Corridor(terminates=terminates)] * 4
    venv = make_vec(makes, backend="serial", autoreset_mode="same_step")
    options = {
        "discount": 0.8,
        "learning_rate": 0.02,
        "exploration": 1.0,
        "target_every": 2,
        "target_rate": 0.5,
        "updates_per_step": 4,
        "capacity": 60,
    }
    agent, algorithm = made(venv, network=HEADS[kind], kind=kind, **options)
    with SerialSampler(venv, agent, 4, seed=0) as sampler:
        rounds(sampler, agent, algorithm, 6)
        agent.set_mode("eval")
        q, _ = agent.network(shown(torch.arange(3)))
    wanted = [1 + 0.8 + 0.64, 1.8, 1.0] if terminates else [5.0, 5.0, 5.0]
    np.testing.assert_allclose(q.q.detach().numpy(), np.tile(wanted, (2, 1)).T, rtol=0.12)
    assert q.returns.shape == (3, 2, HEADS[kind]["atoms"])


def test_quantiles_of_far_targets_have_absolute_errors_and_of_near_ones_squared():
    losses = {}
    for kappa in (1.0, 1e-3, 1e6):
        with make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step") as venv:
            agent, algorithm = made(venv, kind=QRDQN, network=HEADS[QRDQN], kappa=kappa)
            with SerialSampler(venv, agent, 8, seed=0) as sampler:
                algorithm.take(sampler.collect())
            steps = algorithm._steps_of(algorithm.replay.sample(8))
            losses[kappa] = float(algorithm._loss(steps).loss.detach())
    out, best = algorithm._following(steps)
    target = steps.reward[:, None] + steps.discount[:, None] * chosen(out.returns, best)
    played = chosen(algorithm.network(shown(steps.obs))[0].returns, steps.action)
    error = (target[:, None] - played[:, :, None]).detach()
    shares = (torch.arange(8) + 0.5)[:, None] / 8
    weight = (shares - (error < 0).float()).abs()

    def mean(rows):
        return float((weight * rows).sum(1).mean())

    assert losses[1e-3] == pytest.approx(mean(error.abs()), rel=2e-2)
    assert losses[1e6] == pytest.approx(mean(error**2) / 2e6, rel=1e-3)
    assert losses[1.0] == pytest.approx(
        mean(torch.where(error.abs() < 1, error**2 / 2, error.abs() - 0.5)), rel=1e-3
    )


def test_an_algorithm_refuses_the_head_of_another():
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    with venv:
        for kind, network in ((C51, HEADS[QRDQN]), (QRDQN, ATOMS), (Rainbow, ATOMS), (C51, {})):
            with pytest.raises(InvalidOption, match="must have a Q head as QAgentConfig"):
                made(venv, kind=kind, network=network)


# Noise --------------------------------------------------------------------------------------


def test_noise_explores_and_is_off_in_evaluation():
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    noisy = {"noisy": True, "init": "orthogonal"}
    agent, algorithm = made(venv, network=noisy, learning_starts=0, updates_per_step=0.25)
    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        inputs = example_inputs(venv.single_observation_space, venv.single_action_space, 3)
        agent.set_mode("eval")
        quiet = agent.step(inputs, None).info["q"]
        assert (quiet == quiet[0]).all()
        before = {k: v.clone() for k, v in agent.network.state_dict().items() if "factor" in k}
        rounds(sampler, agent, algorithm, 1)
        assert algorithm.updates == 1
        after = agent.network.state_dict()
        assert len(before) == 4
        assert all((after[name] != before[name]).all() for name in before)
        learned = algorithm.optimizers["q"].state_dict()
        assert all(part["exp_avg"].count_nonzero() > 0 for part in learned.values())


@pytest.mark.parametrize("mode", ["sample", "train"])
def test_every_row_and_step_has_noise_of_its_own(mode):
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    agent, _ = made(venv, network={"noisy": True, "dueling": True})
    agent.set_mode(mode)
    agent.epsilon = 0.0
    spaces = venv.single_observation_space, venv.single_action_space

    def q(noise):
        return agent.step(example_inputs(*spaces, len(noise), noise), None).info["q"]

    noise = RowNoise(0, range(20))
    first = q(noise)
    noise.advance()
    assert len({row.tobytes() for row in np.concatenate([first, q(noise)])}) == 40
    # Of the row and its step alone, whichever rows are asked about beside it.
    assert np.array_equal(q(RowNoise(0, [17, 3])), first[[17, 3]])
    with pytest.raises(InvalidOption, match=r"inputs\.noise must be the random numbers"):
        agent.step(example_inputs(*spaces, 3), None)


def test_noise_of_rows_is_the_noise_of_layers():
    torch.manual_seed(0)
    layer = NoisyLinear(5, 3)
    x = torch.randn(4, 5)
    drawn = torch.randn(4, num_factors(layer))
    with torch.no_grad(), row_noise(layer, drawn):
        found = layer(x)
    with torch.no_grad():
        for row in range(4):
            factors = drawn[row].sign() * drawn[row].abs().sqrt()
            layer.factor_in.copy_(factors[:5])
            layer.factor_out.copy_(factors[5:])
            torch.testing.assert_close(layer(x[row : row + 1]), found[row : row + 1])
    layer.noisy = False
    with torch.no_grad(), row_noise(layer, torch.zeros(4, 8)):
        torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)


# How often ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.25, 1 / 3, 0.1, 1.0, 2.5, 0.0])
def test_updates_are_those_that_are_owed(ratio):
    venv = make_vec("CartPole-v1", 3, backend="kernel", autoreset_mode="same_step")
    agent, algorithm = made(venv, updates_per_step=ratio, learning_starts=10)
    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        for number in range(1, 12):
            rounds(sampler, agent, algorithm, 1)
            # 1/3 of 3 steps is an update, and not the 0 that a sum of floats may round to.
            assert algorithm.updates == int(ratio * max(0, 6 * number - 10) + 1e-9)
    assert algorithm.steps == 66


def test_what_was_interrupted_is_owed():
    venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
    agent, algorithm = made(venv, updates_per_step=1.0, learning_starts=0)

    def stop(done):
        if done == 3:
            raise KeyboardInterrupt

    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        algorithm.take(sampler.collect())
        with pytest.raises(KeyboardInterrupt):
            algorithm.train(stop)
        assert algorithm.updates == 3
        algorithm.train()
    assert algorithm.updates == 8


def test_the_share_of_random_actions_goes_by_steps():
    venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
    agent, algorithm = made(venv, exploration=Schedule(start=1.0, end=0.2, over=16))
    seen = []
    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        for _ in range(4):
            rounds(sampler, agent, algorithm, 1)
            seen.append(float(agent.epsilon))
    assert seen == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_each_env_has_a_share_of_random_actions_of_its_own():
    venv = make_vec("CartPole-v1", 3, backend="kernel", autoreset_mode="same_step")
    most, least = (Schedule(start=1.0, end=end, over=12) for end in (0.64, 0.01))
    agent, algorithm = made(venv, exploration=most, exploration_least=least)
    seen = []
    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        for _ in range(4):
            rounds(sampler, agent, algorithm, 1)
            seen.append(agent.epsilon.tolist())
    assert seen[0] == 1.0  # how many envs there are is not known yet
    middle = 0.505, (0.505 * 0.82) ** 0.5, 0.82
    for found, wanted in zip(
        seen[1:], (middle, (0.01, 0.08, 0.64), (0.01, 0.08, 0.64)), strict=True
    ):
        assert found == pytest.approx(wanted)
    with pytest.raises(InvalidOption, match=r"exploration\.end must be a finite number in \[1e-06"):
        DQN.config_class(exploration=Schedule(start=1.0, end=0.0, over=1), exploration_least=0.1)


def test_one_env_alone_has_the_share_of_the_last():
    venv = make_vec("CartPole-v1", 1, backend="kernel", autoreset_mode="same_step")
    most = Schedule(start=1.0, end=0.5, over=4)
    agent, algorithm = made(venv, exploration=most, exploration_least=0.01)
    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        seen = []
        for _ in range(3):
            rounds(sampler, agent, algorithm, 1)
            seen.append(float(agent.epsilon))
    assert seen == [1.0, 0.75, 0.5]


def test_epsilons_are_spread_over_the_rows_of_all_learners():
    venv = rows_of_cartpole(range(3))
    agent, algorithm = made(venv, exploration=0.64, exploration_least=0.02)
    algorithm.group = copy.copy(algorithm.group)
    algorithm.group.size = 2
    for first_row in (0, 3):
        venv = rows_of_cartpole(range(3))
        with SerialSampler(venv, agent, 2, seed=0, first_row=first_row) as sampler:
            algorithm.take(sampler.collect())
            algorithm.prepare(agent)
            sampler.collect()
    assert agent.epsilon == pytest.approx(0.02 * 2.0 ** np.arange(6))


@pytest.mark.parametrize(("share", "least"), [(1e-7, None), (1e-6, 10**6)])
def test_a_share_of_updates_that_is_next_to_none_is_refused(share, least):
    venv = rows_of_cartpole(range(1))
    if least is None:
        with pytest.raises(InvalidOption, match="updates_per_step must be 0, or at least 1 in"):
            made(venv, updates_per_step=share)
    else:
        assert made(venv, updates_per_step=share)[1]._ratio.denominator == least


def rows_of_cartpole(rows):
    return make_vec("CartPole-v1", len(rows), backend="kernel", autoreset_mode="same_step")


def test_workers_play_by_the_shares_of_their_rows():
    venv, options = rows_of_cartpole(range(4)), {"exploration": 0.9, "exploration_least": 0.01}
    found = []
    for sampler in (
        lambda agent: SerialSampler(venv, agent, 8, seed=0),
        lambda agent: WorkerSampler(rows_of_cartpole, agent, 8, 4, n_workers=2, seed=0),
    ):
        agent, algorithm = made(venv, **options)
        with sampler(agent) as one:
            played = []
            for _ in range(3):
                algorithm.prepare(agent)
                collected = one.collect(version=algorithm.updates)
                played.append(np.array(collected.data["action"]))
                algorithm.take(collected)
                algorithm.train()
            assert agent.epsilon.shape == (4,)
            found.append(np.array(played))
    np.testing.assert_array_equal(*found)


def test_the_target_network_is_a_copy_and_follows():
    one = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    target = TargetNetwork(one)
    assert all(not p.requires_grad for p in target.module.parameters())
    before = copy.deepcopy(target.module.state_dict())
    with torch.no_grad():
        for tensor in [*one.parameters(), *one.buffers()]:
            tensor.add_(2)
    now = one.state_dict()
    target.follow(0.25)
    for name, tensor in target.module.state_dict().items():
        wanted = now[name]
        if name.endswith(("weight", "bias")):
            wanted = before[name] + (now[name] - before[name]) * 0.25
        torch.testing.assert_close(tensor, wanted)
    target.follow()
    for name, tensor in target.module.state_dict().items():
        assert tensor.equal(now[name])


def test_the_target_of_dqn_moves_when_it_is_due():
    venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
    options = {"updates_per_step": 0.125, "learning_starts": 0, "target_every": 3}
    agent, algorithm = made(venv, **options)
    moved = []
    with SerialSampler(venv, agent, 2, seed=0) as sampler:
        for _ in range(7):
            before = _weights(algorithm.modules["target"])
            rounds(sampler, agent, algorithm, 1)
            moved.append(_weights(algorithm.modules["target"]) != before)
    assert moved == [False, False, True] * 2 + [False]


def _weights(network):
    return [tensor.tolist() for tensor in network.state_dict().values()]


def test_observations_are_normalised_by_what_was_seen_before_this_round():
    venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
    options = {"network": {"normalize_obs": True}, "updates_per_step": 0.25, "target_every": 1}
    agent, algorithm = made(venv, learning_starts=0, **options)
    seen = []
    with SerialSampler(venv, agent, 8, seed=0) as sampler:
        for _ in range(3):
            mean = np.mean(seen, axis=0) if seen else np.zeros(4)
            part = agent.network.normalizer.parts[0]
            np.testing.assert_allclose(part.mean[0], mean, atol=1e-6)
            rounds(sampler, agent, algorithm, 1)
            seen += list(sampler.tree["obs"].to_ndarray().reshape(-1, 4).copy())
    assert float(part.count) == 96
    # The target network sees what the other one does, before it has first followed too.
    theirs = algorithm.modules["target"].normalizer.parts[0]
    assert float(theirs.count) == 96


def test_without_a_compiler_compile_is_refused_in_a_line(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    with venv, pytest.raises(InvalidOption, match=r"DQN: compile=True needs a C\+\+") as error:
        made(venv, compile=True)
    assert "\n" not in str(error.value)


@pytest.mark.skipif("PYTEST_LONG" not in os.environ, reason="compiles for a minute")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own
def test_networks_that_torch_compiles_learn_the_same():
    found = []
    for options in ({}, {"compile": True}):
        venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
        agent, algorithm = made(venv, compiled=False, double=True, **options)
        with SerialSampler(venv, agent, 8, seed=0) as sampler:
            rounds(sampler, agent, algorithm, 3)
        assert algorithm.updates > 4
        found.append(list(agent.network.state_dict().values()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


# Going on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DQN, QRDQN, Rainbow])
def test_a_saved_algorithm_goes_on_bit_for_bit(kind):
    options = {"n_steps": 2, "updates_per_step": 0.3, "kind": kind, "network": HEADS.get(kind)}

    def begin():
        venv = make_vec("CartPole-v1", 3, backend="serial", autoreset_mode="same_step")
        return venv, *made(venv, seed=5, **options)

    goes_on_bit_for_bit(begin, whole=9, before=4, least=20)


def test_a_state_of_another_algorithm_is_refused():
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    with venv:
        _, algorithm = made(venv)
        saved = algorithm.state_dict()
        with pytest.raises(ForeignNetwork, match="optimizer 'adam'; here it is 'sgd'"):
            made(venv, optimizer="sgd")[1].load_state_dict(saved)
        with pytest.raises(ForeignNetwork, match="another network"):
            made(venv, network={"hidden": (3,)})[1].load_state_dict(saved)


# What cannot be -----------------------------------------------------------------------------


def test_networks_that_it_cannot_learn_with_are_refused():
    venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
    with venv:
        with pytest.raises(InvalidOption, match="it takes first, obs"):
            made(venv, network={"recurrent": "lstm"})
        with pytest.raises(InvalidOption, match="must have a Q head"):
            made(venv, network={"heads": ("value",)})


def test_a_gradient_that_is_not_finite_is_refused():
    venv = make_vec("CartPole-v1", 4, backend="kernel", autoreset_mode="same_step")
    agent, algorithm = made(venv, learning_starts=0)
    with SerialSampler(venv, agent, 4, seed=0) as sampler:
        rounds(sampler, agent, algorithm, 1)
        before = algorithm.updates
        algorithm.take(sampler.collect())
        algorithm.replay._ring._reward[:] = np.inf
        with pytest.raises(LossNotFinite, match="must have a finite loss"):
            algorithm.train()
    assert algorithm.updates == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "absolute"}, "loss must be one of huber, squared"),
        ({"capacity": "2 apples"}, "capacity must be steps, or bytes"),
        ({"updates_per_step": -1}, "updates_per_step must be a finite number"),
        ({"exploration": 1.5}, "exploration must be a finite number"),
        ({"target_every": 0}, "target_every must be an integer"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        DQNConfig(**options)


# Priorities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DQN, C51])
def test_what_is_learned_without_an_error_can_be_drawn_again(kind):
    # Heads begin at 0, and no reward has come: all errors are 0.
    venv = make_vec("FrozenLake-v1", 4, is_slippery=False, autoreset_mode="same_step")
    options = {"prioritized": True, "updates_per_step": 1.0, "exploration": 1.0}
    network = ATOMS if kind is C51 else {}
    agent, algorithm = made(venv, kind=kind, network=network, learning_starts=8, **options)
    with SerialSampler(venv, agent, 4, seed=0) as sampler:
        rounds(sampler, agent, algorithm, 6)
        assert algorithm.updates > 40
        masses = algorithm.replay.state_dict()["priorities"]["masses"]
        assert (masses[: len(algorithm.replay)] > 0).all()


def test_the_target_has_noise_also_if_the_agent_was_evaluated_before():
    space = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2)
    network = make_agent_network(*space, QAgentConfig(**ATOMS, dueling=True, noisy=True), seed=0)
    agent = QAgent(network)
    agent.set_mode("eval")
    target = Rainbow(network, seed=0).modules["target"]
    obs = torch.zeros(1, 4)
    before = target(shown(obs))[0].q.clone()
    reset_noise(target)
    assert not torch.equal(target(shown(obs))[0].q, before)


def test_rainbow_without_noise_has_to_explore():
    venv = make_vec("CartPole-v1", 2, backend="kernel", autoreset_mode="same_step")
    quiet = {**ATOMS, "dueling": True}
    with venv:
        with pytest.raises(InvalidOption, match="no noise, and exploration is 0"):
            made(venv, kind=Rainbow, network=quiet)
        made(venv, kind=Rainbow, network=quiet, exploration=0.1)
        made(venv, kind=Rainbow, network={**quiet, "noisy": True})
