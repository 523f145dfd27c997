"""Batches of native backends with arrays and infos as the caller wants them."""

from __future__ import annotations

import numpy as np

from plangym_ext.testing.backend import assert_equal


class GivenArrays:
    """For contracts: results in the caller's arrays, of other dtypes and strides."""

    def test_all_infos_and_given_arrays(self, serial, candidate, pool):
        actions = self.actions(serial, (9,), seed=3)
        leaf = serial.layout.obs.leaves[0]
        for infos in ("all", "none"):
            out = {
                "obs": np.zeros((9, *leaf.shape), leaf.dtype),
                "rewards": np.zeros(9, np.float32),
                "terminateds": np.zeros(18, bool)[::2],
            }
            want = serial.step_batch(actions, pool[:9], infos=infos)
            got = candidate.step_batch(actions, pool[:9], infos=infos, out=out)
            assert all(getattr(got, name) is array for name, array in out.items())
            assert out["obs"].any()
            assert got.rewards.tolist() == want.rewards.astype(np.float32).tolist()
            assert_equal(got._replace(rewards=want.rewards), want, f"infos={infos}")

    def test_rewards_may_go_where_actions_lie(self, serial, candidate, pool):
        # Where the rewards of a row go, the next row's actions lie, which are read after it.
        actions = self.actions(serial, (9, 4), seed=3)
        row, rewards_bytes = actions[0].nbytes, 9 * 4 * 8
        memory = np.zeros(row + max(actions.nbytes, rewards_bytes), np.uint8)
        held = memory[: actions.nbytes].view(actions.dtype).reshape(actions.shape)
        held[...] = actions
        out = {"rewards": memory[row : row + rewards_bytes].view(np.float64).reshape(9, 4)}
        want = serial.rollout_batch(actions, pool[:9])
        got = candidate.rollout_batch(held, pool[:9], out=out)
        assert got.rewards is out["rewards"]
        assert_equal(got, want, "rewards over actions")
