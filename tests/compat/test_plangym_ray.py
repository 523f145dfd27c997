"""plangym's RayEnv: rows on actors are those of this process."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("ray", reason="the ray backend")

import ray_cluster

import plangym_ext.compat.plangym as plangym


def test_actors_step_rows_as_the_local_env_does():
    with ray_cluster.running((1, 1)), plangym.make("CartPole-v1", n_workers=2, ray=True) as env:
        state, *_ = env.reset(seed=0)
        actions, dts = [0, 1, 0, 1, 1], [1, 2, 3, 1, 2]
        found = env.step_batch(actions, [state] * 5, dts)
        for one, two in zip(found, env.plan_env.step_batch(actions, [state] * 5, dts), strict=True):
            np.testing.assert_equal(one, two)
