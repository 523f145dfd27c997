"""Batches without rows, and control steps that no row can take."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext

every_backend = pytest.mark.parametrize("backend", ["serial", "process", "kernel"])


@every_backend
def test_a_batch_of_no_rows_is_empty_in_every_form(backend):
    with plangym_ext.make("CartPole-v1", backend=backend) as env:
        env.reset(seed=0)
        width = env.state_width
        no_states = np.zeros((0, width), np.uint8)
        for actions, states in (([], []), ([], ()), ([], no_states), (np.zeros(0, int), [])):
            found = env.step_batch(actions, states)
            assert found.states.shape == (0, width)
            assert found.obs.shape == (0, 4)


@every_backend
def test_too_many_control_steps_are_told_with_their_limit(backend):
    with plangym_ext.make("CartPole-v1", backend=backend) as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(ValueError, match=r"at most 2147483647 and.* got 1099511627776"):
            env.step_batch([0], [state], dt=2**40)
