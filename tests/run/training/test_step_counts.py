"""What runs say of the steps that were made, against an env that counts them itself."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import plangym_ext
from plangym_ext.learn import PlannerAgent, SerialSampler
from plangym_ext.learn.sampling.evaluation import EvaluationSampler
from plangym_ext.planners import MCTS
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner

PLANNER = {"planner": {"name": "mcts", "num_simulations": 5, "rollout_depth": 0}}
SOLUTIONS = {
    "planner": {"name": "best-first", "num_simulations": 20, "state_key": "obs"},
    "algorithm": {"name": "supervised", "policy_target": "action"},
}
PPO = {"agent": {"name": "actor_critic", "hidden": (8,)}, "algorithm": {"name": "ppo"}}
FORKED = {"advantages": {"name": "forked", "branches": 3, "horizon": 4, "every": 2}}
DQN = {"name": "dqn", "learning_starts": 8, "batch_size": 4}
EXPERT = {"name": "expert", "learning_starts": 8, "batch_size": 4, "reanalyze": 0.5}
#: By kind: its settings.
RUNS = {
    "planner": PLANNER,
    "planner in workers": {**PLANNER, "collector": {"n_workers": 2}},
    "solutions": {**SOLUTIONS, "collector": {"kind": "solutions"}},
    "agent": PPO,
    "forked": {**PPO, "algorithm": {"name": "ppo", **FORKED}},
    "expert": {
        "agent": PPO["agent"],
        "algorithm": EXPERT,
        "planner": {"name": "mcts", "num_simulations": 5},
    },
    "dqn": {"agent": {"name": "q", "hidden": (8,)}, "algorithm": DQN},
    "async": {
        "agent": {"name": "q", "hidden": (8,)},
        "algorithm": DQN,
        "mode": "async",
        "collector": {"n_workers": 1},
    },
}


def counting(path):
    """Return what makes envs that write a byte to a file for each step, in any process."""
    import gymnasium as gym

    # Here, so that workers get it by value.
    class Counted(gym.Env):
        """Action 1 goes on; field 4 pays 1 and ends the episode."""

        observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def __init__(self):
            self.at = 0
            self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            os.write(self.file, b".")
            self.at += int(action)
            over = self.at == 4
            return np.full(1, self.at, np.float32), float(over), over, False, {}

        def get_state(self):
            return np.array([self.at]).view(np.uint8)

        def set_state(self, state):
            self.at = int(np.array(state).view(np.int64)[0])

        def close(self):
            if self.file >= 0:
                os.close(self.file)
            self.file = -1

    return Counted


class Counts(Callback):
    """Steps of the env from the first round to the end."""

    def __init__(self, path):
        self.path, self.made = path, 0

    def on_start(self, runner):
        self.made = -os.path.getsize(self.path)

    def on_end(self, runner):
        self.made += os.path.getsize(self.path)


def run(folder, settings):
    """Run a kind of run; return its counts, the rows of its log, and its last step."""
    own, path = settings.get("collector", {}), str(folder / "steps")
    env_cls = counting(path)

    def make_env(**_):
        return env_cls()

    learns = {"learning_starts": 5, "updates_per_round": 1} if "agent" not in settings else {}
    common = {
        "env": {"id": "Counted", "max_steps": 9},
        "rounds": 3,
        "evaluation": {"every": 0},
    }
    sections = {"collector": {"num_envs": 3, "moves": 6, **own}}
    if learns:
        name = {"name": "alphazero", **settings.get("algorithm", {})}
        sections["algorithm"] = name | learns
    counts = Counts(path)
    config = compose([common, settings, sections])
    with Runner(config, folder / "run", callbacks=[counts], make_env=make_env) as runner:
        runner.run()
        steps = runner.steps
    lines = (folder / "run" / "progress.jsonl").read_text().splitlines()
    return counts.made, [json.loads(line) for line in lines], steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(RUNS))
def test_a_run_logs_the_steps_that_its_env_has_made(tmp_path, kind):
    made, rows, steps = run(tmp_path, RUNS[kind])
    assert sum(row["model_steps"] for row in rows) == made > 0
    assert rows[-1]["step"] == steps
    if kind == "solutions":
        # Its planner steps each state's actions once, and four moves solve a problem.
        played = sum(round(row["episodes"] * row["length"]) for row in rows)
        assert steps == played == 3 * 3 * 4
    else:
        assert steps == 3 * 3 * 6


@pytest.mark.parametrize("moves", [2, 200])
def test_the_step_of_solutions_is_what_was_played(tmp_path, moves):
    settings = {**SOLUTIONS, "collector": {"kind": "solutions", "moves": moves}}
    _, rows, _ = run(tmp_path, settings)
    assert [row["step"] for row in rows] == [12, 24, 36]


def test_a_planner_that_plays_as_an_agent_is_charged_for_its_searches(tmp_path):
    path = str(tmp_path / "steps")
    env_cls = counting(path)
    with (
        plangym_ext.make(env_cls, n_workers=0) as model,
        plangym_ext.make_vec(env_cls, 3, autoreset_mode="same_step") as venv,
    ):
        agent = PlannerAgent(MCTS(5, rollout_depth=0), model)
        sampler = SerialSampler(venv, agent, 6)
        sampler.collect()  # also begins
        before = os.path.getsize(path)
        found = sampler.collect()
        assert found.cost.model_steps == os.path.getsize(path) - before > 18
        assert found.steps == 18
        judge = EvaluationSampler(venv, agent, 4, max_steps=9)
        before = os.path.getsize(path)
        found = judge.evaluate()
        assert found.cost.model_steps == os.path.getsize(path) - before
        assert found.steps == found.episodes["length"].sum()
