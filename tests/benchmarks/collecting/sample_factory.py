"""Sample Factory's own workers and inference process. Needs a Python of its own.

It asks for versions of gymnasium and numpy that no other contestant runs on.
"""

from __future__ import annotations

import importlib
import tempfile
from typing import Any

import gymnasium
import torch
from table.contest import NotHere, Runner
from table.tasks import Task

from collecting.policies import NUM_STEPS

#: Its defaults for Atari are those of a whole training: here as the other contestants sample.
_SETTINGS = {
    "device": "cpu",
    "num_workers": 2,
    "worker_num_splits": 2,  # each worker's envs in halves, as it is meant to be used
    "rollout": NUM_STEPS,
    "async_rl": True,
    "normalize_input": False,
    "normalize_returns": False,
    "max_policy_lag": 1_000_000,
}


def central(task: Task, rows: int, *, from_states: bool) -> Runner:
    """Two rollout workers and a process that infers for both, without a learner."""
    del from_states
    if task.envpool is None or task.envpool[0] != "Pong-v5":
        raise NotHere("measured on Pong alone")
    torch.set_num_threads(1)
    register = importlib.import_module("sample_factory.envs.env_utils").register_env
    atari = importlib.import_module("sf_examples.atari.train_atari")
    found = importlib.import_module("sample_factory.algo.utils.env_info")
    sampling = importlib.import_module("sample_factory.algo.sampling.simplified_sampling_api")
    count = importlib.import_module("sample_factory.algo.utils.rl_utils").samples_per_trajectory
    register("pong", pong)
    options = {**_SETTINGS, "num_envs_per_worker": rows // 2, "batch_size": rows * NUM_STEPS}
    given = ["--env=pong", "--experiment=sampling", f"--train_dir={tempfile.mkdtemp()}"]
    config = atari.parse_atari_args([*given, *(f"--{k}={v}" for k, v in options.items())])
    sampler = sampling.SyncSamplingAPI(config, found.obtain_env_info_in_a_separate_process(config))
    sampler.start()

    def collect() -> None:
        left = rows * NUM_STEPS
        while left > 0:
            left -= count(sampler.get_trajectories_sync())

    return Runner(collect, rows * NUM_STEPS, sampler.stop, warm_up=4)


def pong(name: str, config: Any, env_config: Any, render_mode: Any = None) -> Any:
    """Return the env, as the other contestants have it."""
    del name, config, env_config, render_mode
    importlib.import_module("ale_py")  # which registers it
    wrap = importlib.import_module("sample_factory.envs.env_wrappers").NumpyObsWrapper
    env = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    return wrap(gymnasium.wrappers.FrameStack(gymnasium.wrappers.AtariPreprocessing(env), 4))
