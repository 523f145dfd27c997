"""Sub-envs that fill one dict or array of their class: each row keeps what its own env gave."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext

OPTIONS = {"serial": {"backend": "serial"}, "workers": {"n_workers": 2}}
every_backend = pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))

#: All sub-envs of a process write to these.
WHOLE, PART, NODES = {}, np.zeros(2), np.zeros((1, 2), np.float32)


class Sharing(gym.Env):
    """Counts its actions, and tells the count in what all instances share."""

    observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float64)
    action_space = gym.spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = seed or 0
        return self.shown(), self.told()

    def step(self, action):
        self.count += int(action)
        return self.shown(), 0.0, False, False, self.told()

    def shown(self):
        return np.full(2, self.count, np.float64)

    def told(self):
        PART[:] = self.count
        WHOLE.update(count=self.count, part=PART, inner={"list": [PART], "tuple": (PART, 1)})
        return WHOLE


class Graphs(Sharing):
    observation_space = gym.spaces.Graph(gym.spaces.Box(-1e9, 1e9, (2,)), None)

    def shown(self):
        NODES[:] = self.count
        return gym.spaces.GraphInstance(NODES, None, None)


@every_backend
def test_infos_of_a_shared_dict_are_each_rows_own(options):
    with plangym_ext.make_vec(Sharing, 3, **options) as venv:
        told = [venv.reset(seed=1)[1], venv.step(np.array([1, 2, 3]))[4]]
    for infos, counts in zip(told, ([1, 2, 3], [2, 4, 6]), strict=True):
        assert infos["count"].tolist() == counts
        assert infos["part"][:, 0].tolist() == counts
        assert [one[0][0] for one in infos["inner"]["list"]] == counts
        assert [one[0][0] for one in infos["inner"]["tuple"]] == counts


@every_backend
def test_observations_without_an_array_form_are_each_rows_own(options):
    with plangym_ext.make_vec(Graphs, 3, **options) as venv:
        shown = [venv.reset(seed=1)[0], venv.step(np.array([1, 2, 3]))[0]]
    nodes = [[int(graph.nodes[0, 0]) for graph in graphs] for graphs in shown]
    assert nodes == [[1, 2, 3], [2, 4, 6]]
