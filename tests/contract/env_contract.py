"""The contract of a `PlanEnv`, as tests that every env family inherits.

    class TestMyEnv(EnvContract):
        name = "MyEnv-v0"

An episode is played once with every state kept. Each test then goes back to some
of these states and compares what happens next with the episode, as bytes.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from contract.backend_contract import stack

import plangym_ext
from plangym_ext.core.envelope import HEADER, Envelope
from plangym_ext.errors import DamagedState, ForeignState
from plangym_ext.vectorization.external_process import ExternalProcess

#: Steps that are compared after each restore.
FOLLOW = 40


class Outcome(NamedTuple):
    """One step as bytes and exact values."""

    obs: bytes
    reward: bytes
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    state: bytes


class Episode(NamedTuple):
    """`states[t]` is before `actions[t]`; `outcomes[t]` is what it led to."""

    states: list[np.ndarray]
    actions: list[Any]
    outcomes: list[Outcome]
    end: int  # the step whose outcome is terminal or truncated, or -1


def _flat(obs) -> bytes:
    if isinstance(obs, dict):
        return b"".join(_flat(obs[key]) for key in sorted(obs))
    if isinstance(obs, tuple):
        return b"".join(map(_flat, obs))
    value = np.asarray(obs)
    return f"{value.shape}{value.dtype.str}".encode() + value.tobytes()


def _plain(info):
    """Numeric infos as values whose comparison is exact (bytes for floats)."""
    kept = {}
    for key, value in info.items():
        if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
            kept[key] = _flat(value)
    return kept


def outcome_of(transition) -> Outcome:
    """`StateTransition` as an `Outcome`."""
    state, obs, reward, terminated, truncated, info = transition
    return Outcome(
        _flat(obs),
        np.float64(reward).tobytes(),
        terminated,
        truncated,
        _plain(info),
        state.tobytes(),
    )


def outcome_of_row(batch, i: int) -> Outcome:
    """Row `i` of `StateTransitions` as an `Outcome`."""
    states, obs, rewards, terminateds, truncateds, infos = batch
    return outcome_of(
        (
            states[i],
            _row(obs, i),
            rewards[i],
            bool(terminateds[i]),
            bool(truncateds[i]),
            infos[i],
        )
    )


def _row(obs, i):
    if isinstance(obs, dict):
        return {key: _row(value, i) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(_row(value, i) for value in obs)
    return obs[i]


def assert_same(got: Outcome, want: Outcome, where: str, skip: str = "") -> None:
    """Fail with the name of the first field that differs."""
    for field in Outcome._fields:
        if field == skip:
            continue
        assert getattr(got, field) == getattr(want, field), f"{where}: {field} differs"


@pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning")
class EnvContract:
    """Override the attributes that differ.

    Attributes:
        name: id for `plangym_ext.make`.
        options: further arguments for it.
        seeds: episodes are played with each.
        max_steps: most steps until an episode has to end.
        ends: whether a random episode ends within `max_steps`.
        all_bits: flip every single bit of a state, rather than some.
        int_frameskip: whether `frameskip` can be an int for this configuration.
        renders: whether `render_mode="rgb_array"` works.
        pictures_past_the_end: whether observations are compared when an episode that
            is over is stepped on.
        stranger: id of another env, whose states are refused.
    """

    name = ""
    options: ClassVar[dict[str, Any]] = {}
    seeds = (0, 1, 2)
    max_steps = 600
    ends = True
    all_bits = False
    int_frameskip = True
    renders = True
    pictures_past_the_end = True
    stranger = "CartPole-v1"

    @classmethod
    def make(cls, **overrides):
        # Past an ending the episode goes on, to see that nothing is forgotten there.
        return plangym_ext.make(cls.name, **{"autoreset": False, **cls.options, **overrides})

    @classmethod
    def constructor(cls):
        """Picklable constructor of the same env, for another process."""
        return functools.partial(plangym_ext.make, cls.name, **{"autoreset": False, **cls.options})

    @classmethod
    def policy(cls, env, seed):
        """Callable from a step to an action: uniform."""
        space = env.action_space
        space.seed(seed)
        return lambda t: space.sample()

    # Fixtures ---------------------------------------------------------------------

    @pytest.fixture(scope="class")
    @classmethod
    def env(cls):
        with cls.make() as env:
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def other(cls):
        """Second instance, which has lived another life."""
        with cls.make() as env:
            env.reset(seed=12345)
            for _ in range(7):
                env.step(env.sample_action())
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def episodes(cls):
        with cls.make() as env:
            return {seed: cls._play(env, seed) for seed in cls.seeds}

    @pytest.fixture
    def episode(self, episodes):
        return episodes[self.seeds[0]]

    @classmethod
    def _play(cls, env, seed) -> Episode:
        state, *_ = env.reset(seed=seed)
        choose = cls.policy(env, seed)
        states, actions, outcomes, end = [state], [], [], -1
        for t in range(cls.max_steps):
            actions.append(choose(t))
            result = env.step(actions[-1], return_state=True)
            outcomes.append(outcome_of(result))
            states.append(result.state)
            if end < 0 and (result.terminated or result.truncated):
                end = t
            enough = t >= 60 + FOLLOW and (t >= end + FOLLOW if cls.ends else True)
            if enough and (end >= 0 or not cls.ends):
                break
        assert (end >= 0) == cls.ends, f"episode of seed {seed} ended at {end}"
        return Episode(states, actions, outcomes, end)

    def assert_step(self, got: Outcome, episode, t: int, where: str) -> None:
        past = 0 <= episode.end < t and not self.pictures_past_the_end
        assert_same(got, episode.outcomes[t], f"{where}, step {t}", "obs" if past else "")

    def play_on(self, env, episode, t: int, where: str, num_steps: int = FOLLOW) -> None:
        """Check that `env`, which is at step `t`, goes on as the episode did."""
        for k in range(t, min(t + num_steps, len(episode.actions))):
            got = outcome_of(env.step(episode.actions[k], return_state=True))
            self.assert_step(got, episode, k, f"{where} from {t} on")

    def points(self, episode) -> list[int]:
        """Steps before which the states are tried: fixed ones, and around the ending."""
        around = [episode.end - 1, episode.end, episode.end + 1] if episode.end >= 0 else []
        return sorted({0, 1, 17, 60, *around})

    # Restoring --------------------------------------------------------------------

    def test_episode_has_an_ending_inside(self, episodes):
        for episode in episodes.values():
            assert len(episode.actions) >= 60 + FOLLOW
            if self.ends:
                assert 0 < episode.end < len(episode.actions) - FOLLOW

    def test_restored_state_goes_on_bit_for_bit(self, env, episodes):
        for seed, episode in episodes.items():
            for t in self.points(episode):
                env.set_state(episode.states[t])
                assert env.get_state().tobytes() == episode.states[t].tobytes()
                self.play_on(env, episode, t, f"seed {seed}, same instance")

    def test_state_can_be_restored_again_and_again(self, env, episode):
        for t in self.points(episode):
            for attempt in range(3):
                env.set_state(episode.states[t])
                self.play_on(env, episode, t, f"attempt {attempt}", num_steps=3)

    def test_instance_with_another_past_goes_on_bit_for_bit(self, other, episodes):
        for seed, episode in episodes.items():
            for t in self.points(episode):
                other.set_state(episode.states[t])
                self.play_on(other, episode, t, f"seed {seed}, other instance")

    def test_instance_that_was_never_reset_can_be_restored(self, episode):
        t = self.points(episode)[-1]
        with self.make() as env:
            env.set_state(episode.states[t])
            self.play_on(env, episode, t, "never reset")

    @pytest.mark.slow
    def test_other_process_goes_on_bit_for_bit(self, episodes):
        with ExternalProcess(self.constructor()) as process:
            for seed, episode in episodes.items():
                for t in self.points(episode):
                    process.set_state(episode.states[t])
                    self.play_on(process, episode, t, f"seed {seed}, other process")

    def test_rows_depend_on_their_own_state_alone_in_any_order(self, env, episodes):
        rng = np.random.default_rng(0)
        rows = [(seed, t) for seed, e in episodes.items() for t in self.points(e)]
        for _ in range(3):
            rng.shuffle(rows)
            states = np.stack([episodes[seed].states[t] for seed, t in rows])
            actions = stack([episodes[seed].actions[t] for seed, t in rows])
            batch = env.step_batch(actions, states)
            for i, (seed, t) in enumerate(rows):
                got = outcome_of_row(batch, i)
                self.assert_step(got, episodes[seed], t, f"row {i}: seed {seed}")

    def test_batch_leaves_the_env_where_it_was(self, env, episode):
        t = self.points(episode)[1]
        env.set_state(episode.states[t])
        states = np.stack([episode.states[k] for k in self.points(episode)])
        env.step_batch(stack([episode.actions[k] for k in self.points(episode)]), states)
        self.play_on(env, episode, t, "after a batch", num_steps=5)

    def test_step_from_a_state_is_step_after_set_state(self, env, episode):
        for t in self.points(episode):
            got = outcome_of(env.step(episode.actions[t], episode.states[t]))
            self.assert_step(got, episode, t, "from a state")

    def test_state_is_not_changed_by_being_used(self, env, episode):
        for t in self.points(episode):
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
            assert state.tobytes() == episode.states[0].tobytes()
            self.play_on(other, episode, 0, f"seed {seed} again")

    def test_seeds_differ(self, episodes):
        firsts = {episode.states[0].tobytes() for episode in episodes.values()}
        assert len(firsts) == len(episodes)

    def test_reset_after_a_restore_continues_the_same_random_stream(self, env, other, episode):
        t = self.points(episode)[-1]
        found = []
        for one in (env, other, env):
            one.set_state(episode.states[t])
            trace = []
            for _ in range(2):  # the second reset shows that the first moved the stream on
                state, obs, info = one.reset()
                trace.append((state.tobytes(), _flat(obs), _plain(info)))
                for k in range(5):
                    step = one.step(episode.actions[k], return_state=True)
                    trace.append(outcome_of(step))
            found.append(trace)
        assert found[0] == found[1], "another instance resets differently"
        assert found[0] == found[2], "the same instance resets differently"

    def test_time_limit_counts_from_the_restored_step(self):
        with self.make(max_episode_steps=6) as env, self.make(max_episode_steps=6) as second:
            state, *_ = env.reset(seed=0)
            action = env.sample_action()
            for _ in range(4):
                state, *_ = env.step(action, state)
            for one in (env, second):
                # Four steps are behind: the fifth is not cut off, the sixth is.
                middle = one.step(action, state)
                assert (middle.terminated, middle.truncated) == (False, False)
                assert one.step(action, middle.state).truncated
                batch = one.step_batch(stack([action] * 2), np.stack([state, middle.state]))
                assert batch.truncateds.tolist() == [False, True]
            with pytest.raises(ForeignState), self.make(max_episode_steps=7) as longer:
                longer.set_state(state)

    # Time steps -------------------------------------------------------------------

    def test_dt_is_the_sum_of_single_steps_up_to_the_ending(self, env, episode):
        for t in [*self.points(episode), max(0, episode.end - 3)]:
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
                assert got.state.tobytes() == single.state.tobytes()
                assert _flat(got.obs) == _flat(single.obs)
                assert got[3:5] == single[3:5]

    def test_dt_per_row_is_dt_of_a_single_step(self, env, episode):
        points = self.points(episode)
        dt = 1 + np.arange(len(points)) % 4
        states = np.stack([episode.states[t] for t in points])
        batch = env.step_batch(stack([episode.actions[t] for t in points]), states, dt=dt)
        for i, t in enumerate(points):
            want = outcome_of(env.step(episode.actions[t], states[i], dt=int(dt[i])))
            assert_same(outcome_of_row(batch, i), want, f"step {t}, dt {dt[i]}")

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
                assert _flat(skipped.obs) == _flat(single.obs)
                assert skipped[2:4] == single[2:4]
                if skipped.terminated or skipped.truncated:
                    break

    # Settings ---------------------------------------------------------------------

    def test_clone_keeps_settings_and_exchanges_states(self, env, episode):
        with env.clone() as twin:
            assert twin.name == env.name
            assert (twin.frameskip, twin.autoreset) == (env.frameskip, env.autoreset)
            assert twin.observation_space == env.observation_space
            assert twin.action_space == env.action_space
            assert twin.state_width == env.state_width
            t = self.points(episode)[-1]
            twin.set_state(episode.states[t])
            self.play_on(twin, episode, t, "clone", num_steps=5)
        with env.clone(autoreset=True) as changed:
            assert changed.autoreset

    def test_render_does_not_change_the_state(self, episode):
        if not self.renders:
            pytest.skip("no picture for this configuration")
        with self.make(render_mode="rgb_array") as env:
            for t in self.points(episode)[:3]:
                # The render mode is no part of a state: those of `episode` fit.
                env.set_state(episode.states[t])
                picture = env.render()
                assert picture.ndim == 3
                assert picture.dtype == np.uint8
                assert env.get_state().tobytes() == episode.states[t].tobytes()
                self.play_on(env, episode, t, "after render", num_steps=3)

    # Damage -----------------------------------------------------------------------

    def test_every_flipped_bit_is_refused(self, env, episode):
        state = episode.states[1]
        positions = np.arange(state.size * 8)
        if not self.all_bits:
            rng = np.random.default_rng(0)
            positions = np.concatenate([positions[: HEADER * 8], rng.choice(positions, 200)])
        env.set_state(episode.states[0])
        for position in positions:
            damaged = state.copy()
            damaged[position // 8] ^= np.uint8(1 << position % 8)
            with pytest.raises((DamagedState, ForeignState)):
                env.set_state(damaged)
        # The simulator has seen none of them.
        self.play_on(env, episode, 0, "after refusals", num_steps=3)

    def test_truncated_extended_and_shifted_states_are_refused(self, env, episode):
        state = episode.states[1]
        for wrong in (state[:-1], state[:0], np.append(state, np.uint8(0))):
            with pytest.raises(DamagedState, match=rf"{env.state_width} bytes wide.*{wrong.size}"):
                env.set_state(wrong)
        for cut in (HEADER, HEADER + 8, state.size - 8):
            with pytest.raises(DamagedState, match=rf"does not fit its {cut} bytes"):
                env.set_state(state[:cut])
        for damaged in (np.roll(state, 8), np.zeros_like(state), np.full_like(state, 255)):
            with pytest.raises(DamagedState, match="checksum, magic or width"):
                env.set_state(damaged)

    def test_states_of_another_env_or_version_are_refused(self, env, episode):
        with plangym_ext.make(self.stranger, max_episode_steps=321) as stranger:
            foreign, *_ = stranger.reset(seed=0)
        with pytest.raises(ForeignState):
            env.set_state(foreign)
        # A whole row of the right width, but of an env that differs in one argument.
        twin = Envelope({**env.envelope.identity, "id": "Twin-v0"}, env.state_width - HEADER)
        row = episode.states[1][None].copy()
        twin.seal(row, int(row[0, 8:12].view("<u4")[0]))
        with pytest.raises(ForeignState, match="belongs to another env"):
            env.set_state(row[0])

    def test_refused_row_is_named_by_its_index(self, env, episode):
        states = np.stack(episode.states[:4])
        states[2, -1] ^= 1
        with pytest.raises(DamagedState, match=r"states\[2\]"):
            env.step_batch(stack(episode.actions[:4]), states)
