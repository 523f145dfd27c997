"""Audits of values: what a critic says against what is returned."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from browser import opened

from plangym_ext import StateSet, make
from plangym_ext.learn import tensor_file
from plangym_ext.planners import MCTS, RandomShooting, play
from plangym_ext.run.cli import main
from plangym_ext.run.evaluating.value_audit import (
    ValueAudit,
    audit_page,
    audit_values,
    rank_correlation,
)


def pendulum_states(count):
    """An env without an end of its own, and states on one way through it."""
    env = make("Pendulum-v1", backend="serial")
    state, obs, _ = env.reset(seed=0)
    states, seen = [state], [obs]
    for _ in range(count - 1):
        state, obs, *_ = env.step(np.zeros(1, np.float32), state)
        states.append(state)
        seen.append(obs)
    return env, StateSet(np.stack(states), np.stack(seen))


def test_returns_are_discounted_and_go_on_with_the_critic_where_they_are_cut():
    env, states = pendulum_states(2)
    with env:
        player = RandomShooting(num_simulations=1)
        limits = {"discount": 0.5, "rollouts": 2, "max_steps": 3}
        found = audit_values(env, player, lambda obs: 100.0 + obs[:, 2], states, **limits)
        # By hand: the same player and seeds, one state after the other.
        again = states[np.array([0, 0, 1, 1])]
        moves = []
        options = {"max_steps": 3, "num_episodes": 4, "starts": again}
        play(env, player, seed=0, callback=moves.append, **options)
    wanted = np.zeros(4)
    for move in moves:
        wanted[move.episode] += 0.5**move.step * move.reward
        if move.step == 2:
            wanted[move.episode] += 0.125 * (100.0 + move.obs[2])
    np.testing.assert_allclose(found.returned.ravel(), wanted)
    np.testing.assert_array_equal(found.rest, np.full((2, 2), 0.125))
    np.testing.assert_allclose(found.said, 100.0 + states.obs[:, 2])
    assert found.steps == 12
    assert (found.returned[:, 0] != found.returned[:, 1]).all()


def test_nothing_follows_an_end():
    with make("plangym_ext/NarrowPath-v0", n=4) as env:
        state, obs, _ = env.reset(seed=0)
        start = StateSet(state[None], np.array([obs]))
        found = audit_values(
            env, MCTS(64), lambda obs: np.full(len(obs), 9.0), start, discount=0.5, rollouts=1
        )
    # The reward of 1 is paid by the third step.
    assert found.returned.tolist() == [[0.25]]
    assert found.rest.tolist() == [[0.0]]
    assert found.said.tolist() == [9.0]


def audit(said, returned):
    returned = np.array(returned, float)
    states = StateSet(np.zeros((len(said), 1), np.uint8), np.zeros(len(said)))
    return ValueAudit(states, np.array(said, float), returned, np.zeros(returned.shape), 0)


def test_the_numbers_by_hand():
    found = audit([1, 2, 5], [[1, 3], [2, 2], [2, 4]])
    assert found.means.tolist() == [2, 2, 3]
    # Deviations of the two, over the root of 2: sqrt(2) / sqrt(2), 0, 1.
    np.testing.assert_allclose(found.deviations, [1, 0, 1])
    numbers = found.summary()
    # Errors -1, 0 and 2.
    assert numbers["bias"] == pytest.approx(1 / 3)
    assert numbers["rmse"] == pytest.approx(np.sqrt(5 / 3))
    assert numbers["noise"] == pytest.approx(np.sqrt(2 / 3))
    # Variance of the errors 14/9, of the means 2/9.
    assert numbers["explained_variance"] == pytest.approx(1 - 7)
    assert found.worst(2).tolist() == [2, 0]


def test_ranks_are_compared_and_equal_values_share_theirs():
    assert rank_correlation([1, 2, 3], [10, 100, 1000]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2, 3 and 1.5, 1.5, 3: covariance 1.5 of deviations 1, 1/2 and 3/2.
    assert rank_correlation([1, 2, 3], [5, 5, 9]) == pytest.approx(1.5 / np.sqrt(2 * 1.5))
    assert np.isnan(rank_correlation([1, 2], [3, 3]))


@pytest.mark.parametrize("said", [[50, 50, 50.02], [50, 50, 50], [-1e6, 3, 2e6], [0, 1e-5, 0]])
def test_what_is_written_at_a_scale_tells_its_lines_apart(said):
    found = audit(said, [[one] for one in said])
    text = audit_page(found, "t", [], [], {})
    written = re.findall(r'text-anchor="middle">([^<]*)<', text)
    assert len(set(map(float, written))) == 5
    assert max(map(len, written)) <= 9
    # A digit is 8 pixels wide at most; half of the last one's lies right of the plot.
    assert int(re.search(r'x="(\d+)" y="[^"]*" text-anchor="end"', text)[1]) + 4 >= 9 * 8


def test_the_page_shows_every_state_and_loads_nothing():
    frame = np.zeros((8, 8, 3), np.uint8)
    found = audit([1, 2, 5], [[1, 3], [2, 2], [2, 4]])
    page = audit_page(found, "A <env>", ["one & two"], [2, 0], {2: frame})
    assert page.count("<circle") == 3
    assert page.count('class="worst-dot"') == 2
    assert page.count("data:image/png;base64,") == 1
    assert "A &lt;env&gt;" in page
    assert "one &amp; two" in page
    assert "state 2: says 5, returned 3" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A short run."""
    folder = tmp_path_factory.mktemp("audit") / "run"
    typed = ["--evaluation.every=0", "--collector.num_envs=2", "--quiet", "--rounds=2"]
    assert main(["train", "ppo_cartpole", "--out", str(folder), *typed]) == 0
    return folder


@pytest.mark.slow
def test_a_run_is_audited(run_folder, tmp_path, capsys):
    typed = ["--count", "6", "--rollouts", "2", "--max-steps", "40"]
    assert main(["audit", str(run_folder), *typed, "--out", str(tmp_path / "one")]) == 0
    assert "rank correlation" in capsys.readouterr().out
    found = json.loads((tmp_path / "one" / "audit.json").read_text())
    assert np.shape(found["returned"]) == (6, 2)
    assert found["rmse"] == pytest.approx(
        np.sqrt(np.mean((np.array(found["said"]) - np.mean(found["returned"], axis=1)) ** 2))
    )
    # The same states, of a file, give the same again.
    states = str(tmp_path / "states.npz")
    assert main(["states", str(run_folder), "--out", states, "--count=4", "--episodes=2"]) == 0
    pages = []
    for name in ("two", "three"):
        out = tmp_path / name
        assert main(["audit", str(run_folder), "--starts", states, "--out", str(out), *typed]) == 0
        pages.append((out / "audit.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("ppo_cartpole", ["--algorithm.normalize_reward=true"]),
        (
            "dqn_cartpole",
            [
                "--algorithm.learning_starts=16",
                "--algorithm.exploration={start = 1.0, end = 0.0, over = 20}",
            ],
        ),
    ],
)
def test_files_of_weights_are_audited_as_checkpoints_are(preset, options, tmp_path, capsys):
    run = tmp_path / "run"
    options = [*options, "--evaluation.every=0", "--collector.num_envs=2", "--rounds=2", "--quiet"]
    assert main(["train", preset, "--out", str(run), "--weights_every=2", *options]) == 0
    weights = run / "weights" / "weights-00000002.pt"
    typed = ["--count=4", "--rollouts=2", "--max-steps=20"]
    found = []
    for path, name in ((run, "run"), (weights, "weights")):
        out = tmp_path / f"of-{name}"
        assert main(["audit", str(path), *typed, "--out", str(out)]) == 0
        told = json.loads((out / "audit.json").read_text())
        found.append((told["said"], told["returned"]))
    assert found[0] == found[1]
    # As they were written once.
    saved = tensor_file.load(weights)
    saved["trainer"] = {"network": saved["trainer"]["network"]}
    tensor_file.save(weights, saved)
    assert main(["audit", str(weights), *typed, "--out", str(tmp_path / "old")]) == 2
    assert "Name a checkpoint of the run" in capsys.readouterr().err
    assert not (tmp_path / "old").exists()


@pytest.mark.slow
def test_a_run_with_a_planner_has_no_critic_to_audit(tmp_path, capsys):
    typed = ["--rounds=1", "--collector.num_envs=2", "--evaluation.every=0", "--quiet"]
    out = str(tmp_path / "run")
    assert main(["train", "narrow_path", "--out", out, "--env.kwargs.n=4", *typed]) == 0
    assert main(["audit", out]) == 2
    assert "a planner plays. Evaluate its network by `eval`" in capsys.readouterr().err


@pytest.mark.slow
def test_a_browser_draws_the_page_without_a_network(run_folder, tmp_path):
    typed = ["--count", "6", "--rollouts", "2", "--max-steps", "40", "--out", str(tmp_path)]
    assert main(["audit", str(run_folder), *typed]) == 0
    shot = tmp_path / "page.png"
    no_network = "--host-resolver-rules=MAP * ~NOTFOUND"
    opened(tmp_path / "audit.html", f"--screenshot={shot}", no_network, size="980,1200")
    assert shot.stat().st_size > 5000


def test_one_rollout_does_not_say_how_far_others_would_lie(tmp_path):
    found = audit([1, 2], [[1], [4]])
    assert np.isnan(found.deviations).all()
    assert np.isnan(found.summary()["noise"])
    page = audit_page(found, "title", [], [0, 1], {})
    assert "nan" not in re.sub("<script.*|noise.*", "", page.split("<svg")[1])


@pytest.mark.slow
def test_critics_speak_of_the_rewards_of_the_env():
    torch = pytest.importorskip("torch")
    from plangym_ext.learn.losses.q_values import rescaled
    from plangym_ext.learn.transforms.rewards import RewardNormalizer, in_rewards
    from plangym_ext.run.settings.compose import compose

    r2d1 = compose(["r2d1_cartpole_no_velocity"]).algorithm.config
    said = rescaled(torch.tensor([10.0, -3.0], dtype=torch.float64)).numpy()
    np.testing.assert_allclose(in_rewards(r2d1, {})(said), [10.0, -3.0])
    ppo = compose(["ppo_halfcheetah"]).algorithm.config
    rewards = RewardNormalizer(ppo.discount)
    rewards.scaled(np.full((9, 2), 7.0), np.zeros((9, 2), bool), None)
    found = in_rewards(ppo, {"rewards": rewards.state_dict()})(np.ones(2))
    np.testing.assert_allclose(found, np.full(2, rewards.deviation))
    assert rewards.deviation > 5
    np.testing.assert_array_equal(in_rewards(ppo, {"rewards": None})(np.ones(2)), np.ones(2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "epsilon"),
    [([], 0.9), (["--algorithm.exploration_least", "0.4"], 0.6)],
    ids=["one", "of each env"],
)
def test_an_agent_is_audited_as_it_explored(tmp_path, typed, epsilon, monkeypatch):
    pytest.importorskip("torch")
    from plangym_ext.run.commands import audit as command

    run = str(tmp_path / "run")
    common = [
        "--quiet",
        "--rounds",
        "2",
        "--algorithm.exploration",
        "0.9",
        "--evaluation.every",
        "0",
    ]
    assert main(["train", "dqn_cartpole", *common, *typed, "--out", run]) == 0
    seen, explore = [], command._explore

    def watched(agent, *rest):
        explore(agent, *rest)
        seen.append(float(agent.epsilon))

    monkeypatch.setattr(command, "_explore", watched)
    assert main(["audit", run, "--count", "3", "--rollouts", "2", "--max-steps", "5"]) == 0
    assert seen == [pytest.approx(epsilon)]
