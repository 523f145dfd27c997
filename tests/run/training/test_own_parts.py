"""Algorithms, replays and players of one's own, named as `module:Class` in the settings."""

from __future__ import annotations

import sys
import textwrap

import gymnasium as gym
import pytest
from gymnasium.wrappers import TransformReward
from own_networks import Counting
from training_runs import small, weights

from plangym_ext.errors import ForeignCheckpoint, UnknownName, WrongKind
from plangym_ext.run.cli import main
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.settings import plain
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

PARTS = """
    from collections import deque
    from dataclasses import dataclass
    from typing import Any

    import numpy as np
    from plangym_ext.learn import AlphaZeroConfig, SupervisedLearning
    from plangym_ext.learn.replay.base import Batch, Replay
    from plangym_ext.planners import Planner
    from plangym_ext.planners.plans import Budget, Plan

    @dataclass(frozen=True, kw_only=True)
    class Config(AlphaZeroConfig):
        shrink: float = 0.5

    class Learning(SupervisedLearning):
        config_class = Config

        def samples(self, record):
            found = super().samples(record)
            return {**found, "value": found["value"] * np.float32(self.config.shrink)}

    class Last(Replay):
        '''Keeps what the last episode has taught.'''

        def __init__(self, capacity, *, seed, draws=1):
            super().__init__(capacity, seed=seed)
            self.draws, self.rows = draws, {}

        def add(self, samples):
            self.rows = dict(samples)

        def sample(self, batch_size):
            places = self._rng.integers(len(self), size=batch_size)
            found = {name: rows[places] for name, rows in self.rows.items()}
            return Batch(found, places, np.ones(batch_size, np.float32))

        def all(self):
            return self.rows

        def __len__(self):
            return len(next(iter(self.rows.values()))) if self.rows else 0

        def _contents(self):
            return {"rows": self.rows}

        def _restore(self, state):
            self.rows = state["rows"]

    class Recent(Last):
        '''Keeps what the last episodes have taught, and a generator of its own.'''

        def __init__(self, capacity, *, seed):
            super().__init__(capacity, seed=seed)
            self.last, self.own = deque(maxlen=3), np.random.default_rng(seed)

        def add(self, samples):
            self.last.append(dict(samples))
            names = self.last[0]
            self.rows = {k: np.concatenate([one[k] for one in self.last]) for k in names}
            self.own.random()

        def _contents(self):
            return {"last": self.last, "own": self.own}

        def _restore(self, state):
            assert type(state["last"]) is deque and state["last"].maxlen == 3
            self.last, self.own = state["last"], state["own"]
            names = self.last[0] if self.last else ()
            self.rows = {k: np.concatenate([one[k] for one in self.last]) for k in names}

    class Unreadable(Last):
        def _contents(self):
            return {"notes": [Config()]}

    @dataclass(eq=False)
    class Left(Planner):
        num_simulations: int | None = None
        evaluator: Any = None

        def _plan_batch(self, request):
            assert self.evaluator is not None
            return [Plan(0, 0.0, Budget()) for _ in range(len(request.states))]

    number = 3
"""


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(textwrap.dedent(PARTS))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_parts", None)


OWN = {
    "algorithm": {
        "name": "own_parts:Learning",
        "shrink": 0.25,
        "discount": 0.99,
        "batch_size": 8,
        "replay": "own_parts:Last",
        "learning_starts": 4,
        "replay_options": {"draws": 2},
    },
    "evaluation": {"player": "own_parts:Left", "every": 2, "episodes": 1},
    "rounds": 4,
}


@pytest.mark.slow
@pytest.mark.usefixtures("own_parts")
def test_a_run_is_made_of_parts_of_one_s_own(tmp_path):
    with Runner(small(OWN), tmp_path / "run") as runner:
        runner.run()
        assert type(runner.algorithm).__name__ == "Learning"
        assert runner.algorithm.config.shrink == 0.25
        replay = runner.algorithm.replay
        assert (type(replay).__name__, replay.draws) == ("Last", 2)
        assert runner.algorithm.updates > 0
    with Runner(small(OWN, {"rounds": 5}), tmp_path / "run", resume=True) as runner:
        runner.run()
    with Trained(tmp_path / "run") as trained:
        # Always left: the pole falls within a dozen moves.
        assert set(trained.play(1)[0].actions.tolist()) == {0}


@pytest.mark.slow
@pytest.mark.usefixtures("own_parts")
def test_a_replay_that_keeps_a_deque_and_a_generator_is_resumed(tmp_path):
    own = {"algorithm": {"replay": "own_parts:Recent", "learning_starts": 4}, "checkpoint_every": 1}
    with Runner(small(own, {"rounds": 4}), tmp_path / "whole") as runner:
        runner.run()
        wanted = runner.algorithm.replay.state_dict()
    with Runner(small(own, {"rounds": 2}), tmp_path / "run") as runner:
        runner.run()
    with Runner(small(own, {"rounds": 4}), tmp_path / "run", resume=True) as runner:
        runner.run()
        found = runner.algorithm.replay.state_dict()
        assert str(found["last"]) == str(wanted["last"])
        assert found["own"].random() == wanted["own"].random()


@pytest.mark.slow
@pytest.mark.usefixtures("own_parts")
def test_what_no_resume_could_read_is_refused_at_the_first_checkpoint(tmp_path):
    learner = {"replay": "own_parts:Unreadable", "learning_starts": 4}
    own = {"algorithm": learner, "checkpoint_every": 50}
    said = r"checkpoint: \['replay'\].*\['notes'\]\[0\] is of own_parts.Config"
    with (
        Runner(small(own, {"rounds": 50}), tmp_path / "run") as runner,
        pytest.raises(WrongKind, match=said),
    ):
        runner.run()
    assert runner.round == 0


@pytest.mark.usefixtures("own_parts")
def test_their_settings_survive_json():
    config = small(OWN)
    assert plain(config)["algorithm"]["name"] == "own_parts:Learning"
    assert compose([plain(config)]) == config


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"algorithm": {"name": "own_parts:Learnin"}}, UnknownName, "did you mean 'Learning'"),
        ({"algorithm": {"name": "own_part:Learning"}}, UnknownName, "no module 'own_part'"),
        ({"algorithm": {"name": "own_parts:Last"}}, WrongKind, "from .*AgentAlgorithm; got"),
        ({"algorithm": {"name": "own_parts:Learning", "shrnk": 1}}, UnknownName, "mean 'shr"),
        ({"algorithm": {"replay": "own_parts:Lst"}}, UnknownName, "did you mean 'Last'"),
        ({"algorithm": {"replay": "own_parts:Left"}}, WrongKind, "derives from .*Replay; got"),
        ({"algorithm": {"replay": "own_parts:number"}}, UnknownName, "have a class 'number'"),
        ({"evaluation": {"player": "own_parts:Lft"}}, UnknownName, "did you mean 'Left'"),
    ],
)
@pytest.mark.usefixtures("own_parts")
def test_what_is_no_part_is_named(changed, error, message):
    with pytest.raises(error, match=message):
        made(Parts(small(changed)))


def made(parts):
    with parts.env() as env:
        network = parts.network(env)
    parts.algorithm(network)
    parts.player(parts.agent(network))


def negated():
    return TransformReward(gym.make("CartPole-v1"), lambda reward: -reward)


@pytest.mark.slow
def test_an_env_of_one_s_own_is_not_taken_for_the_one_that_the_settings_name(tmp_path, capsys):
    less = {"evaluation": {"every": 0}, "collector": {"num_envs": 2, "moves": 8}}
    config = compose(["ppo_cartpole", less, {"rounds": 2, "env": {"max_steps": 20}}])
    run = tmp_path / "run"
    with Runner(config, run, make_env=negated) as runner:
        runner.run()
    said = r"its env was made by a function of your own, .*negated.*CartPole-v1.*make_env=negated"
    with pytest.raises(ForeignCheckpoint, match=said):
        Trained(run)
    with pytest.raises(ForeignCheckpoint, match=said):
        Runner(config, run, resume=True)
    with Trained(run, make_env=negated) as trained:
        assert trained.play(1)[0].return_ < 0
    for command in (
        ["eval", str(run)],
        ["audit", str(run)],
        ["states", str(run), "--out", str(tmp_path / "s.npz")],
        ["plan", "CartPole-v1", "--network", str(run), "--planner", "mcts", "--max-steps", "2"],
    ):
        assert main(command) == 2, command
        assert "negated" in capsys.readouterr().err
    with Runner(config, run, resume=True, make_env=negated):
        pass


@pytest.mark.slow
def test_a_network_of_one_s_own_is_not_taken_for_that_of_the_settings(tmp_path):
    from plangym_ext.learn import AgentConfig, make_agent_network

    def own_network(observation_space, action_space):
        return make_agent_network(observation_space, action_space, AgentConfig(), seed=1)

    less = {"evaluation": {"every": 0}, "collector": {"num_envs": 2, "moves": 8}}
    config = compose(["ppo_cartpole", less, {"rounds": 1}])
    with Runner(config, tmp_path, make_network=own_network) as runner:
        runner.run()
    with pytest.raises(ForeignCheckpoint, match=r"its network was made by.*own_network"):
        Trained(tmp_path)
    with Trained(tmp_path, make_network=own_network) as trained:
        assert trained.play(1)


@pytest.mark.slow
def test_what_a_network_of_one_s_own_learns_beside_its_parameters_is_saved_and_sent(tmp_path):
    less = {"evaluation": {"every": 0}, "collector": {"num_envs": 2, "moves": 8}}
    preset = ["ppo_cartpole", less, {"algorithm": {"epochs": 2}}]
    with Runner(compose([*preset, {"rounds": 4}]), tmp_path / "a", make_network=Counting) as whole:
        whole.run()
    with Runner(compose([*preset, {"rounds": 2}]), tmp_path / "b", make_network=Counting) as run:
        run.run()
    with Runner(
        compose([*preset, {"rounds": 4}]), tmp_path / "b", make_network=Counting, resume=True
    ) as resumed:
        assert resumed.network.told() == run.network.told() != (1.0, 0.0)
        resumed.run()
    assert weights(resumed.network) == weights(whole.network)
    assert resumed.network.told() == whole.network.told()
    with Trained(tmp_path / "b", make_network=Counting) as trained:
        assert trained.network.told() == whole.network.told()


@pytest.mark.slow
def test_it_is_searched_with_in_workers_as_here(tmp_path):
    found = []
    for count in (0, 1):
        config = small({"collector": {"n_workers": count}, "evaluation": {"every": 0}})
        with Runner(config, tmp_path / str(count), make_network=Counting) as runner:
            runner.run()
            assert runner.network.told() != (1.0, 0.0)
            found.append((weights(runner.network), runner.network.told()))
    assert found[0] == found[1]
