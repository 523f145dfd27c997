"""`SerialSampler` writes what a plain loop over single envs gives, whatever moves the envs."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sampling_envs import (
    Games,
    NestedOracle,
    Oracle,
    Tally,
    assert_same,
    copied,
    oracle_venv,
    played,
)

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.sampling.actors.actor import follow
from plangym_ext.learn.sampling.episode_statistics import count_episodes
from plangym_ext.learn.sampling.local import AlternatingSampler, SerialSampler

ENDS = ["reset", "wait", "sticky"]


def sampler_of(num_steps=7, num_envs=3, env=Oracle, agent=None, venv=None, **options):
    venv = venv or oracle_venv(num_envs, env)
    return SerialSampler(venv, agent or Tally(), num_steps, **options)


def fragments_of(sampler, count):
    """Return copies of fragments, and the episodes as `played` gives them."""
    found, episodes = [], []
    for fragment in range(count):
        collected = sampler.collect()
        found.append(copied(collected.data))
        table = collected.episodes
        names = ("step", "row", "return", "length", "terminated")
        lines = zip(*(table[name].tolist() for name in names), strict=True)
        episodes += [(fragment, *line) for line in lines]
    return found, episodes


@pytest.mark.parametrize("on_end", ENDS)
@pytest.mark.parametrize("env", [Oracle, Games])
def test_everything_is_what_a_plain_loop_over_single_envs_gives(env, on_end):
    with sampler_of(env=env, on_end=on_end, seed=5) as sampler:
        found, episodes = fragments_of(sampler, 6)
    wanted, wanted_episodes = played(3, 7, 6, seed=5, env=env, on_end=on_end)
    for one, want in zip(found, wanted, strict=True):
        invalid = ~one["valid"]
        for name in one:
            # What an agent says of a row that waits is of no meaning; it is not kept.
            if name.startswith("agent_info"):
                assert not one[name][invalid].any()
        if on_end != "reset":  # nor is what it carries meanwhile
            start = one["first"][0]
            one["carry.steps"][start] = want["carry.steps"][start]
        del one["version"], one["next_carry.steps"]
        assert_same(one, want)
    assert episodes == wanted_episodes


def test_no_reset_counts_as_a_step_and_no_ending_is_merged():
    with sampler_of(num_steps=40) as sampler:
        collected = sampler.collect()
    obs, first = np.array(collected.data["obs"]), np.array(collected.data["first"])
    row, episode, step = np.moveaxis(obs, -1, 0).astype(int)
    assert (row == np.arange(3)).all()
    # Within an episode the step goes on by one, and after it the next one begins at once.
    np.testing.assert_array_equal(first, step == 0)
    np.testing.assert_array_equal(np.diff(episode, axis=0), first[1:])
    assert (np.diff(step, axis=0)[~first[1:]] == 1).all()
    ended = np.array(collected.data["terminated"]), np.array(collected.data["truncated"])
    length = 2 + (row + 2 * episode) % 4
    over = step + 1 == length
    even = (row + episode) % 2 == 0
    np.testing.assert_array_equal(ended[0], over & even)
    np.testing.assert_array_equal(ended[1], over & ~even)
    # The last observation of an episode is kept, though obs[t + 1] is of the next.
    final = np.array(collected.data["final_obs"])[over]
    np.testing.assert_array_equal(final, np.stack([row, episode, length], -1)[over])


def test_the_last_action_and_reward_are_not_shown_to_the_next_episode():
    # rlpyt's collectors in workers showed them.
    with sampler_of(num_steps=40) as sampler:
        tree = sampler.collect().data
    first = np.array(tree["first"])
    assert first[1:].any()
    for name in ("prev_action", "prev_reward"):
        previous = np.array(tree[name])
        assert not previous[first].any()
        np.testing.assert_array_equal(
            previous[1:][~first[1:]], np.array(tree[name[5:]])[:-1][~first[1:]]
        )


def test_the_carry_begins_anew_with_every_episode():
    with sampler_of(num_steps=40) as sampler:
        tree = sampler.collect().data
    steps, obs = np.array(tree["agent_info"]["steps"]), np.array(tree["obs"])
    np.testing.assert_array_equal(steps, obs[:, :, 2] + 1)


def test_the_observation_to_bootstrap_from_begins_the_next_fragment():
    with sampler_of() as sampler:
        last = copied(sampler.collect().data)
        for _ in range(4):
            now = copied(sampler.collect().data)
            for name in ("obs", "first", "prev_action", "prev_reward"):
                np.testing.assert_array_equal(now[name][0], last[name][-1], err_msg=name)
            np.testing.assert_array_equal(now["carry.steps"], last["next_carry.steps"])
            last = now


@pytest.mark.parametrize("on_end", ENDS[1:])
def test_rows_that_wait_begin_the_next_fragment_with_a_new_episode(on_end):
    # As parllel and rlplay do: T = 5 with episodes of 3 leaves two steps unused.
    class Threes(Oracle):
        length = 3

    with sampler_of(5, 1, Threes, on_end=on_end) as sampler:
        trees = [copied(sampler.collect().data) for _ in range(2)]
    for fragment, tree in enumerate(trees):
        shown = [fragment * 10 + k for k in range(3)] + [0, 0]
        idle = [(fragment + 1) * 10] * 2 if on_end == "sticky" else [0, 0]
        shown[3:] = idle
        assert (tree["obs"][:, 0] @ [100, 10, 1]).tolist() == [*shown, (fragment + 1) * 10]
        assert tree["valid"][:, 0].tolist() == [True] * 3 + [False] * 2
        ends = tree["terminated"] | tree["truncated"]
        assert ends[:, 0].tolist() == [False, False, True, False, False]
        sticks = on_end == "sticky"
        assert tree["first"][:, 0].tolist() == [True, False, False, sticks, sticks, True]
        assert (tree["final_obs"][2, 0] @ [100, 10, 1]) == fragment * 10 + 3


def test_an_episode_that_ends_with_the_fragment_makes_nothing_wait():
    class Threes(Oracle):
        length = 3

    with sampler_of(3, 2, Threes, on_end="sticky") as sampler:
        for _ in range(3):
            collected = sampler.collect()
            assert np.array(collected.data["valid"]).all()
            assert collected.cost.model_steps == 6


def test_only_steps_that_were_taken_are_counted():
    with sampler_of(7, 3, on_end="wait") as sampler:
        collected = sampler.collect()
    assert collected.cost.model_steps == np.array(collected.data["valid"]).sum() < 21


def test_a_lost_life_ends_returns_but_not_the_game():
    with sampler_of(40, 3, Games, episode_fields=("score",)) as sampler:
        collected = sampler.collect()
    episodes = collected.episodes
    assert (episodes["score"] % 2 == 1).all()
    assert len(episodes["score"]) > 3
    # A game is two lives, each of 2 + (row + 2 * episode) % 4 steps.
    last = episodes["score"] - 1000
    row = episodes["row"]
    lives = [2 + (row + 2 * life) % 4 for life in (last - 1, last)]
    np.testing.assert_array_equal(episodes["length"], sum(lives))
    ended = np.array(collected.data["terminated"]) | np.array(collected.data["truncated"])
    assert ended.sum() > 2 * len(row) - 1


@pytest.mark.parametrize("on_end", ENDS)
def test_numeric_infos_are_kept_by_name_those_of_endings_too(on_end):
    with sampler_of(9, 3, env_info={"at": np.float64}, on_end=on_end) as sampler:
        for _ in range(3):
            tree = copied(sampler.collect().data)
            ended = tree["terminated"] | tree["truncated"]
            after = np.where(ended[..., None], tree["final_obs"], tree["obs"][1:])
            wanted = np.where(tree["valid"], after @ [100, 10, 1], 0)
            np.testing.assert_array_equal(tree["env_info.at"], wanted)


def test_random_steps_at_the_start_set_the_rows_apart():
    starts = []
    for num_envs in (8, 4):
        with sampler_of(3, num_envs, random_steps=6) as sampler:
            starts.append(copied(sampler.collect().data))
    obs = starts[0]["obs"][0]
    assert len({tuple(row) for row in obs[:, 1:].tolist()}) > 3
    # They are as much the row's own as everything else.
    for name in ("obs", "action", "first", "prev_action"):
        np.testing.assert_array_equal(starts[0][name][:, :4], starts[1][name], err_msg=name)
    with sampler_of(40, 8, random_steps=6) as sampler:
        episodes = sampler.collect().episodes
    # Episodes that began with random steps are whole: lengths are those of the env.
    assert set(episodes["length"]) == {2, 3, 4, 5}


def test_statistics_are_of_the_last_episodes():
    with sampler_of(40, 3, window=4, discount=0.5) as sampler:
        assert sampler.statistics == {}
        for _ in range(2):
            episodes = sampler.collect().episodes
        found = sampler.statistics
    for name in ("return", "length", "discounted_return", "terminated"):
        assert found[name] == episodes[name][-4:].mean()


def test_the_discounted_return_is_of_the_rewards_of_one_episode():
    with sampler_of(40, 2, discount=0.5) as sampler:
        collected = sampler.collect()
    reward = np.array(collected.data["reward"])
    episodes = collected.episodes
    for k in range(len(episodes["step"])):
        end, row, length = (episodes[name][k] for name in ("step", "row", "length"))
        rewards = reward[end - length + 1 : end + 1, row].astype(float)
        # The env gives tenths, which the tree has in single precision.
        rewards = np.round(rewards, 1)
        found = 0.0
        for power, earned in enumerate(rewards.tolist()):
            found += 0.5**power * earned
        assert episodes["discounted_return"][k] == found


def test_nested_observations_and_actions_are_written_leaf_by_leaf():
    space = NestedOracle.action_space
    trees = []
    for on_end in ("reset", "wait"):
        for options in ({}, {"backend": "process", "n_workers": 2}):
            venv = oracle_venv(3, NestedOracle, **options)
            with SerialSampler(venv, RandomAgent(space), 9, on_end=on_end) as sampler:
                sampler.collect()
                state = sampler.state_dict()
                trees.append(copied(sampler.collect().data))
        assert_same(trees[-1], trees[-2])
        venv = oracle_venv(3, NestedOracle)
        with AlternatingSampler(venv, RandomAgent(space), 9, on_end=on_end) as sampler:
            sampler.load_state_dict(state)
            assert_same(copied(sampler.collect().data), trees[-1])
    tree = trees[0]
    step = tree["obs.place.0"][..., 2]
    np.testing.assert_array_equal(tree["obs.place.1"], step)
    np.testing.assert_array_equal(tree["obs.mask"][..., 1], step % 2)
    np.testing.assert_array_equal(tree["first"], step == 0)
    ended = tree["first"][1:]
    assert (tree["final_obs.place.1"][ended] >= 2).all()
    for name in ("0", "1.x"):
        shown, taken = tree[f"prev_action.{name}"], tree[f"action.{name}"]
        assert not shown[1:][ended].any()
        np.testing.assert_array_equal(shown[1:][~ended], taken[~ended])
    reward = tree["action.0"] + tree["action.1.x"].sum(-1)
    row, episode, count = np.moveaxis(tree["obs.place.0"][:-1], -1, 0)
    np.testing.assert_allclose(tree["reward"], 100 * row + 10 * episode + count + 1 + reward, 1e-6)


# The same bytes ------------------------------------------------------------------------------


def cartpole(backend, n_workers=None, num_envs=6):
    workers = {} if n_workers is None else {"n_workers": n_workers}
    return make_vec("CartPole-v1", num_envs, backend=backend, autoreset_mode="same_step", **workers)


def bytes_of(venv, fragments=3, num_steps=20, **options):
    agent = RandomAgent(venv.single_action_space)
    with SerialSampler(venv, agent, num_steps, seed=3, **options) as sampler:
        return fragments_of(sampler, fragments)


@pytest.mark.parametrize(("on_end", "workers"), [("reset", (1, 2, 3)), ("wait", (2,))])
def test_every_backend_and_number_of_workers_gives_the_same_bytes(on_end, workers):
    options = {"on_end": on_end, "random_steps": 10}
    wanted, episodes = bytes_of(cartpole("serial"), **options)
    assert len(episodes) > 3
    for backend, count in (("kernel", None), *(("process", count) for count in workers)):
        found, others = bytes_of(cartpole(backend, count), **options)
        assert others == episodes
        for one, want in zip(found, wanted, strict=True):
            assert_same(one, want)


def test_mujoco_gives_the_same_bytes():
    pytest.importorskip("mujoco")
    found = [
        bytes_of(
            make_vec("HalfCheetah-v5", 3, backend=backend, autoreset_mode="same_step"),
            num_steps=8,
            env_info={"x_position": np.float64},
        )
        for backend in ("serial", "mujoco")
    ]
    for one, want in zip(found[1][0], found[0][0], strict=True):
        assert_same(one, want)


def test_the_compiled_part_is_the_same_as_python():
    terminated, truncated = np.array([[True, False, False]]), np.array([[False, True, False]])
    reward = np.array([[1.0, 2.0, 3.0]], np.float32)
    for run in (follow, follow.py_func):
        first, shown = np.zeros((1, 3), bool), np.full((1, 3), 9, np.float32)
        assert run(terminated, truncated, reward, first, shown) == 2
        assert first.tolist() == [[True, True, False]]
        assert shown.tolist() == [[0, 0, 3]]


def test_episodes_are_counted_by_hand():
    reward = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [8.0, 5.0]], np.float32)
    ends, never = np.zeros((4, 2), bool), np.zeros((4, 2), bool)
    ends[[1, 3], 0] = True
    valid = ~never
    valid[2:, 1] = False
    for run in (count_episodes, count_episodes.py_func):
        sums, out = np.array([[0.0] * 2] * 3 + [[1.0] * 2, [0.0] * 2]), np.zeros((8, 7))
        assert run(reward, ends, never, valid, never, -reward[..., None], sums, 0.5, out) == 2
        # 1 + 2 and 4 + 8; discounted 1 + 2 / 2 and 4 + 8 / 2; row 1 goes on after two steps.
        assert out[:2].tolist() == [[1, 0, 3, 2, 2, 1, -3], [3, 0, 12, 2, 8, 1, -12]]
        assert sums.T.tolist() == [[0, 0, 0, 1, 0], [10, 2, 7.5, 0.25, -10]]


@pytest.mark.parametrize("on_end", ENDS)
@pytest.mark.parametrize("random_steps", [0, 6])
def test_infos_of_ones_own_add_up_over_each_episode(on_end, random_steps):
    options = {"env_info": {"at": np.float64}, "random_steps": random_steps, "on_end": on_end}
    with sampler_of(7, 4, episode_sums=("at",), **options) as sampler:
        for _ in range(3):
            sampler.collect()
        state = sampler.state_dict()
        tables = [sampler.collect().episodes for _ in range(2)]
        sampler.load_state_dict(state)
        assert sampler.collect().episodes["at"].tolist() == tables[0]["at"].tolist()
        assert sampler.statistics["at"] > 0
    numbers = {row: [] for row in range(4)}
    for table in tables:
        for row, length, total in zip(table["row"], table["length"], table["at"], strict=True):
            # Step k of an episode is at 100 row + 10 episode + k.
            numbers[row].append((total / length - 100 * row - (length + 1) / 2) / 10)
    for found in numbers.values():
        assert len(found) > 1
        assert found == [found[0] + k for k in range(len(found))]
        assert float(found[0]).is_integer()


def test_what_adds_up_is_kept_and_no_field_of_the_last_step():
    for options in ({}, {"env_info": {"at": np.float64}, "episode_fields": ("at",)}):
        with pytest.raises(InvalidOption, match="episode_sums must be infos that env_info keeps"):
            sampler_of(episode_sums=("at",), **options)


class Odd(gym.Env):
    """Earns what no float32 is, in episodes of three steps."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    earns = 16777217.0, 0.1, -0.3

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), self.earns[self.t - 1], self.t == 3, False, {}


@pytest.mark.parametrize("on_end", ENDS)
@pytest.mark.parametrize("random_steps", [0, 2])
def test_returns_are_sums_of_the_rewards_that_envs_give(on_end, random_steps):
    options = {"discount": 0.5, "on_end": on_end, "random_steps": random_steps}
    venv = make_vec(Odd, 2, autoreset_mode="same_step")
    with SerialSampler(venv, RandomAgent(Odd.action_space), 9, **options) as sampler:
        found = sampler.collect()
        first, second, third = Odd.earns
        assert set(found.episodes["return"]) == {first + second + third}
        discounted = first + 0.5 * second + 0.25 * third
        assert set(found.episodes["discounted_return"]) == {discounted}
        # Learners have them in single precision.
        reward = found.data["reward"].to_ndarray()
        assert reward.dtype == np.float32
        assert set(reward[found.data["valid"].to_ndarray()].ravel()) <= {
            np.float32(one) for one in Odd.earns
        }
