"""States that outgrow their rows in the middle of a plan: plans are as if rows had been as wide."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.explore.go_explore import GoExplore
from plangym_ext.explore.playing import verify
from plangym_ext.planners import MCTS, BestFirst, GraphSearch, LevinTS, play


class Way(gym.Env):
    """Remembers the cells that it came by; a new one earns something."""

    observation_space = gym.spaces.Box(0, 99, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.way = ["cell 0" * 20]
        self.cell = 0
        return self._seen(), {}

    def step(self, action):
        self.cell = (self.cell * 3 + int(action) + 1) % 50
        name = f"cell {self.cell}" * 20
        reward = 0.0 if name in self.way else float(np.sin(self.cell))
        self.way.append(name)
        return self._seen(), reward, len(self.way) > 30, False, {}

    def _seen(self):
        return np.array([self.cell, len(self.way)], np.float64)


class Ring(gym.Env):
    """A ring of cells, of which the far ones take more memory; the one opposite is the goal."""

    observation_space = gym.spaces.Box(0, 99, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    size = 20

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self._seen(), {}

    def step(self, action):
        self.cell = (self.cell + (1 if action else -1)) % self.size
        over = self.cell == self.size // 2
        return self._seen(), float(over), over, False, {}

    def _seen(self):
        self.held = "x" * (200 * min(self.cell, self.size - self.cell))
        return np.array([self.cell], np.float64)


def evaluated(obs):
    weights = 1 + abs(np.sin(np.outer(obs[:, 0] + 1, np.arange(1, 4))))
    return weights / weights.sum(axis=1, keepdims=True), np.cos(obs[:, 0])


def made(cls, n_workers=None):
    gym.register("Widened-v0", cls, max_episode_steps=None)
    try:
        # The way whose rows grow: which way is the cheapest depends on the load.
        return plangym_ext.make("Widened-v0", n_workers=n_workers, capture="snapshot")
    finally:
        gym.registry.pop("Widened-v0")


PLANNERS = {
    "kept": lambda: MCTS(24, rollout_depth=3, keep_tree=True),
    "kept, in slots": lambda: MCTS(24, rollout_depth=0, keep_tree=True, slots=True),
    "chance": lambda: MCTS(24, rollout_depth=0, chance=True),
    "in flight": lambda: MCTS(24, evaluator=evaluated, waves_in_flight=3),
}


@pytest.mark.parametrize("name", PLANNERS)
def test_episodes_do_not_depend_on_how_wide_rows_were(name):
    with made(Way) as env:
        before = env.state_width
        # Rows widen in the first, and are wide from the start in the second.
        first, second = (play(env, PLANNERS[name](), seed=0, max_steps=20) for _ in range(2))
        assert env.state_width > before
    with made(Way) as env:
        beside = play(env, PLANNERS[name](), seed=0, max_steps=20, num_episodes=2)[0]
    for other in (second, beside):
        assert other.actions.tolist() == first.actions.tolist()
        assert other.budget.model_steps == first.budget.model_steps


@pytest.mark.slow
def test_a_wave_that_was_begun_before_rows_widened_is_taken():
    found = []
    for n_workers in (None, 2):
        with made(Way, n_workers) as env:
            found.append(play(env, PLANNERS["in flight"](), seed=0, max_steps=12).actions.tolist())
    assert found[0] == found[1]


def test_chance_is_drawn_from_states_of_before():
    with made(Way) as env:
        state, obs, _ = env.reset(seed=0)
        env.rollout_batch(np.zeros((1, 25), np.int64), state[None])
        assert env.state_width > len(state)
        planner = MCTS(20, chance=True, rollout_depth=0)
        plan = planner.plan(env, state, rng=0, obs=obs)
        again, _, _ = env.reset(seed=0)
        assert len(again) == env.state_width
        wide = planner.plan(env, again, rng=0, obs=obs)
    assert plan.visits.tolist() == wide.visits.tolist()


GRAPHS = {
    "best-first": lambda: BestFirst(200),
    "levin": lambda: LevinTS(2000),
    "graph": lambda: GraphSearch(60, rollout_depth=0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_know_a_state_again_in_wider_rows(name):
    with made(Ring) as env:
        state, obs, _ = env.reset(seed=0)
        first, second = (GRAPHS[name]().plan(env, state, rng=0, obs=obs) for _ in range(2))
        assert env.state_width > len(state)
    assert first.budget.model_steps == second.budget.model_steps
    assert 0 < first.budget.expansions <= Ring.size


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_plan_from_states_of_other_widths_side_by_side(name):
    with made(Ring) as env:
        rows = [env.reset(seed=0)[:2]]
        rows.extend(env.step(1, rows[-1][0])[:2] for _ in range(3))
        # As wide as the widest, with zeros after the others.
        width = max(len(state) for state, _ in rows)
        states = np.stack([np.pad(state, (0, width - len(state))) for state, _ in rows])
        rngs = [np.random.default_rng(i) for i in range(len(rows))]
        obs = np.stack([seen for _, seen in rows])
        plans = GRAPHS[name]().plan_batch(env, states, rngs=rngs, obs=obs)
        for i, plan in enumerate(plans):
            alone = GRAPHS[name]().plan(env, states[i], rng=np.random.default_rng(i), obs=obs[i])
            assert plan.action == alone.action


def test_explored_ways_are_verified_in_wider_rows():
    with made(Ring) as env:
        explorer = GoExplore(env, lambda obs, infos: obs.astype(np.int64), rows=4, horizon=6)
        archive = explorer.run(2000)
        assert len(archive) == Ring.size
        for cell in range(len(archive)):
            verify(explorer, cell)
