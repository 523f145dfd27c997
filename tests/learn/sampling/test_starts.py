"""Episodes of samplers that begin from stored states."""

from __future__ import annotations

import numpy as np
import pytest
from sampling_envs import Games, Oracle, Tally, assert_same, copied, oracle_rows, oracle_venv

from plangym_ext import StateSet, make, make_vec
from plangym_ext.errors import ForeignCheckpoint, ForeignState, InvalidOption, WrongKind
from plangym_ext.learn import (
    Acted,
    AlternatingSampler,
    BackwardStarts,
    RandomAgent,
    SerialSampler,
    StoredStarts,
    UnsureStarts,
    WorkerSampler,
)
from plangym_ext.planners import demonstrated_states


def oracle_states(env=Oracle, count=4):
    """States of row 0 after 0 to `count` - 1 steps of its episodes, and what is seen there."""
    states, obs = [], []
    with oracle_venv(1, env) as venv:
        shown, _ = venv.reset(seed=0)
        for _ in range(count):
            states.append(venv.get_states()[0])
            obs.append(shown[0].copy())
            shown, *_ = venv.step(np.zeros(1, np.int64))
    return StateSet(np.stack(states), np.stack(obs))


def cartpole_states(count=6):
    """States of CartPole on the way from one reset."""
    with make_vec("CartPole-v1", 1, backend="kernel", autoreset_mode="same_step") as venv:
        shown, _ = venv.reset(seed=3)
        states, obs = [], []
        for step in range(count):
            states.append(venv.get_states()[0])
            obs.append(shown[0].copy())
            shown, *_ = venv.step(np.array([step % 2]))
    return StateSet(np.stack(states), np.stack(obs))


def copied_fragments(sampler, count=4):
    """The trees and the tables of some fragments."""
    found = []
    for _ in range(count):
        one = sampler.collect()
        found.append((copied(one.data), {k: v.copy() for k, v in one.episodes.items()}, one.cost))
    return found


def assert_same_fragments(found, wanted):
    for (tree, episodes, cost), (want, table, want_cost) in zip(found, wanted, strict=True):
        assert_same(tree, want)
        assert episodes.keys() == table.keys()
        for name, column in table.items():
            np.testing.assert_array_equal(episodes[name], column, err_msg=name)
        assert (cost.model_steps, cost.restores) == (want_cost.model_steps, want_cost.restores)


@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
def test_episodes_begin_where_they_are_told_to(on_end):
    starts = oracle_states()
    options = {"on_end": on_end, "starts": StoredStarts(starts, weights=[0, 0, 0, 1])}
    with SerialSampler(oracle_venv(3), Tally(), 6, **options) as sampler:
        for tree, episodes, _ in copied_fragments(sampler):
            began = tree["first"] & np.append(tree["valid"], np.ones((1, 3), bool), axis=0)
            # Whatever row plays it, the state is that of the env number 0.
            np.testing.assert_array_equal(tree["obs"][began], [starts.obs[3]] * began.sum())
            assert (episodes["start"] == 3).all()
            shown = tree["obs"][1:][~tree["first"][1:] & tree["valid"]]
            assert (shown[:, 0] == 0).all()
    # The oracle is at the second step of its episode 1, which has 2 + (0 + 2) % 4 = 4 steps.
    assert starts.obs[3].tolist() == [0, 1, 1]
    assert (episodes["length"] == 3).all()


@pytest.mark.parametrize(
    ("on_end", "env", "kinds"),
    [
        ("reset", Oracle, ["workers", "halves", "halves in workers"]),
        ("wait", Games, ["workers", "halves"]),
        ("sticky", Oracle, ["halves"]),
    ],
)
def test_all_samplers_begin_the_same_episodes(on_end, env, kinds):
    states = oracle_states(env)
    options = {"on_end": on_end, "seed": 5, "random_steps": 2}
    if env is Games:
        options["episode_fields"] = ("score",)

    def made(kind):
        mine = options | {"starts": StoredStarts(states, share=0.6)}
        if kind == "workers":
            rows = lambda rows: oracle_rows(rows, env)  # noqa: E731 - travels to workers
            return WorkerSampler(rows, Tally(), 7, 5, n_workers=2, **mine)
        if kind == "serial":
            return SerialSampler(oracle_venv(5, env), Tally(), 7, **mine)
        workers = {"backend": "process", "n_workers": 2} if kind == "halves in workers" else {}
        return AlternatingSampler(oracle_venv(5, env, **workers), Tally(), 7, **mine)

    with made("serial") as serial:
        wanted = copied_fragments(serial)
    tables = np.concatenate([episodes["start"] for _, episodes, _ in wanted])
    assert {-1, 0, 1, 2, 3} == set(tables.tolist())
    for kind in kinds:
        with made(kind) as sampler:
            assert_same_fragments(copied_fragments(sampler), wanted)


def test_a_life_that_is_lost_begins_no_other_episode():
    # Every second ending of a game is that of a life: the state comes at the end of the game.
    starts = StoredStarts(oracle_states(Games), weights=[1, 0, 0, 0])
    with SerialSampler(oracle_venv(1, Games), Tally(), 12, starts=starts) as sampler:
        found = sampler.collect()
        tree = copied(found.data)
    assert found.cost.restores == len(found.episodes["start"])
    # As many endings were only those of a life, after which the game's own next one was played.
    began = tree["obs"][tree["first"], 1]
    assert (began == 0).sum() == found.cost.restores + 1
    assert (began == 1).sum() == tree["first"].sum() - found.cost.restores - 1 > 0


class Masked(Oracle):
    """An oracle whose mask says how many steps of the episode were taken."""

    def _told(self):
        return {"action_mask": np.arange(5) == self.count}

    def reset(self, *, seed=None, options=None):
        obs, _ = super().reset(seed=seed)
        return obs, self._told()

    def step(self, action):
        *found, _ = super().step(action)
        return *found, self._told()


@pytest.mark.parametrize("known", [True, False])
def test_what_may_be_played_is_that_of_the_state(known):
    states = oracle_states(Masked)
    # Steps taken in the episodes of row 0: 0 and 1 in the one of two steps, then 0 and 1.
    assert states.obs[:, 2].tolist() == [0, 1, 0, 1]
    legal = np.arange(5) == states.obs[:, 2:]
    states = StateSet(states.states, states.obs, legal if known else None)
    starts = StoredStarts(states, weights=[0, 1, 0, 1])
    with SerialSampler(oracle_venv(2, Masked), Tally(), 8, starts=starts) as sampler:
        for _ in range(2):
            tree = sampler.collect().data
            first = np.array(tree["first"][0:9])
            mask = np.array(tree["action_mask"][0:9])
            assert first.sum() > 3
            assert (mask[first] == ([0, 1, 0, 0, 0] if known else [1, 1, 1, 1, 1])).all()


def test_rows_that_are_states_or_live_in_workers_begin_there_too():
    states = cartpole_states()

    def fragments(**backend):
        venv = make_vec("CartPole-v1", 4, autoreset_mode="same_step", **backend)
        agent = RandomAgent(venv.single_action_space)
        with SerialSampler(venv, agent, 40, starts=StoredStarts(states, share=0.5)) as sampler:
            return copied_fragments(sampler, 2)

    wanted = fragments(backend="serial")
    assert sum(cost.restores for _, _, cost in wanted) > 1
    assert_same_fragments(fragments(backend="kernel"), wanted)
    assert_same_fragments(fragments(backend="process", n_workers=2), wanted)


def unsure(states):
    return UnsureStarts(states, lambda obs: np.asarray(obs)[:, 2], share=0.8)


def backward(states):
    states = StateSet(states.states, states.obs, to_go=np.array([6.0, 4.0, 2.0, 1.0]))
    return BackwardStarts(states, window=1, step=1, success=0.5, episodes=2)


@pytest.mark.parametrize("make", [unsure, backward], ids=["unsure", "backward"])
@pytest.mark.parametrize("on_end", ["reset", "wait"])
def test_what_was_learned_of_the_states_is_saved(make, on_end):
    def made():
        options = {"on_end": on_end, "starts": make(oracle_states())}
        return SerialSampler(oracle_venv(4), Tally(), 6, **options)

    with made() as whole, made() as resumed:
        copied_fragments(whole, 3)
        saved = whole.state_dict()
        wanted = copied_fragments(whole, 3)
        resumed.load_state_dict(saved)
        assert_same_fragments(copied_fragments(resumed, 3), wanted)
        assert (whole.starts.weights() == resumed.starts.weights()).all()
        assert (whole.starts.weights() != make(oracle_states()).weights()).any()


def test_a_fragment_that_failed_changes_nothing():
    def made():
        return SerialSampler(oracle_venv(3), Failing(), 6, starts=unsure(oracle_states()))

    class Failing(Tally):
        fails = False

        def step(self, inputs, carry):
            if self.fails and (np.asarray(inputs.noise.steps) % 6 == 5).any():
                raise RuntimeError("the agent failed")
            return super().step(inputs, carry)

    with made() as sampler:
        wanted = copied_fragments(sampler, 3)
    with made() as sampler:
        for want in wanted:
            Failing.fails = True
            with pytest.raises(RuntimeError, match="the agent failed"):
                sampler.collect()
            Failing.fails = False
            assert_same_fragments(copied_fragments(sampler, 1), [want])


# Distributions -------------------------------------------------------------------------


def table(start, returns, discounted=None):
    found = {"start": np.array(start), "return": np.array(returns, float)}
    found["terminated"] = np.ones(len(start), bool)
    return found | {"discounted_return": np.array(returns if discounted is None else discounted)}


def test_a_curriculum_goes_back_when_enough_episodes_succeed():
    states = StateSet(np.zeros((5, 1), np.uint8), np.zeros((5, 1)), to_go=np.arange(5.0)[::-1])
    starts = BackwardStarts(states, window=2, step=2, success=0.5, episodes=4)
    assert starts.weights().tolist() == [0, 0, 0, 1, 1]
    # From 3 at least 1 is needed, from 4 nothing: one of the two from 3 succeeds.
    one = starts.after(table([3, 3, -1, 0], [0.5, 1.0, 9.0, 9.0]))
    assert one.place == 3
    # Four of the window now, three of which succeeded.
    two = one.after(table([4, 3], [0.0, 1.0]))
    assert (one.place, two.place, starts.place) == (3, 1, 3)
    assert two.weights().tolist() == [0, 1, 1, 0, 0]
    # What began in the window before says nothing of this one.
    three = two.after(table([3, 4, 4, 4], [9.0, 9.0, 9.0, 9.0]))
    assert three.place == 1
    # The beginning is never passed; there it stays.
    last = three.after(table([1, 1, 1, 1], [9.0] * 4)).after(table([0, 0, 0, 0], [9.0] * 4))
    assert last.place == 0
    assert last.loaded(two.state_dict()).weights().tolist() == two.weights().tolist()


def test_states_are_drawn_by_the_rank_of_the_critics_error():
    states = StateSet(np.zeros((3, 1), np.uint8), np.array([[1.0], [2.0], [3.0]]))
    starts = UnsureStarts(states, lambda obs: obs[:, 0], sharpness=1.0, spread=0.0)
    # The critic says 1, 2, 3; errors 4, 0 and unknown: ranks 2, 3 and 1.
    found = starts.after(table([0, 1], [0.0, 0.0], [5.0, 2.0]))
    total = 1 + 1 / 2 + 1 / 3
    np.testing.assert_allclose(found.weights(), [1 / 2 / total, 1 / 3 / total, 1 / total])
    even = UnsureStarts(states, lambda obs: obs[:, 0], spread=1.0)
    np.testing.assert_allclose(even.weights(), [1 / 3] * 3)


def test_what_follows_an_episode_that_was_cut_is_what_the_critic_says():
    states = StateSet(np.zeros((3, 1), np.uint8), np.array([[1.0], [2.0], [3.0]]))
    starts = UnsureStarts(states, lambda obs: obs[:, 0], sharpness=1.0, spread=0.0)
    cut = {
        "terminated": np.array([True, False, False, False]),
        "last_obs": np.array([[9.0], [10.0], [9.0], [4.0]]),
        "last_discount": np.array([0.9, 0.5, 0.9, 0.25]),
    }
    # Of what terminated 5 - 1; of what was cut 2 + 0.5 * 10 - 2 and 2 + 0.25 * 4 - 3.
    found = starts.after(table([0, 1, -1, 2], [0.0] * 4, [5.0, 2.0, 7.0, 2.0]) | cut)
    assert found.errors.tolist() == [4.0, 5.0, 0.0]


def four_steps(rows):
    """CartPole, whose steps earn 1, cut after four of them."""
    options = {"autoreset_mode": "same_step", "max_episode_steps": 4}
    return make_vec("CartPole-v1", len(rows), backend="kernel", **options)


@pytest.mark.parametrize("kind", ["serial", "workers"])
def test_a_critic_that_is_right_is_unsure_of_nothing(kind):
    with four_steps(range(2)) as venv:
        shown, _ = venv.reset(seed=0)
        states = StateSet(venv.get_states(), shown.copy())
        agent = RandomAgent(venv.single_action_space)
    # A reward of 1 for ever is worth 1 / (1 - 0.9), wherever the env cuts it.
    starts = UnsureStarts(states, lambda obs: np.full(len(obs), 10.0))
    options = {"starts": starts, "discount": 0.9}
    if kind == "workers":
        sampler = WorkerSampler(four_steps, agent, 24, 2, n_workers=1, **options)
    else:
        sampler = SerialSampler(four_steps(range(2)), agent, 24, **options)
    with sampler:
        sampler.collect()
        np.testing.assert_allclose(sampler.starts.errors, 0.0, atol=1e-9)


def test_a_player_that_repeats_the_demonstration_succeeds_always():
    # Rewards that are no numbers of float32, added in another order.
    class Fixed(RandomAgent):
        """A function of the observation alone."""

        def step(self, inputs, carry):
            action = 2.0 * np.sin(37.0 * np.asarray(inputs.obs).sum(1, keepdims=True))
            return Acted(action.astype(np.float32), {}, carry)

    def venv(count):
        return make_vec("Pendulum-v1", count, autoreset_mode="same_step", max_episode_steps=30)

    with make("Pendulum-v1", max_episode_steps=30) as env:
        agent = Fixed(env.action_space)
        states = demonstrated_states(env, agent, seed=0, max_steps=30)
    starts = BackwardStarts(states, window=4, step=4, episodes=5, success=1.0)
    with SerialSampler(venv(4), agent, 32, starts=starts) as sampler:
        for _ in range(30):
            sampler.collect()
        assert sampler.starts.place == 0


def test_shares_are_kept():
    states = StateSet(np.zeros((3, 1), np.uint8), np.zeros((3, 1)))
    assert StoredStarts(states, share=0.5, weights=[1, 3, 0]).table().tolist() == [0.125, 0.5, 0.5]
    assert StoredStarts(states, weights=[1, 1, 1]).table()[-1] == 1.0


def test_mistakes_are_named():
    states = oracle_states()
    with pytest.raises(WrongKind, match="starts must be Starts, such as StoredStarts"):
        SerialSampler(oracle_venv(2), Tally(), 4, starts=states)
    with pytest.raises(InvalidOption, match="weights must be 4 numbers >= 0, not all 0"):
        StoredStarts(states, weights=[0, 0, 0, 0])
    with pytest.raises(InvalidOption, match="share"):
        StoredStarts(states, share=1.5)
    with pytest.raises(InvalidOption, match="to_go"):
        BackwardStarts(states)
    with pytest.raises(ForeignCheckpoint, match="with 3 stored states; there are 4"):
        unsure(states).loaded({"errors": np.zeros(3)})
    saved = backward(states).state_dict()
    for count in (len(states) - 1, len(states) + 1):
        with pytest.raises(ForeignCheckpoint, match=f"saved with {count} stored states"):
            backward(states).loaded({**saved, "count": count})
    # As it was saved before it named them.
    assert backward(states).loaded({k: saved[k] for k in ("place", "last")}).place == saved["place"]
    with (
        SerialSampler(oracle_venv(2), Tally(), 4, starts=StoredStarts(cartpole_states())) as other,
        pytest.raises((ForeignState, ValueError)),
    ):
        other.collect()


def test_random_steps_beyond_an_ending_leave_the_stored_state():
    states = cartpole_states()
    venv = make_vec("CartPole-v1", 24, autoreset_mode="same_step")
    options = {"starts": StoredStarts(states, share=1.0), "random_steps": 60}
    with SerialSampler(venv, RandomAgent(venv.single_action_space), 60, **options) as sampler:
        found = sampler.collect()
        row, start = found.episodes["row"], found.episodes["start"]
        first_of_row = np.unique(row, return_index=True)[1]
        # Random episodes end within some twenty steps: some rows are in their second one.
        assert (start[first_of_row] == -1).any()
        assert (np.delete(start, first_of_row) >= 0).all()
