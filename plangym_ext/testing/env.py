"""Test classes of envs and of vector envs, by `check_env` and `check_vector_env`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import plangym_ext
from plangym_ext.arrays.nested import stacked
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.testing.episode import (
    FOLLOW,
    RESET,
    Episode,
    Outcome,
    assert_same,
    outcome_of_row,
    play,
    take,
    taken,
)
from plangym_ext.vector.check_vector_env import check_vector_env
from plangym_ext.workers.batch_env import ExternalProcess


@pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning")
class EnvContract:
    """Tests of an env that is made by `plangym_ext.make`; override the attributes that differ.

    Episodes are played once, and the states at some points of them kept. The tests go back
    to these states and compare what happens next with what happened then, as bytes.

    Attributes:
        name: id or callable for `plangym_ext.make`.
        options: further arguments for it.
        seeds: episodes are played with each.
        max_steps: within which an episode has to end.
        spread: each state is restored in one of three instances rather than in all of them: of
            three seeds each point is then restored in every instance once.
        same_bytes: whether equal states are equal bytes; if not, only futures are compared.
        infos_of_resets: whether what a reset says beside the observation is restored.
    """

    name: Any = ""
    options: ClassVar[dict[str, Any]] = {}
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    max_steps = 600
    spread = True
    same_bytes = True
    infos_of_resets = True

    @classmethod
    def constructor(cls, **overrides: Any) -> Callable[[], Any]:
        """Return a picklable constructor of an env, for this or another process."""
        # Past an ending the episode goes on, to see that nothing is forgotten there.
        settings = {"autoreset": False, "backend": "serial", **cls.options, **overrides}
        return functools.partial(plangym_ext.make, cls.name, **settings)

    @classmethod
    def make(cls, **overrides: Any) -> Any:
        """Return a new env."""
        return cls.constructor(**overrides)()

    @classmethod
    def policy(cls, env: PlanEnv, seed: int) -> Callable[[int], Any]:
        """Return a callable from a step to an action: uniform."""
        space = env.action_space
        space.seed(seed)
        return lambda _: space.sample()

    @pytest.fixture(scope="class")
    @classmethod
    def env(cls) -> Iterator[PlanEnv]:
        """Return the env that plays the episodes."""
        with cls.make() as env:
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def other(cls) -> Iterator[PlanEnv]:
        """Return a second instance, which has lived another life."""
        with cls.make() as env:
            env.reset(seed=12345)
            for _ in range(7):
                env.step(env.sample_action())
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def episodes(cls, env: PlanEnv) -> dict[int, Episode]:
        """Return an episode of each seed."""
        return {seed: play(env, seed, cls.policy(env, seed), cls.max_steps) for seed in cls.seeds}

    @pytest.fixture
    def episode(self, episodes: dict[int, Episode]) -> Episode:
        """Return the episode of the first seed."""
        return episodes[self.seeds[0]]

    def comparable(self, outcome: Outcome, action: Any = None) -> Outcome:
        """Return `outcome` without what this configuration does not promise."""
        if action is RESET and not self.infos_of_resets:
            outcome = outcome._replace(info={})
        return outcome if self.same_bytes else outcome._replace(state=b"")

    def assert_row(self, batch: Any, i: int, want: Outcome, where: str) -> None:
        """Assert that row `i` of a batch is `want`, nested infos left out."""
        info = {key: value for key, value in want.info.items() if isinstance(key, str)}
        got = self.comparable(outcome_of_row(batch, i))
        assert_same(got, self.comparable(want._replace(info=info)), where)

    def assert_state(self, got: npt.NDArray[np.uint8], want: npt.NDArray[np.uint8]) -> None:
        """Assert that two states are the same."""
        assert not self.same_bytes or got.tobytes() == want.tobytes()

    def play_on(
        self, env: Any, episode: Episode, t: int, where: str, num_steps: int = FOLLOW
    ) -> None:
        """Check that `env`, which is at step `t`, goes on as the episode did."""
        actions = episode.actions[t : t + num_steps]
        assert len(actions) == num_steps
        for k, found in enumerate(taken(env, actions), start=t):
            action, want = episode.actions[k], episode.outcomes[k]
            at = f"{where}, restored at {t}, step {k}"
            assert_same(self.comparable(found, action), self.comparable(want, action), at)

    def share(self, episodes: dict[int, Episode], which: int) -> list[tuple[int, int]]:
        """Return `(seed, step)` of the states that instance 0, 1 or 2 restores, in any order."""
        found = [
            (seed, t)
            for i, (seed, episode) in enumerate(episodes.items())
            for k, t in enumerate(episode.points)
            if not self.spread or (i + k) % 3 == which
        ]
        np.random.default_rng(which).shuffle(found)
        return found

    def test_restored_state_goes_on_bit_for_bit(self, env: Any, episodes: Any) -> None:
        for seed, t in self.share(episodes, 0):
            episode = episodes[seed]
            env.set_state(episode.states[t])
            self.assert_state(env.get_state(), episode.states[t])
            self.play_on(env, episode, t, f"seed {seed}, same instance")

    def test_instance_with_another_past_goes_on_bit_for_bit(
        self, other: Any, episodes: Any
    ) -> None:
        for seed, t in self.share(episodes, 1):
            other.set_state(episodes[seed].states[t])
            self.play_on(other, episodes[seed], t, f"seed {seed}, other instance")

    def test_other_process_goes_on_bit_for_bit(self, episodes: Any) -> None:
        with ExternalProcess(self.constructor()) as process:
            for seed, t in self.share(episodes, 2):
                process.set_state(episodes[seed].states[t])
                self.play_on(process, episodes[seed], t, f"seed {seed}, other process")

    def test_instance_that_was_never_reset_can_be_restored(self, episode: Any) -> None:
        with self.make() as env:
            env.set_state(episode.states[200])
            self.play_on(env, episode, 200, "never reset")

    def test_rows_depend_on_their_own_state_alone_in_any_order(
        self, env: Any, episodes: Any
    ) -> None:
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
            actions = stacked([episodes[seed].actions[t] for seed, t in rows])
            batch = env.step_batch(actions, states)
            for i, (seed, t) in enumerate(rows):
                want = episodes[seed].outcomes[t]
                self.assert_row(batch, i, want, f"row {i}: seed {seed}, step {t}")

    def test_same_seed_gives_the_same_episode(self, other: Any, episodes: Any) -> None:
        for seed, episode in episodes.items():
            state, *_ = other.reset(seed=seed)
            self.assert_state(state, episode.states[0])
            self.play_on(other, episode, 0, f"seed {seed} again")

    def test_reset_after_a_restore_continues_the_same_random_stream(
        self, env: Any, other: Any, episode: Any
    ) -> None:
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


class VectorEnvContract:
    """Tests of any `gymnasium.vector.VectorEnv`; write `make`.

    Attributes:
        max_steps: random steps after which an episode is held never to end.
    """

    max_steps = 2000

    def make(self) -> Any:
        """Return a new vector env."""
        raise NotImplementedError

    def test_promises_are_kept(self) -> None:
        venv = self.make()
        try:
            report = check_vector_env(venv, max_steps=self.max_steps)
        finally:
            venv.close()
        assert report.ok, str(report)
