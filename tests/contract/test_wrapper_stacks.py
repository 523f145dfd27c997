"""Random stacks of gymnasium's wrappers, and of wrappers that hold what is below them.

Played by a vector env in this process and by one whose worker is killed in the middle: both
give what gymnasium's `SyncVectorEnv` gives, once more from a saved state too. An env of
`GymEnv` goes on from its own states as it went on at first. Run alone, the module prints what
became of the stacks: `python -P tests/contract/test_wrapper_stacks.py 200`.
"""

from __future__ import annotations

import collections
import functools
import os
import signal
import sys
from contextlib import closing
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import gymnasium as gym
import numpy as np
import pytest
from back_references import BOARDS, HOLDERS
from gymnasium import wrappers
from gymnasium.vector import SyncVectorEnv

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import IncompleteState

#: Stacks in a run: more of them in `tox -e long`.
STACKS = 100 if os.environ.get("PYTEST_LONG") else 2
STEPS, SAVED_AT, ROWS = 24, 7, 2
BASES = (*BOARDS, "CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1")
WRAPPERS = (
    functools.partial(wrappers.TimeLimit, max_episode_steps=8),
    functools.partial(wrappers.FrameStackObservation, stack_size=3),
    functools.partial(wrappers.TransformReward, func=lambda reward: 2 * reward),
    functools.partial(wrappers.ClipReward, min_reward=-1, max_reward=1),
    functools.partial(wrappers.StickyAction, repeat_action_probability=0.3),
    functools.partial(wrappers.DelayObservation, delay=2),
    functools.partial(wrappers.MaxAndSkipObservation, skip=2),
    wrappers.RecordEpisodeStatistics,
    wrappers.NormalizeObservation,
    wrappers.NormalizeReward,
    wrappers.TimeAwareObservation,
    wrappers.FlattenObservation,
    *HOLDERS,
)


def stack_of(seed):
    """Return a base and the wrappers that work on it, out of some that are drawn."""
    rng = np.random.default_rng(seed)
    base = BASES[rng.integers(len(BASES))]
    chosen: list = []
    for k in rng.choice(len(WRAPPERS), rng.integers(1, 6), replace=False):
        if works(base, [*chosen, WRAPPERS[k]]):
            chosen.append(WRAPPERS[k])
    return base, chosen


def built(base, chosen):
    env = gym.make(base) if isinstance(base, str) else base()
    for wrap in chosen:
        env = wrap(env)
    return env


def works(base, chosen):
    """Return whether gymnasium itself can play the stack."""
    try:
        with closing(SyncVectorEnv([functools.partial(built, base, chosen)])) as venv:
            venv.reset(seed=0)
            for _ in range(3):
                venv.step(venv.action_space.sample())
    except Exception:  # wrappers refuse envs in their own ways
        return False
    return True


def as_bytes(result):
    obs = result[0]
    leaves = obs.values() if isinstance(obs, dict) else obs if isinstance(obs, tuple) else [obs]
    return [np.asarray(part).tobytes() for part in (*leaves, *result[1:4])]


def check_vector_env(make, actions, expected, n_workers):
    """Play, with a kill if there are workers, and again from a state; whether that can be."""
    backend = "serial" if n_workers is None else "process"
    with plangym_ext.make_vec([make] * ROWS, n_workers=n_workers, backend=backend) as venv:
        venv.reset(seed=4)
        try:
            venv.get_states()
        except IncompleteState:
            return False
        for t, action in enumerate(actions):
            if t == SAVED_AT:
                saved, ended = venv.get_states(), venv.ended
            if n_workers is not None and t == SAVED_AT + 6:
                os.kill(venv.worker_pids[0], signal.SIGKILL)
            assert as_bytes(venv.step(action)) == expected[t], (make, n_workers, t)
        venv.set_states(saved, ended=ended)
        for t in range(SAVED_AT, STEPS):
            assert as_bytes(venv.step(actions[t])) == expected[t], (make, n_workers, t, "again")
    return True


def check_plan_env(make, actions):
    with GymEnv(make) as env:
        env.reset(seed=4)
        results = []
        for t, action in enumerate(actions):
            if t == SAVED_AT:
                saved = env.get_state()
            results.append(as_bytes(env.step(action[0])))
        for _ in range(2):
            env.set_state(saved)
            again = [as_bytes(env.step(action[0])) for action in actions[SAVED_AT:]]
            assert again == results[SAVED_AT:], make


def check_stack(seed):
    """Play one stack in all ways; what became of it, in a word."""
    base, chosen = stack_of(seed)
    make = functools.partial(built, base, chosen)
    with closing(SyncVectorEnv([make] * ROWS)) as venv:
        venv.reset(seed=4)
        venv.action_space.seed(seed)
        actions = [venv.action_space.sample() for _ in range(STEPS)]
        expected = [as_bytes(venv.step(action)) for action in actions]
    if not check_vector_env(make, actions, expected, None):
        with pytest.raises(IncompleteState):
            GymEnv(make).close()
        return "refused"
    check_vector_env(make, actions, expected, 1)
    check_plan_env(make, actions)
    return "exact"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(STACKS))
def test_random_stacks_of_wrappers(seed):
    check_stack(seed)


def main(count):
    """Check `count` stacks and print what became of them."""
    import warnings

    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    warnings.simplefilter("ignore")
    found = collections.Counter()
    for seed in range(count):
        try:
            found[check_stack(seed)] += 1
        except Exception as error:
            found["wrong"] += 1
            print(seed, stack_of(seed), f"{type(error).__name__}: {error}"[:600], flush=True)
    print(dict(found))
    return found["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
