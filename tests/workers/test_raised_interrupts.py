"""Envs that raise what ends programs: in a worker it is told as any other error of theirs."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidObservation, WorkerError

RAISED = {7: KeyboardInterrupt, 8: GeneratorExit}


class Ending(gym.Env):
    """Raises what an action stands for."""

    observation_space = gym.spaces.Box(-1e9, 1e9, (1,), np.float64)
    action_space = gym.spaces.Discrete(10)

    def __init__(self, *, fails=False):
        if fails:
            raise KeyboardInterrupt

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {}

    def step(self, action):
        self.count += 1
        if action in RAISED and self.count > 1:  # a probe's first step is spared
            raise RAISED[action]
        info = [("a", 1)] if action == 9 and self.count > 1 else {}
        return np.array([float(self.count)]), 0.0, False, False, info

    # Probes play at random.
    def get_state(self):
        return np.array([self.count])

    def set_state(self, state):
        self.count = int(state[0])


def make_vec(**options):
    return plangym_ext.make_vec(Ending, 3, check=False, **options)


@pytest.mark.parametrize("action", list(RAISED))
def test_what_a_sub_env_raises_in_a_worker_names_it_and_costs_no_worker(action):
    with make_vec(n_workers=2) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(3, int))
        pids = venv.worker_pids
        with pytest.raises(WorkerError, match=RAISED[action].__name__) as caught:
            venv.step(np.array([0, action, 0]))
        assert f"in row 1, action {action}" in caught.value.__notes__
        assert venv.step(np.zeros(3, int))[0].tolist() == [[2.0]] * 3
        assert venv.worker_pids == pids


@pytest.mark.parametrize("action", list(RAISED))
def test_here_it_is_raised_as_it_is(action):
    with make_vec(backend="serial") as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(3, int))
        with pytest.raises(RAISED[action]) as caught:
            venv.step(np.array([0, action, 0]))
        assert f"in row 1, action {action}" in caught.value.__notes__
        assert venv.step(np.zeros(3, int))[0].tolist() == [[2.0]] * 3


@pytest.mark.parametrize("action", list(RAISED))
def test_what_a_row_of_a_batch_raises_names_it_and_costs_no_worker(action):
    with plangym_ext.make(Ending, n_workers=2, check=False) as env:
        env.reset(seed=0)
        states = np.stack([env.step(0, return_state=True).state] * 4)
        with pytest.raises(WorkerError, match=RAISED[action].__name__) as caught:
            env.step_batch(np.array([0, 0, action, 0]), states)
        assert f"row 2, action [{action}]" in caught.value.__notes__[-1]
        assert env.step_batch(np.zeros(4, int), states).obs.tolist() == [[2.0]] * 4


def test_what_a_constructor_raises_is_told():
    with pytest.raises(WorkerError, match="KeyboardInterrupt in worker 0"):
        plangym_ext.make_vec(lambda: Ending(fails=True), 2, n_workers=1)


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}])
def test_an_info_that_is_no_dict_names_the_sub_env(options):
    with make_vec(**options) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(3, int))
        with pytest.raises(InvalidObservation, match=r"expected a dict; got \[\('a', 1\)\]") as at:
            venv.step(np.array([0, 9, 0]))
        assert "in row 1, action 9" in at.value.__notes__
        assert venv.step(np.zeros(3, int))[0].tolist() == [[2.0]] * 3
