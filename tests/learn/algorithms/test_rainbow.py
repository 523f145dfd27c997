"""Each part of Rainbow against the plain arithmetic of the papers, in numpy and loops.

Hessel et al. 2018, "Rainbow"; its parts are of Bellemare et al. 2017 (atoms), van Hasselt et al.
2016 (double), Wang et al. 2016 (dueling), Fortunato et al. 2018 (noise) and Schaul et al. 2016
(priorities).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from off_policy_tasks import rounds  # noqa: E402
from sampling_envs import Oracle, oracle_venv  # noqa: E402

from plangym_ext.learn import (  # noqa: E402
    QAgent,
    QAgentConfig,
    Rainbow,
    RainbowConfig,
    Schedule,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.agents.inputs import example_inputs  # noqa: E402
from plangym_ext.learn.networks.bodies import NoisyLinear  # noqa: E402
from plangym_ext.learn.networks.quick_forward import shown  # noqa: E402
from plangym_ext.learn.sampling.noise import RowNoise  # noqa: E402

ATOMS, LOW, HIGH, GAMMA = 11, -300.0, 600.0, 0.9
SUPPORT = np.linspace(LOW, HIGH, ATOMS)


def made(seed=0, **options):
    """Return agent and algorithm for envs whose rewards are some hundreds."""
    config = QAgentConfig(
        hidden=(12,),
        returns="atoms",
        atoms=ATOMS,
        return_range=(LOW, HIGH),
        dueling=True,
        noisy=True,
        kind="mlp",
    )
    space = Oracle.observation_space, Oracle.action_space
    network = make_agent_network(*space, config, seed=seed)
    settings = {
        "capacity": 400,
        "learning_starts": 16,
        "batch_size": 16,
        "target_every": 5,
        "discount": GAMMA,
        "learning_rate": 1e-2,
        **options,
    }
    return QAgent(network), Rainbow(network, RainbowConfig(**settings), seed=seed)


def played(count=6, **options):
    """Return a sampler, its agent and an algorithm that has learned for some rounds."""
    agent, algorithm = made(**options)
    sampler = SerialSampler(oracle_venv(3), agent, 8, seed=0)
    rounds(sampler, agent, algorithm, count)
    return sampler, agent, algorithm


def numbers(network):
    return {name: part.detach().double().numpy() for name, part in network.state_dict().items()}


def layer_of(state, name, x, factors=None):
    """A noisy layer of one row: (mu + sigma * (e_out e_in)) x + mu_b + sigma_b e_out."""
    of_in, of_out = (state[f"{name}.factor_{way}"] for way in ("in", "out"))
    if factors is not None:
        of_in, of_out = factors
    weight = state[f"{name}.weight"] + state[f"{name}.weight_deviation"] * np.outer(of_out, of_in)
    return weight @ x + state[f"{name}.bias"] + state[f"{name}.bias_deviation"] * of_out


def distributions(state, x, factors=None):
    """`[A, K]` probabilities of one row: softmax over atoms of V + A - mean over actions of A."""
    given = dict.fromkeys(("advantage.0", "advantage.2", "value.0", "value.2"))
    given.update(factors or {})

    def stream(name):
        first, last = f"{name}.0", f"{name}.2"
        hidden = layer_of(state, f"heads.{first}", x, given[first])
        return layer_of(state, f"heads.{last}", np.maximum(hidden, 0.0), given[last])

    advantage = stream("advantage").reshape(-1, ATOMS)
    logits = stream("value")[None] + advantage - advantage.mean(axis=0)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def projected(probabilities, reward, discount):
    """Bellemare et al. 2017, algorithm 1, atom by atom."""
    step, found = SUPPORT[1] - SUPPORT[0], np.zeros(ATOMS)
    for atom, p in zip(SUPPORT, probabilities, strict=True):
        b = (min(max(reward + discount * atom, LOW), HIGH) - LOW) / step
        low, high = math.floor(b), math.ceil(b)
        if low == high:
            found[low] += p
        else:
            found[low] += p * (high - b)
            found[high] += p * (b - low)
    return found


def features(network, obs):
    return network.features(shown(obs)).detach().double().numpy()


def wanted_by(algorithm, steps):
    """`[B, K]` what the papers have the network learn for each row."""
    online, target = numbers(algorithm.network), numbers(algorithm.modules["target"])
    follow = features(algorithm.network, steps.next_obs)
    theirs = features(algorithm.modules["target"], steps.next_obs)
    rows = []
    for i, mine in enumerate(follow):
        # Double: the network itself chooses, by means; its target says how likely returns are.
        best = int((distributions(online, mine) @ SUPPORT).argmax())
        after = distributions(target, theirs[i])[best]
        rows.append(projected(after, float(steps.reward[i]), float(steps.discount[i])))
    return np.array(rows)


def found_by(online, now, steps):
    """`[B, K]` how likely the network says that returns of the played actions are."""
    rows = zip(now, steps.action, strict=True)
    return np.array([distributions(online, x)[int(action)] for x, action in rows])


def test_a_loss_is_that_of_the_papers_and_so_are_priorities():
    _, _, algorithm = played()
    steps = algorithm._steps_of(algorithm._sample(1))
    learned = algorithm._loss(steps)
    online, target = numbers(algorithm.network), numbers(algorithm.modules["target"])
    # Each has noise of its own, and what it is after an update.
    assert (online["heads.value.0.factor_in"] != target["heads.value.0.factor_in"]).all()
    wanted = wanted_by(algorithm, steps)
    found = found_by(online, features(algorithm.network, steps.obs), steps)
    rows = -(wanted * np.log(found)).sum(axis=1)
    # Priorities are divergences: 0 where nothing is left to learn.
    logs = np.log(wanted, out=np.zeros_like(wanted), where=wanted > 0)
    errors = rows + (wanted * logs).sum(axis=1)
    weight = steps.weight.numpy()
    np.testing.assert_allclose(learned.loss.item(), np.mean(weight * rows), rtol=1e-4)
    np.testing.assert_allclose(learned.errors.numpy(), np.maximum(errors, 0), rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(learned.q.numpy(), found @ SUPPORT, rtol=1e-3, atol=1e-2)


def test_an_update_goes_down_the_slope_of_that_loss_in_means_and_deviations():
    _, _, algorithm = played()
    steps = algorithm._steps_of(algorithm._sample(1))
    algorithm.network.zero_grad()
    algorithm._loss(steps).loss.backward()
    online, wanted = numbers(algorithm.network), wanted_by(algorithm, steps)
    now, weight = features(algorithm.network, steps.obs), steps.weight.numpy()

    def loss():
        found = found_by(online, now, steps)
        return np.mean(weight * -(wanted * np.log(found)).sum(axis=1))

    checked = 0
    for name, part in algorithm.network.named_parameters():
        slope = part.grad.double().numpy()
        place = np.unravel_index(abs(slope).argmax(), slope.shape)
        kept, by = online[name][place], 1e-6
        sides = []
        for online[name][place] in (kept + by, kept - by):
            sides.append(loss())
        online[name][place] = kept
        assert slope[place] == pytest.approx((sides[0] - sides[1]) / (2 * by), rel=1e-2), name
        checked += 1
    assert checked == 16  # two layers of two streams: means and deviations of weights and biases


def test_targets_are_of_three_steps_of_the_episode():
    sampler, _, algorithm = played()
    batch = algorithm._sample(8)
    samples = batch.samples
    newest = sampler.tree["obs"][8].to_ndarray()
    checked = 0
    for obs, action, reward, discount, after in zip(
        *(samples[name] for name in ("obs", "action", "reward", "discount", "next_obs")),
        strict=True,
    ):
        env, episode, count = obs
        end = 2 + (env + 2 * episode) % 4  # steps of the oracle's episodes
        now = newest[int(env)]
        last = min(end, now[2]) if now[1] == episode else end
        taken = int(min(3, last - count))
        assert after.tolist() == [env, episode, count + taken]
        terminates = count + taken == end and (env + episode) % 2 == 0
        assert discount == pytest.approx(0.0 if terminates else GAMMA**taken)
        # Rewards of step k: 100 env + 10 episode + k, and a tenth of the action.
        least = sum(GAMMA**k * (100 * env + 10 * episode + count + k + 1) for k in range(taken))
        least += action / 10
        most = least + (Oracle.action_space.n - 1) * sum(GAMMA**k for k in range(1, taken)) / 10
        assert least - 1e-3 <= reward <= most + 1e-3
        checked += 1
    assert checked == 8 * 16


def test_draws_weights_and_new_rows_are_those_of_prioritised_replay():
    _, _, algorithm = played(beta=Schedule(start=0.4, end=1.0, over=40))
    replay, beta = algorithm.replay, 0.4 + 0.6 * min(1.0, algorithm.updates / 40)
    masses = replay._priorities.masses.copy()
    shares = masses / masses.sum()
    drawn = np.zeros(len(masses))
    for _ in range(300):
        batch = algorithm._sample(1)
        assert replay.beta == pytest.approx(beta)
        np.add.at(drawn, batch.indices, 1)
        # (1 / (N P))^beta over the largest of the batch.
        weights = (1.0 / (len(masses) * shares[batch.indices])) ** beta
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-5)
    total = drawn.sum()
    expected = total * shares
    some = expected > 5
    statistic = ((drawn[some] - expected[some]) ** 2 / expected[some]).sum()
    # Stratified draws vary less than independent ones: within a chi-square's mean and 5 deviations.
    assert statistic < some.sum() + 5 * math.sqrt(2 * some.sum())
    # p^0.5 of the divergence of an update.
    steps = algorithm._steps_of(algorithm._sample(1))
    errors = algorithm._loss(steps).errors.numpy()
    replay.update_priorities(steps.indices, errors)
    last = {int(place): error for place, error in zip(steps.indices, errors, strict=True)}
    for place, error in last.items():
        assert replay._priorities.masses[place] == pytest.approx(math.sqrt(error), rel=1e-5)


def test_new_steps_are_drawn_as_the_largest_error_there_was():
    sampler, agent, algorithm = played()
    priorities = algorithm.replay._priorities
    before = priorities.highest
    algorithm.prepare(agent)
    algorithm.take(sampler.collect(version=algorithm.updates))
    newest = priorities.masses[(priorities.masses > 0)]
    assert (newest == before**0.5).sum() >= 24


def test_a_noisy_layer_begins_as_in_the_paper():
    torch.manual_seed(0)
    layer = NoisyLinear(400, 100)
    state = numbers(layer)
    bound, deviation = 1 / math.sqrt(400), 0.5 / math.sqrt(400)
    assert abs(state["weight"]).max() <= bound
    assert state["weight"].std() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert (state["weight_deviation"] == np.float32(deviation)).all()
    assert (state["bias_deviation"] == np.float32(deviation)).all()
    layer.reset_noise()
    state = numbers(layer)
    # f(x) = sgn(x) sqrt|x| has the variance E|x| = sqrt(2 / pi).
    found = np.concatenate([state["factor_in"], state["factor_out"]])
    assert (found**2).mean() == pytest.approx(math.sqrt(2 / math.pi), rel=0.15)


def test_every_update_has_noise_of_its_own_in_both_networks():
    sampler, agent, algorithm = played()
    seen = set()
    update = algorithm._update

    def noted(steps):
        for network in (algorithm.network, algorithm.modules["target"]):
            seen.add(network.heads.value[0].factor_in.numpy().tobytes())
        return update(steps)

    algorithm._update = noted
    before = algorithm.updates
    rounds(sampler, agent, algorithm, 4)
    assert len(seen) == 2 * (algorithm.updates - before) > 20


def test_each_row_plays_by_noise_of_its_own_and_by_none_in_evaluation():
    agent, algorithm = made()
    network, noise = algorithm.network, RowNoise(0, range(5))
    agent.set_mode("sample")
    agent.epsilon = 0.0
    inputs = example_inputs(Oracle.observation_space, Oracle.action_space, 5, noise)
    acted = agent.step(inputs, None)
    state = numbers(network)
    drawn = RowNoise(0, range(5)).normal(agent._num_factors)
    x = features(network, torch.as_tensor(inputs.obs))
    layers = [name for name, part in network.named_modules() if isinstance(part, NoisyLinear)]
    for row in range(5):
        left, factors = np.sign(drawn[row]) * np.sqrt(np.abs(drawn[row])), {}
        for name in layers:
            outputs, width = state[f"{name}.weight"].shape
            of_in, of_out, left = np.split(left, [width, width + outputs])
            factors[name.removeprefix("heads.")] = of_in, of_out
        q = distributions(state, x[row], factors) @ SUPPORT
        np.testing.assert_allclose(acted.info["q"][row], q, rtol=1e-3, atol=1e-2)
        assert acted.action[row] == q.argmax()
    agent.set_mode("eval")
    quiet = {
        name: np.zeros_like(part) if "factor" in name else part for name, part in state.items()
    }
    found = agent.step(example_inputs(Oracle.observation_space, Oracle.action_space, 2), None)
    np.testing.assert_allclose(
        found.info["q"][0], distributions(quiet, x[0]) @ SUPPORT, rtol=1e-3, atol=1e-2
    )


def test_the_target_is_a_copy_every_so_many_updates():
    sampler, agent, algorithm = played(updates_per_step=1.0, target_every=7)
    update, kept = algorithm._update, [numbers(algorithm.modules["target"])["heads.value.0.weight"]]

    def noted(steps):
        found = update(steps)
        mine = numbers(algorithm.network)["heads.value.0.weight"]
        theirs = numbers(algorithm.modules["target"])["heads.value.0.weight"]
        # `updates` counts this one after it is made.
        due = (algorithm.updates + 1) % 7 == 0
        np.testing.assert_array_equal(theirs, mine if due else kept[-1])
        kept.append(theirs)
        return found

    algorithm._update = noted
    rounds(sampler, agent, algorithm, 2)
    assert len(kept) > 40


def test_random_actions_go_by_the_steps_and_end():
    agent, algorithm = made(exploration=Schedule(start=1.0, end=0.0, over=96))
    shares = []
    with SerialSampler(oracle_venv(3), agent, 8, seed=0) as sampler:
        for _ in range(6):
            rounds(sampler, agent, algorithm, 1)
            shares.append(float(agent.epsilon))
    assert shares == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0, 0.0])
    assert RainbowConfig().exploration == 0.0
