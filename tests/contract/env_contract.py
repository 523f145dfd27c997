"""The contract of a `PlanEnv`, as tests that every env family inherits.

    class TestMyEnv(EnvContract):
        name = "MyEnv-v0"

Episodes are played once, and the states at some points of them kept. The tests go back
to these states and compare what happens next with what happened then, as bytes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from contract.backend_contract import stack
from contract.damaged_states import RefusesDamage
from contract.episode import (
    FOLLOW,
    RESET,
    Episode,
    Outcome,
    assert_same,
    flat,
    outcome_of,
    outcome_of_row,
    play,
    take,
    taken,
)

import plangym_ext
from plangym_ext.errors import ForeignState
from plangym_ext.workers.batch_env import ExternalProcess


@pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning")
class EnvContract(RefusesDamage):
    """Override the attributes that differ.

    Attributes:
        name: id for `plangym_ext.make`.
        options: further arguments for it.
        seeds: episodes are played with each.
        max_steps: within which an episode has to end.
        spread: each state is restored in one of the instances rather than in all of them, as
            in `tox -e long`. Of three seeds each point is then restored in every instance once.
        all_bits: flip every single bit of a state, rather than some.
        int_frameskip: whether `frameskip` can be an int for this configuration.
        renders: whether `render_mode="rgb_array"` works.
        same_bytes: whether equal states are equal bytes; if not, only futures are compared.
        infos_of_resets: whether what a reset says beside the observation is restored.
        limit: steps of the time limit on trial.
        stranger: id of another env, whose states are refused.
    """

    name = ""
    options: ClassVar[dict[str, Any]] = {}
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    max_steps = 600
    spread = "PYTEST_LONG" not in os.environ
    all_bits = False
    int_frameskip = True
    renders = True
    same_bytes = True
    infos_of_resets = True
    limit = 6
    stranger = "CartPole-v1"

    @classmethod
    def constructor(cls, **overrides) -> Callable[[], Any]:
        """Return a picklable constructor of an env, for this or another process."""
        # Past an ending the episode goes on, to see that nothing is forgotten there. The
        # other backends are held against this one, in contracts of their own.
        settings = {"autoreset": False, "backend": "serial", **cls.options, **overrides}
        return functools.partial(plangym_ext.make, cls.name, **settings)

    @classmethod
    def make(cls, **overrides):
        return cls.constructor(**overrides)()

    @classmethod
    def policy(cls, env, seed):
        """Return a callable from a step to an action: uniform."""
        space = env.action_space
        space.seed(seed)
        return lambda t: space.sample()

    @classmethod
    def harmless_action(cls, env):
        """Return an action that can be held for `limit` steps without ending an episode."""
        return env.sample_action()

    # Fixtures ---------------------------------------------------------------------

    @pytest.fixture(scope="class")
    @classmethod
    def env(cls):
        with cls.make() as env:
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def other(cls):
        """Return a second instance, which has lived another life."""
        with cls.make() as env:
            env.reset(seed=12345)
            for _ in range(7):
                env.step(env.sample_action())
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def episodes(cls, env):
        return {seed: play(env, seed, cls.policy(env, seed), cls.max_steps) for seed in cls.seeds}

    @pytest.fixture
    def episode(self, episodes) -> Episode:
        return episodes[self.seeds[0]]

    def comparable(self, outcome: Outcome, action=None) -> Outcome:
        """Return `outcome` without what this configuration does not promise."""
        if action is RESET and not self.infos_of_resets:
            outcome = outcome._replace(info={})
        return outcome if self.same_bytes else outcome._replace(state=b"")

    def assert_row(self, batch, i: int, want: Outcome, where: str) -> None:
        """Assert that row `i` of a batch is `want`, nested infos left out."""
        info = {key: value for key, value in want.info.items() if isinstance(key, str)}
        got = self.comparable(outcome_of_row(batch, i))
        assert_same(got, self.comparable(want._replace(info=info)), where)

    def assert_state(self, got: np.ndarray, want: np.ndarray) -> None:
        """Assert that two states are the same."""
        assert not self.same_bytes or got.tobytes() == want.tobytes()

    def play_on(self, env, episode, t: int, where: str, num_steps: int = FOLLOW) -> None:
        """Check that `env`, which is at step `t`, goes on as the episode did."""
        actions = episode.actions[t : t + num_steps]
        assert len(actions) == num_steps
        for k, found in enumerate(taken(env, actions), start=t):
            action, want = episode.actions[k], episode.outcomes[k]
            at = f"{where}, restored at {t}, step {k}"
            assert_same(self.comparable(found, action), self.comparable(want, action), at)

    def share(self, episodes, which: int) -> list[tuple[int, int]]:
        """Return `(seed, step)` of the states that instance 0, 1 or 2 restores, in any order."""
        found = [
            (seed, t)
            for i, (seed, episode) in enumerate(episodes.items())
            for k, t in enumerate(episode.points)
            if not self.spread or (i + k) % 3 == which
        ]
        np.random.default_rng(which).shuffle(found)
        return found

    # Restoring --------------------------------------------------------------------

    def test_steps_are_compared_after_every_point(self, episodes):
        for episode in episodes.values():
            assert {0, 1, 17, 200, episode.end, episode.end + 1} <= set(episode.points)
            last = episode.outcomes[episode.end]
            assert last.terminated or last.truncated
            assert len(episode.actions) >= max(episode.points) + FOLLOW
            # So the random numbers of resets are compared too.
            assert any(action is RESET for action in episode.actions)

    @pytest.mark.slow
    def test_restored_state_goes_on_bit_for_bit(self, env, episodes):
        for seed, t in self.share(episodes, 0):
            episode = episodes[seed]
            env.set_state(episode.states[t])
            self.assert_state(env.get_state(), episode.states[t])
            self.play_on(env, episode, t, f"seed {seed}, same instance")

    @pytest.mark.slow
    def test_instance_with_another_past_goes_on_bit_for_bit(self, other, episodes):
        for seed, t in self.share(episodes, 1):
            other.set_state(episodes[seed].states[t])
            self.play_on(other, episodes[seed], t, f"seed {seed}, other instance")

    @pytest.mark.slow
    def test_other_process_goes_on_bit_for_bit(self, episodes):
        with ExternalProcess(self.constructor()) as process:
            for seed, t in self.share(episodes, 2):
                process.set_state(episodes[seed].states[t])
                self.play_on(process, episodes[seed], t, f"seed {seed}, other process")

    def test_instance_that_was_never_reset_can_be_restored(self, episode):
        with self.make() as env:
            env.set_state(episode.states[200])
            self.play_on(env, episode, 200, "never reset")

    def test_state_can_be_restored_again_and_again(self, env, episode):
        for t in episode.points:
            num_steps = FOLLOW if t == 17 or not self.spread else 3
            for attempt in range(3):
                env.set_state(episode.states[t])
                self.play_on(env, episode, t, f"attempt {attempt}", num_steps)

    def test_rows_depend_on_their_own_state_alone_in_any_order(self, env, episodes):
        rng = np.random.default_rng(0)
        rows = [
            (seed, t)
            for seed, episode in episodes.items()
            for t in episode.points
            if episode.actions[t] is not RESET
        ]
        for _ in range(3):
            rng.shuffle(rows)
            states = np.stack([episodes[seed].states[t] for seed, t in rows])
            actions = stack([episodes[seed].actions[t] for seed, t in rows])
            batch = env.step_batch(actions, states)
            for i, (seed, t) in enumerate(rows):
                want = episodes[seed].outcomes[t]
                self.assert_row(batch, i, want, f"row {i}: seed {seed}, step {t}")

    def test_batch_leaves_the_env_where_it_was(self, env, episode):
        env.set_state(episode.states[1])
        states, actions = self.rows(episode)
        env.step_batch(actions, states)
        self.play_on(env, episode, 1, "after a batch", num_steps=5)

    def rows(self, episode) -> tuple[np.ndarray, Any]:
        """Return the states and actions of the points at which no reset follows, as a batch."""
        points = self.steps(episode)
        states = np.stack([episode.states[t] for t in points])
        return states, stack([episode.actions[t] for t in points])

    @staticmethod
    def steps(episode) -> list[int]:
        """Return the points at which an action follows."""
        return [t for t in episode.points if episode.actions[t] is not RESET]

    def test_step_from_a_state_is_step_after_set_state(self, env, episode):
        for t in self.steps(episode):
            got = self.comparable(outcome_of(env.step(episode.actions[t], episode.states[t])))
            assert_same(got, self.comparable(episode.outcomes[t]), f"from the state of step {t}")

    def test_state_is_not_changed_by_being_used(self, env, episode):
        for t in self.steps(episode):
            state = episode.states[t].copy()
            state.flags.writeable = False
            env.set_state(state)
            env.step(episode.actions[t], state)
            env.step_batch(stack([episode.actions[t]] * 2), np.stack([state] * 2))
            assert state.tobytes() == episode.states[t].tobytes()

    # Resets, seeds and limits -----------------------------------------------------

    def test_same_seed_gives_the_same_episode(self, other, episodes):
        for seed, episode in episodes.items():
            state, *_ = other.reset(seed=seed)
            self.assert_state(state, episode.states[0])
            self.play_on(other, episode, 0, f"seed {seed} again")

    def test_seeds_differ(self, episodes):
        firsts = {episode.states[0].tobytes() for episode in episodes.values()}
        assert len(firsts) == len(episodes)

    def test_reset_after_a_restore_continues_the_same_random_stream(self, env, other, episode):
        found = []
        for one in (env, other, env):
            one.set_state(episode.states[17])
            trace = []
            for _ in range(2):  # the second reset shows that the first moved the stream on
                for action in (RESET, *episode.actions[:3]):
                    trace.append(self.comparable(take(one, action), action))
            found.append(trace)
        assert found[0] == found[1], "another instance resets differently"
        assert found[0] == found[2], "the same instance resets differently"

    def test_time_limit_counts_from_the_restored_step(self):
        limit = self.limit
        with (
            self.make(max_episode_steps=limit) as env,
            self.make(max_episode_steps=limit) as second,
        ):
            state, *_ = env.reset(seed=0)
            action = self.harmless_action(env)
            for _ in range(limit - 2):
                state, *_ = env.step(action, state)
            for one in (env, second):
                # All but two steps are done: the next is not cut off, the one after it is.
                middle = one.step(action, state)
                assert (middle.terminated, middle.truncated) == (False, False)
                assert one.step(action, middle.state).truncated
                batch = one.step_batch(stack([action] * 2), np.stack([state, middle.state]))
                assert batch.truncateds.tolist() == [False, True]
            with pytest.raises(ForeignState), self.make(max_episode_steps=limit + 1) as longer:
                longer.set_state(state)

    # Time steps -------------------------------------------------------------------

    def test_dt_is_the_sum_of_single_steps_up_to_the_ending(self, env, episode):
        for t in [*self.steps(episode), max(0, episode.end - 3)]:
            for dt in (1, 2, 5):
                env.set_state(episode.states[t])
                held, total, taken = episode.actions[t], 0.0, 0
                for _ in range(dt):
                    single = env.step(held, return_state=True)
                    total += single.reward
                    taken += 1
                    if single.terminated or single.truncated:
                        break
                got = env.step(held, episode.states[t], dt=dt)
                assert got.reward == total
                assert got.info["n_step"] == taken
                assert got.info["dt"] == dt
                self.assert_state(got.state, single.state)
                assert flat(got.obs) == flat(single.obs)
                assert got[3:5] == single[3:5]

    def test_dt_per_row_is_dt_of_a_single_step(self, env, episode):
        points = self.steps(episode)
        dt = 1 + np.arange(len(points)) % 4
        states, actions = self.rows(episode)
        batch = env.step_batch(actions, states, dt=dt)
        for i, t in enumerate(points):
            want = outcome_of(env.step(episode.actions[t], states[i], dt=int(dt[i])))
            self.assert_row(batch, i, want, f"step {t}, dt {dt[i]}")

    def test_frameskip_is_the_sum_of_single_frames(self):
        if not self.int_frameskip:
            pytest.skip("this configuration draws its frameskip")
        with self.make(frameskip=1) as one, self.make(frameskip=3) as three:
            one.reset(seed=3)
            three.reset(seed=3)
            choose = self.policy(one, 3)
            for t in range(12):
                action, total = choose(t), 0.0
                for _ in range(3):
                    single = one.step(action)
                    total += single.reward
                    if single.terminated or single.truncated:
                        break
                skipped = three.step(action)
                assert skipped.reward == total
                assert flat(skipped.obs) == flat(single.obs)
                assert skipped[2:4] == single[2:4]
                if skipped.terminated or skipped.truncated:
                    break

    # Settings ---------------------------------------------------------------------

    def test_clone_keeps_settings_and_exchanges_states(self, env, episode):
        with env.clone() as twin:
            assert self.settings(twin) == self.settings(env)
            twin.set_state(episode.states[17])
            self.play_on(twin, episode, 17, "clone")

    @staticmethod
    def settings(env) -> dict[str, Any]:
        """Return whatever an env can be asked for that its state does not hold."""
        return {
            "arguments": env._arguments,
            "identity": env.envelope.identity,
            "spec": env.gym_env.spec,
            "render mode": env.gym_env.render_mode,
            "metadata": env.metadata,
            "spaces": (env.observation_space, env.action_space),
            "way": (env.codec.method, env.exact, env.state_width),
            **{key: getattr(env, key) for key in ("name", "backend", "frameskip", "autoreset")},
        }

    def test_clone_keeps_settings_that_are_not_the_default(self):
        changed = {"autoreset": True, "trust": True, "check": False, "max_episode_steps": 9}
        if self.int_frameskip:
            changed["frameskip"] = 2
        if self.renders:
            changed["render_mode"] = "rgb_array"
        with self.make(**changed) as env, env.clone() as twin, env.clone(autoreset=False) as third:
            assert self.settings(twin) == self.settings(env)
            assert twin.autoreset
            assert not third.autoreset
            assert {**self.settings(third), "autoreset": True, "arguments": env._arguments} == (
                self.settings(env)
            )

    def test_render_does_not_change_the_state(self, episode):
        if not self.renders:
            pytest.skip("no picture for this configuration")
        with self.make(render_mode="rgb_array") as env:
            for t in episode.points:
                # The render mode is no part of a state: those of `episode` fit.
                env.set_state(episode.states[t])
                picture = env.render()
                assert picture.ndim == 3
                assert picture.dtype == np.uint8
                self.assert_state(env.get_state(), episode.states[t])
                self.play_on(env, episode, t, "after render", FOLLOW if t == 17 else 3)
