from __future__ import annotations

import numpy as np
import pytest

from plangym_ext import make
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.errors import InvalidOption
from plangym_ext.planners import MCTS, Budget, demonstrated_states, play, visited_states


def test_an_episode_records_what_was_played(models):
    model, seen = models.narrow_path(3), []
    episode = play(model, MCTS(64), seed=3, max_steps=20, callback=seen.append)
    np.testing.assert_array_equal(episode.actions, [1, 1, 1])
    np.testing.assert_array_equal(episode.rewards, [0, 0, 1])
    assert (episode.return_, episode.length, episode.seed) == (1.0, 3, 3)
    assert (episode.terminated, episode.truncated) == (True, False)
    assert [move.step for move in seen] == [0, 1, 2]
    assert [move.total for move in seen] == [0, 0, 1]
    assert [move.terminated for move in seen] == [False, False, True]
    assert [int(model.index(move.state)) for move in seen] == [1, 2, 3]
    assert [move.obs[0] for move in seen] == [1, 2, 3]
    assert sum((move.plan.budget for move in seen), Budget()) == episode.budget
    # Three real steps, which no plan contains.
    assert episode.budget.model_steps == model.model_steps - 3


@pytest.mark.parametrize("keep_tree", [False, True])
def test_the_seed_decides_the_episode_and_nothing_is_left_over(models, keep_tree):
    # Without rewards every move is a tie, which the seed alone decides.
    model, planner = models.random_mdp(1), MCTS(6, keep_tree=keep_tree)
    model.reward[:] = 0
    runs = [play(model, planner, seed=seed, max_steps=30) for seed in (5, 6, 5)]
    assert runs[0].actions.tobytes() == runs[2].actions.tobytes()
    assert runs[0].budget.model_steps == runs[2].budget.model_steps
    assert runs[0].actions.tobytes() != runs[1].actions.tobytes()


def test_max_steps_and_truncation_are_told_apart(models):
    cut = play(models.chain(9, truncated=[5]), MCTS(4), seed=0, max_steps=9)
    assert (cut.length, cut.terminated, cut.truncated) == (5, False, True)
    stopped = play(models.chain(9), MCTS(4), seed=0, max_steps=3)
    assert (stopped.length, stopped.terminated, stopped.truncated) == (3, False, False)


def test_bad_arguments_are_named_with_their_value(models):
    with pytest.raises(ValueError, match=r"play: seed must be an integer >= 0; got None"):
        play(models.chain(3), MCTS(1), seed=None, max_steps=3)
    with pytest.raises(ValueError, match=r"play: max_steps must be an integer >= 1; got 0"):
        play(models.chain(3), MCTS(1), seed=0, max_steps=0)


@pytest.mark.parametrize("keep_tree", [False, True])
def test_episodes_in_lockstep_are_those_played_alone(models, keep_tree):
    # Episodes begin alike but end at different times, by their choices.
    model, planner = models.random_mdp(1), MCTS(6, keep_tree=keep_tree)
    model.reward[:] = 0
    seen = []
    together = play(model, planner, seed=5, max_steps=12, num_episodes=6, callback=seen.append)
    alone = [play(model, planner, seed=5 + i, max_steps=12) for i in range(6)]
    assert len({episode.length for episode in alone}) > 1
    for one, other in zip(together, alone, strict=True):
        assert one.seed == other.seed
        assert one.actions.tobytes() == other.actions.tobytes()
        assert one.rewards.tobytes() == other.rewards.tobytes()
        assert (one.terminated, one.truncated) == (other.terminated, other.truncated)
        assert one.budget.model_steps == other.budget.model_steps
    for i in range(6):
        assert [m.step for m in seen if m.episode == i] == list(range(alone[i].length))


def test_one_wave_is_one_batch_for_all_episodes(models):
    model = models.chain(99)
    play(model, MCTS(4, wave_size=1, rollout_depth=0), seed=0, max_steps=2, num_episodes=5)
    # Two moves of four waves and the real step, five rows each.
    assert model.waves == [5] * 10


def test_masks_of_the_played_states_reach_the_planner(models):
    class Masked(models.TableModel):
        def reset(self, *, seed=None):
            return *super().reset(seed=seed)[:2], {"action_mask": np.array([0, 1], np.int8)}

        def step(self, action, state):
            allowed = self.index(state) % 2
            assert action == 1 - allowed, f"{action} in {self.index(state)}"
            mask = np.array([1 - allowed, allowed], np.int8)
            return *super().step(action, state)[:5], {"action_mask": mask}

    successor = np.arange(9)[:, None] + [[1, 1]]
    model = Masked(np.minimum(successor, 8), np.ones((9, 2)))
    episode = play(model, MCTS(3, rollout_depth=0), seed=0, max_steps=4)
    np.testing.assert_array_equal(episode.actions, [1, 0, 1, 0])


def test_rows_that_say_nothing_of_masks_may_play_everything(models):
    class Infos(dict):
        def __getitem__(self, key):
            if isinstance(key, str):
                return super().__getitem__(key)
            mask = super().__getitem__("action_mask")[key]
            return {"action_mask": mask} if mask.any() else {}

    class Sometimes(models.TableModel):
        tells_masks = True

        def _batch(self, index, reward):
            # In even states all is allowed, and nothing is said about it.
            mask = np.where(index[:, None] % 2 == 1, [[0, 1]], [[0, 0]]).astype(np.int8)
            out = super()._batch(index, reward)
            return out._replace(infos=Infos(action_mask=mask))

        def step(self, action, state):
            out = self.step_batch(np.array([action]), states=state[None])
            return (*(x[0] for x in out[:5]), out.infos[0])

    model = Sometimes(np.minimum(np.arange(12)[:, None] + [[1, 2]], 11), np.ones((12, 2)))
    alone = [play(model, MCTS(6), seed=seed, max_steps=5) for seed in range(4)]
    beside = play(model, MCTS(6), seed=0, max_steps=5, num_episodes=4)
    for one, other in zip(alone, beside, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)


def test_many_need_a_number(models):
    with pytest.raises(ValueError, match=r"play: num_episodes must be an integer >= 1; got 0"):
        play(models.chain(3), MCTS(1), seed=0, max_steps=3, num_episodes=0)


def test_episodes_begin_from_states_with_what_is_seen_there(models):
    # Three states of a chain of six steps that pay 1 each: 5, 3 and 1 are left.
    model, seen = models.chain(7, terminated=[6]), []
    first = play(model, MCTS(2), seed=0, max_steps=9, callback=seen.append)
    assert first.length == 6
    moves = [seen[0], seen[2], seen[4]]
    starts = StateSet(np.stack([m.state for m in moves]), np.stack([m.obs for m in moves]))
    options = {"max_steps": 9, "num_episodes": 3, "starts": starts}
    episodes = play(model, MCTS(2), seed=0, **options)
    assert [episode.length for episode in episodes] == [5, 3, 1]
    assert [episode.return_ for episode in episodes] == [5.0, 3.0, 1.0]
    assert [episode.seed for episode in episodes] == [0, 1, 2]
    # An observation is asked for before the first step: it is that of the state.
    rated: list = []

    def rate(obs):
        rated.append(np.asarray(obs)[:, 0].tolist())
        return None, np.zeros(len(obs))

    play(model, MCTS(1, evaluator=rate), seed=0, **{**options, "max_steps": 1})
    assert rated[0] == [1, 3, 5]


def test_there_is_a_state_for_every_episode(models):
    model = models.chain(3)
    starts = StateSet(model.reset(seed=0)[0][None], np.zeros((1, 1)))
    with pytest.raises(InvalidOption, match=r"one of 1 to 1, .* got 2"):
        play(model, MCTS(1), seed=0, max_steps=3, num_episodes=2, starts=starts)


def test_one_episode_alone_begins_from_the_first_state():
    with make("CartPole-v1") as env:
        states = visited_states(env, MCTS(2), 3, seed=5, max_steps=20, num_episodes=2)
        options = {"seed": 1, "max_steps": 12, "starts": states}
        first, _ = play(env, MCTS(4), num_episodes=2, **options)
        env.reset(seed=9)
        alone = play(env, MCTS(4), **options)
    np.testing.assert_array_equal(alone.actions, first.actions)
    np.testing.assert_array_equal(alone.rewards, first.rewards)


def test_visited_states_are_drawn_alike_and_none_twice(models):
    model = models.chain(9, terminated=[8])  # comes through 1 to 7; the eighth step ends it
    counts = np.zeros(9, int)
    for seed in range(60):
        found = visited_states(model, MCTS(2), 3, seed=seed, max_steps=20, num_episodes=1)
        places = [int(model.index(state)) for state in found.states]
        assert places == sorted(set(places))
        assert found.obs[:, 0].tolist() == places
        counts[places] += 1
    assert counts[[0, 8]].sum() == 0
    # 180 draws of 7 places: 25.7 each, with a deviation of 3.8 (3 of 7, without repeats).
    assert (abs(counts[1:8] - 25.7) < 4 * 3.8).all()
    all_of_them = visited_states(model, MCTS(2), 14, max_steps=20, num_episodes=2)
    assert sorted(all_of_them.obs[:, 0].tolist()) == sorted([*range(1, 8)] * 2)
    # The 8 steps of an episode pay 1 each: 8 - i are left at i.
    np.testing.assert_array_equal(all_of_them.to_go, 8 - all_of_them.obs[:, 0])
    with pytest.raises(InvalidOption, match="15 states were requested, but 2 episodes visited"):
        visited_states(model, MCTS(2), 15, max_steps=20, num_episodes=2)


def test_a_demonstration_has_its_states_in_order_up_to_the_last(models):
    model = models.chain(9, terminated=[8])
    whole = demonstrated_states(model, MCTS(2))
    assert whole.obs[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert whole.to_go.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert demonstrated_states(model, MCTS(2), every=3).obs[:, 0].tolist() == [1, 4, 7]
    with pytest.raises(InvalidOption, match="ended with its first step"):
        demonstrated_states(models.chain(2, terminated=[1]), MCTS(2))
