"""The contract of our env families: what holds of a `PlanEnv` beside exact states."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from contract.damaged_states import RefusesDamage

from plangym_ext import testing
from plangym_ext.arrays.nested import stacked
from plangym_ext.errors import ForeignState
from plangym_ext.testing.episode import (
    FOLLOW,
    RESET,
    assert_same,
    flat,
    outcome_of,
)


class EnvContract(RefusesDamage, testing.EnvContract):
    """Override the attributes that differ.

    Attributes:
        all_bits: flip every single bit of a state, rather than some.
        int_frameskip: whether `frameskip` can be an int for this configuration.
        renders: whether `render_mode="rgb_array"` works.
        limit: steps of the time limit on trial.
        stranger: id of another env, whose states are refused.
    """

    all_bits = False
    int_frameskip = True
    renders = True
    limit = 6
    stranger = "CartPole-v1"
    spread = "PYTEST_LONG" not in os.environ

    # Slow ones are left out by `-m "not slow"`.
    test_restored_state_goes_on_bit_for_bit = pytest.mark.slow(
        testing.EnvContract.test_restored_state_goes_on_bit_for_bit
    )
    test_instance_with_another_past_goes_on_bit_for_bit = pytest.mark.slow(
        testing.EnvContract.test_instance_with_another_past_goes_on_bit_for_bit
    )
    test_other_process_goes_on_bit_for_bit = pytest.mark.slow(
        testing.EnvContract.test_other_process_goes_on_bit_for_bit
    )

    @classmethod
    def harmless_action(cls, env):
        """Return an action that can be held for `limit` steps without ending an episode."""
        return env.sample_action()

    # Restoring --------------------------------------------------------------------

    def test_steps_are_compared_after_every_point(self, episodes):
        for episode in episodes.values():
            assert {0, 1, 17, 200, episode.end, episode.end + 1} <= set(episode.points)
            last = episode.outcomes[episode.end]
            assert last.terminated or last.truncated
            assert len(episode.actions) >= max(episode.points) + FOLLOW
            # So the random numbers of resets are compared too.
            assert any(action is RESET for action in episode.actions)

    def test_state_can_be_restored_again_and_again(self, env, episode):
        for t in episode.points:
            num_steps = FOLLOW if t == 17 or not self.spread else 3
            for attempt in range(3):
                env.set_state(episode.states[t])
                self.play_on(env, episode, t, f"attempt {attempt}", num_steps)

    def test_batch_leaves_the_env_where_it_was(self, env, episode):
        env.set_state(episode.states[1])
        states, actions = self.rows(episode)
        env.step_batch(actions, states)
        self.play_on(env, episode, 1, "after a batch", num_steps=5)

    def rows(self, episode) -> tuple[np.ndarray, Any]:
        """Return the states and actions of the points at which no reset follows, as a batch."""
        points = self.steps(episode)
        states = np.stack([episode.states[t] for t in points])
        return states, stacked([episode.actions[t] for t in points])

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
            env.step_batch(stacked([episode.actions[t]] * 2), np.stack([state] * 2))
            assert state.tobytes() == episode.states[t].tobytes()

    # Resets, seeds and limits -----------------------------------------------------

    def test_seeds_differ(self, episodes):
        firsts = {episode.states[0].tobytes() for episode in episodes.values()}
        assert len(firsts) == len(episodes)

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
                batch = one.step_batch(stacked([action] * 2), np.stack([state, middle.state]))
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
