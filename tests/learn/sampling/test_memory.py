"""What samplers say of their memory is what the system says, and every observation is kept once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from sampling_envs import Oracle, Tally, oracle_venv

from plangym_ext import make_vec
from plangym_ext.arrays.storage import ANONYMOUS
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.sampling.evaluation import EvaluationSampler
from plangym_ext.learn.sampling.local import AlternatingSampler, SerialSampler
from plangym_ext.learn.sampling.tree import build_sample_tree, tree_memory
from plangym_ext.learn.sampling.worker import WorkerSampler

T, B, PAGE = 40, 6, 4096
OBS = 5_000


class Wide(Oracle):
    """An oracle that shows much, and whose episodes do not end here."""

    def __init__(self, index):
        super().__init__(index)
        self.observation_space = spaces.Box(-1000, 1000, (OBS,), np.float32)

    def _obs(self):
        return np.full(OBS, super()._obs().sum(), np.float32)

    def step(self, action):
        self.count += 1
        return self._obs(), 0.0, False, False, {}

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self._obs(), {}


def wide_rows(rows, **options):
    return oracle_venv(len(rows), Wide, rows.start, **options)


def shared_memory(pid="self"):
    """Bytes of this library's shared memory that a process has, and those that are in use."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if entry.is_symlink() and "memfd:plangym_ext" in str(entry.readlink()):
            stat = entry.stat()
            found[stat.st_ino] = stat.st_size, 512 * stat.st_blocks
    return np.array([*found.values(), (0, 0)]).sum(0)


def mapped(pid):
    """Bytes of it that a process maps, in whole pages."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    ends = [line.split()[0].split("-") for line in lines if "memfd:plangym_ext" in line]
    return sum(int(stop, 16) - int(start, 16) for start, stop in ends)


def central(kind):
    return kind(wide_rows(range(B), n_workers=2, backend="process"), AGENT, T)


AGENT = RandomAgent(Wide.action_space)
SAMPLERS = {
    "serial": lambda: SerialSampler(wide_rows(range(B)), AGENT, T),
    "central": lambda: central(SerialSampler),
    "alternating": lambda: central(AlternatingSampler),
    "workers": lambda: WorkerSampler(wide_rows, AGENT, T, B, n_workers=2),
}


@pytest.mark.skipif(not ANONYMOUS, reason="shared memory has names here")
@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_system_says_the_same(kind):
    before = shared_memory()
    with SAMPLERS[kind]() as sampler:
        sampler.collect()
        told = sampler.memory()
        # The memory of envs in actors' workers is the workers' own; none is shared by one process.
        own = {"workers": {"envs"}, "serial": set(told)}.get(kind, set())
        here = [bytes_ for name, bytes_ in told.items() if name not in own]
        size, used = shared_memory() - before
        assert size == sum(here)
        one = OBS * 4 * B
        assert told["obs"] == one * (T + 2)  # a row before the first, and one after the last
        assert told["final_obs"] == one * T
        if kind != "serial":
            # No episode has ended: nothing was written to final_obs.
            rest = sum(here) - told["obs"] - told["final_obs"]
            assert one * (T + 1) <= used <= one * (T + 1) + rest + PAGE * (len(here) + 2)
        if kind == "workers":
            for pid in sampler.worker_pids:
                # The same blocks, without the other's progress, and no others.
                assert 0 <= mapped(pid) - (size - told["progress"] // 2) < PAGE * len(here)


def test_an_evaluation_keeps_a_row_of_each_env_at_most():
    with EvaluationSampler(oracle_venv(3), Tally(), 5) as evaluation:
        evaluation.evaluate()
        told = evaluation.memory()
        assert told["inputs"] == 3 * (3 * 4 + 8)
        assert told["envs"] > 0


def test_a_tree_of_ones_own_is_told_by_name():
    venv = make_vec("CartPole-v1", B, autoreset_mode="same_step")
    tree = build_sample_tree(venv, RandomAgent(venv.single_action_space), T, B)
    told = tree_memory(tree)
    assert set(told) == set(tree)
    assert told["reward"] == T * B * 4
    assert venv.nbytes > B * 16
    venv.close()
