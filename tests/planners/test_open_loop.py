from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners import MCTS, STS, OpenLoopMCTS


@pytest.mark.parametrize("wave_size", [1, 8])
def test_without_chance_it_is_closed_loop_search_at_the_price_of_steps(models, wave_size):
    model = models.random_mdp(3)
    options = {"rollout_depth": 0, "wave_size": wave_size}
    closed = MCTS(40, **options).plan(model, model.state(0), rng=0)
    before = model.model_steps
    plan = OpenLoopMCTS(40, **options).plan(model, model.state(0), rng=0)
    np.testing.assert_array_equal(plan.visits, closed.visits)
    np.testing.assert_allclose(plan.q, closed.q, rtol=1e-6)
    assert plan.action == closed.action
    assert plan.budget.model_steps == model.model_steps - before
    assert plan.budget.model_steps > 2 * closed.budget.model_steps


@pytest.mark.parametrize("wave_size", [1, 8])
@pytest.mark.parametrize("masked", [False, True])
def test_without_chance_priors_and_masks_are_those_of_closed_loop_search(models, wave_size, masked):
    model, evaluator = models.random_mdp(3), models.table_evaluator(1, 40, 3)
    mask = np.random.default_rng(0).random((40, 3)) < 0.7
    mask[~mask.any(axis=1)] = True
    if masked:
        step_batch, rollout_batch = model.step_batch, model.rollout_batch

        def with_mask(out):
            return out._replace(infos={"action_mask": mask[model.index(out.states)]})

        model.step_batch = lambda *args, **kwargs: with_mask(step_batch(*args, **kwargs))
        model.rollout_batch = lambda *args, **kwargs: with_mask(rollout_batch(*args, **kwargs))
    options = {"evaluator": evaluator, "wave_size": wave_size}
    root = {"rng": 0, "obs": np.zeros(1, np.float32), "legal": mask[0] if masked else None}
    closed = MCTS(60, **options).plan(model, model.state(0), **root)
    plan = OpenLoopMCTS(60, **options).plan(model, model.state(0), **root)
    np.testing.assert_array_equal(plan.visits, closed.visits)
    np.testing.assert_allclose(plan.q, closed.q, rtol=1e-6)


class Coin:
    """Action 0 pays 0.4. Action 1 pays 1 or 0, by a coin that lies in the state.

    A state row is 16 bytes: the step and the coin's next face.
    """

    def __init__(self, models):
        self.batch, self.action_space, self.calls = models.RolloutBatch, Discrete(2), []

    def state(self, face):
        return np.array([0, face], np.int64).view(np.uint8)

    def rollout_batch(self, actions, states):
        now = np.ascontiguousarray(states).view(np.int64).copy()
        assert (now[:, 0] == 0).all()
        self.calls.append(actions.shape)
        reward = np.zeros(actions.shape)
        reward[:, 0] = np.where(actions[:, 0] == 0, 0.4, now[:, 1])
        now[:, 0] = 1
        over, steps = np.ones(len(now), bool), np.ones(len(now), np.int32)
        obs = now.astype(float)
        return self.batch(now.view(np.uint8), obs, reward, over, ~over, steps, {})


def toss(states, rng):
    """The same states with another face to come."""
    drawn = np.ascontiguousarray(states).view(np.int64).copy()
    drawn[:, 1] = rng.integers(2, size=len(drawn))
    return drawn.view(np.uint8)


def test_chance_is_averaged_over_and_not_foreseen(models):
    model = Coin(models)
    # Closed in the state, the coin is known: it will be heads, or tails.
    for face in (0, 1):
        planner = OpenLoopMCTS(200, rollout_depth=0)
        plan = planner.plan(model, model.state(face), rng=0)
        np.testing.assert_allclose(plan.q, [0.4, face], rtol=1e-6)
        assert plan.action == face
    planner = OpenLoopMCTS(400, rollout_depth=0, resample=toss)
    plan = planner.plan(model, model.state(0), rng=0)
    assert plan.action == 1
    # Some 300 fair coins: within five standard deviations.
    assert plan.q[1] == pytest.approx(0.5, abs=0.15)
    assert plan.q[0] == pytest.approx(0.4)
    assert plan.budget.model_steps == 400


def test_rows_planned_together_equal_rows_planned_alone(models):
    model, planner = models.random_mdp(3), OpenLoopMCTS(24, rollout_depth=3)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.q, alone.q)


def test_no_states_are_kept_and_steps_are_bounded(models):
    model = models.random_mdp(3, states=400)
    planner = OpenLoopMCTS(max_model_steps=300, rollout_depth=2)
    plan = planner.plan(model, model.state(0), rng=0)
    assert 200 < plan.budget.model_steps == model.model_steps <= 300
    with pytest.raises(InvalidOption, match="keep_tree must be False"):
        OpenLoopMCTS(keep_tree=True)
    with pytest.raises(InvalidOption, match="resample must be a function of states or None; got 3"):
        OpenLoopMCTS(resample=3)


def test_limits_of_steps_are_those_of_each_row_alone(models):
    # Rows of different depths: what one may begin does not depend on how deep another is.
    model = models.random_mdp(3, states=400)
    planner = OpenLoopMCTS(max_model_steps=31, rollout_depth=0, wave_size=2)
    states = np.stack([model.state(i) for i in range(8)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(8)])
    for i, plan in enumerate(together):
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        assert plan.budget.model_steps == alone.budget.model_steps


def test_the_least_that_pays_for_a_simulation_is_enough(models):
    model = models.random_mdp(3, states=400)
    plan = OpenLoopMCTS(max_model_steps=9, rollout_depth=8).plan(model, model.state(0), rng=0)
    assert 0 < plan.budget.model_steps <= 9
    with pytest.raises(InvalidOption, match="max_model_steps must be at least 9"):
        OpenLoopMCTS(max_model_steps=8, rollout_depth=8).plan(model, model.state(0), rng=0)


class Hazard:
    """Every step earns 1 and ends the episode with chance 1/2; a state is a seed of that."""

    action_space = Discrete(4)

    def __init__(self, models):
        self.batch = models.RolloutBatch

    def rollout_batch(self, actions, states):
        count, depth = actions.shape
        rewards, over, steps = np.zeros((count, depth)), np.zeros(count, bool), np.zeros(count, int)
        for i, seed in enumerate(np.ascontiguousarray(states).view(np.int64)[:, 0]):
            ends = 1 + np.flatnonzero(np.random.default_rng(seed).random(depth) < 0.5)
            steps[i], over[i] = (ends[0], True) if len(ends) else (depth, False)
            rewards[i, : steps[i]] = 1.0
        return self.batch(states, np.zeros((count, 1)), rewards, over, over & False, steps, {})


def reseed(states, rng):
    return rng.integers(2**40, size=(len(states), 1)).view(np.uint8)


@pytest.mark.parametrize("wave_size", [1, 8])
def test_a_node_has_the_prior_of_the_first_state_that_it_is_reached_in(models, wave_size):
    prior = np.array([0.97, 0.01, 0.01, 0.01], np.float32)

    def evaluator(obs):
        return np.tile(prior, (len(obs), 1)), np.zeros(len(obs))

    options = {"resample": reseed, "evaluator": evaluator, "wave_size": wave_size}
    planner, gone_through = OpenLoopMCTS(300, return_tree=True, **options), 0
    for seed in range(5):
        plan = planner.plan(Hazard(models), np.zeros(8, np.uint8), rng=seed, obs=np.zeros(1))
        tree = plan.tree
        for node in range(1, len(tree.parent)):
            below = np.flatnonzero(tree.parent == node)
            gone_through += len(below) > 0
            np.testing.assert_array_equal(tree.prior[below], prior[tree.action[below]])
        # A simulation ends where no state that goes on has been seen, and counts there.
        assert tree.visits[0] == 300
    assert gone_through > 20


@pytest.mark.parametrize("by_chance", [False, True])
def test_no_sequence_is_longer_than_the_depth_limit(by_chance):
    import plangym_ext

    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        resample = env.reseeded if by_chance else None
        for depth in (1, 3):
            how = {"max_depth": depth, "rollout_depth": 0, "wave_size": 4}
            plan = OpenLoopMCTS(40, resample=resample, **how).plan(env, state, rng=0)
            assert plan.depth == depth
            assert plan.visits.sum() == 40
            # Every simulation plays its sequence from the root, to the limit at most.
            assert plan.budget.model_steps <= 40 * depth


@pytest.mark.parametrize("expansions", [1, 3])
@pytest.mark.parametrize("wave_size", [1, 8])
def test_without_chance_expansions_in_a_row_are_those_of_sts(models, wave_size, expansions):
    model, evaluator = models.random_mdp(3), models.table_evaluator(1, 40, 3)
    options = {"num_expansions": expansions, "evaluator": evaluator, "wave_size": wave_size}
    root = {"rng": 0, "obs": np.zeros(1, np.float32)}
    closed = STS(30, **options).plan(model, model.state(0), **root)
    before = model.model_steps
    plan = OpenLoopMCTS(30, **options).plan(model, model.state(0), **root)
    np.testing.assert_array_equal(plan.visits, closed.visits)
    np.testing.assert_array_equal(plan.q, closed.q)
    assert plan.budget.model_steps == model.model_steps - before > closed.budget.model_steps
    assert plan.budget.expansions > closed.budget.expansions


class Lottery:
    """Steps lead to one of two cells, as the seed in the state says; cells from 10 on are ends."""

    action_space = Discrete(3)

    def __init__(self, models, seed):
        rng = np.random.default_rng(seed)
        self.batches = models.Batch, models.RolloutBatch
        self.next = rng.integers(12, size=(12, 3, 2))
        self.reward = rng.integers(-4, 5, size=(12, 3, 2)) / 4
        self.q = rng.integers(-8, 9, size=(12, 3)) / 4

    def one(self, cell, seed, action):
        assert cell < 10
        face = (seed * 0x9E3779B97F4A7C15 >> 11) & 1
        cell, reward = self.next[cell, action, face], self.reward[cell, action, face]
        return cell, (seed * 25214903917 + 11) % 2**40, reward

    def rollout_batch(self, actions, states):
        now = np.ascontiguousarray(states).view(np.int64).copy()
        rewards, steps = np.zeros(actions.shape), np.zeros(len(now), np.int32)
        for i, row in enumerate(actions):
            for t, action in enumerate(row):
                *now[i], rewards[i, t] = self.one(*now[i].tolist(), action)
                steps[i] += 1
                if now[i, 0] >= 10:
                    break
        over = now[:, 0] >= 10
        last = now.view(np.uint8), now[:, :1].astype(float), rewards, over, over & False
        return self.batches[1](*last, steps, {})

    def step_batch(self, actions, states):
        out = self.rollout_batch(actions[:, None], states)
        return self.batches[0](*out[:2], out.rewards[:, 0], *out[3:5], {})


def redrawn(states, rng):
    drawn = np.ascontiguousarray(states).view(np.int64).copy()
    drawn[:, 1] = rng.integers(2**40, size=len(drawn))
    return drawn.view(np.uint8)


def in_plain_python(model, sims, most, by_q, deep, c=1.5, gamma=0.5):
    """Alpacka's rule without its two mistakes: visits and returns of the root's actions."""
    rng, order = np.random.default_rng(0), np.arange(3)
    rng.shuffle(order)
    root = {"n": 0, "q": 0.0, "below": {}}

    def choose(node):
        tried = max(1, node["n"] - (node is not root))

        def score(a):
            child = node["below"][a]
            return child["q"] + c / 3 * np.sqrt(tried) / (1 + child["n"])

        return max(order, key=score)  # the first of equals

    for _ in range(sims):
        state = redrawn(np.array([[0, 0]]).view(np.uint8), rng).view(np.int64)[0].tolist()
        path, actions, node = [], [], root
        while node["below"]:
            actions.append(choose(node))
            node = node["below"][actions[-1]]
            path.append(node)
        rewards = []
        for action in actions:
            *state, reward = model.one(*state, action)
            rewards.append(reward)
            if state[0] >= 10:
                break
        ret = 0.0 if state[0] >= 10 else model.q[state[0]].max()
        expanded = 0
        while state[0] < 10 and len(rewards) < deep and expanded < most:
            expanded += 1
            after = [model.one(*state, a) for a in range(3)]
            for a in range(3):
                cell, _, reward = after[a]
                ahead = 0.0 if cell >= 10 else model.q[cell].max()
                q = model.q[state[0], a] if by_q else reward + gamma * ahead
                node["below"][a] = {"n": 1, "q": q, "below": {}}
            action = choose(node)
            ret = node["below"][action]["q"]
            ended = after[action][0] >= 10
            if expanded == most or len(rewards) + 1 >= deep or (ended and not by_q):
                break
            *state, reward = after[action]
            node = node["below"][action]
            path.append(node)
            rewards.append(reward)
            ret = 0.0 if ended else model.q[state[0]].max()
        for node, reward in list(zip(path, rewards, strict=False))[::-1]:
            ret = reward + gamma * ret
            node["n"] += 1
            node["q"] += (ret - node["q"]) / node["n"]
        root["n"] += 1
    below = [root["below"][a] for a in range(3)]
    return [child["n"] for child in below], [child["q"] for child in below]


@pytest.mark.parametrize("by_q", [False, True])
@pytest.mark.parametrize(("most", "deep"), [(1, 99), (4, 99), (3, 3)])
def test_expansions_under_chance_are_those_of_plain_python(models, by_q, most, deep):
    for seed in range(4):
        model = Lottery(models, seed)

        def q_of(obs, model=model):
            return model.q[obs[:, 0].astype(int)]

        rated = {"evaluator": lambda obs, q_of=q_of: (None, q_of(obs).max(axis=1))}
        how = {"q_function": q_of} if by_q else rated
        how |= {"num_expansions": most, "max_depth": deep, "discount": 0.5, "value_scale": "none"}
        planner = OpenLoopMCTS(40, resample=redrawn, wave_size=1, **how)
        root = np.array([0, 0]).view(np.uint8)
        plan = planner.plan(model, root, rng=0, obs=np.zeros(1))
        visits, q = in_plain_python(model, 40, most, by_q, deep)
        np.testing.assert_array_equal(plan.visits, visits)
        np.testing.assert_allclose(plan.q, q, rtol=1e-5)
        assert plan.depth <= deep
        # Rows planned together are those planned alone, with wide waves as well.
        planner = OpenLoopMCTS(20, resample=redrawn, capacity=50, **how)
        rngs = [np.random.default_rng(i) for i in range(3)]
        seen = {"obs": np.zeros((3, 1))}
        together = planner.plan_batch(model, np.tile(root, (3, 1)), rngs=rngs, **seen)
        for i, found in enumerate(together):
            alone = planner.plan(model, root, rng=i, obs=np.zeros(1))
            np.testing.assert_array_equal(found.visits, alone.visits)
            np.testing.assert_array_equal(found.q, alone.q)
            assert found.full == alone.full


def test_a_q_function_takes_no_steps_of_its_own(models):
    model = models.random_mdp(3, states=400)
    table = np.random.default_rng(0).normal(size=(400, 3))
    planner = OpenLoopMCTS(max_model_steps=30, q_function=lambda obs: table[obs[:, 0].astype(int)])
    plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
    assert 25 < plan.budget.model_steps == model.model_steps <= 30
    assert plan.budget.evaluator_rows <= 1 + plan.budget.model_steps
    with pytest.raises(InvalidOption, match="rollout_depth must be 0 with q_function"):
        OpenLoopMCTS(q_function=lambda obs: obs, rollout_depth=2)
    wrong = OpenLoopMCTS(4, q_function=lambda obs: obs)
    with pytest.raises(InvalidAnswer, match=r"q_function: values must be \(1, 3\) finite"):
        wrong.plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
    with pytest.raises(InvalidOption, match="q_function needs obs"):
        wrong.plan(model, model.state(0), rng=0)
