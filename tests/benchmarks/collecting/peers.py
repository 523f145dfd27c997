"""Stable-Baselines3, TorchRL, Tianshou and EnvPool: run by the Pythons that have them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from table.contest import NotHere, Runner
from table.tasks import Task

from collecting.policies import NUM_STEPS, ActorCritic


def _stable_baselines(
    task: Task, rows: int, *, from_states: bool, name: str, **settings: Any
) -> Runner:
    """The collection of SB3's PPO, with its own policy of the same layers."""
    del from_states
    torch.set_num_threads(1)
    sb3 = importlib.import_module("stable_baselines3")
    envs = getattr(importlib.import_module("stable_baselines3.common.vec_env"), name)
    venv = envs([task.make] * rows, **settings)
    image = len(venv.observation_space.shape) == 3
    policy = "CnnPolicy" if image else "MlpPolicy"
    model = sb3.PPO(policy, venv, n_steps=NUM_STEPS, device="cpu")
    _, callback = model._setup_learn(10**9)

    def collect() -> None:
        model.collect_rollouts(model.env, callback, model.rollout_buffer, NUM_STEPS)

    return Runner(collect, rows * NUM_STEPS, venv.close, warm_up=2)


dummy = functools.partial(_stable_baselines, name="DummyVecEnv")
subproc = functools.partial(_stable_baselines, name="SubprocVecEnv", start_method="fork")


def torchrl(task: Task, rows: int, *, from_states: bool) -> Runner:
    """TorchRL's collector over a `SerialEnv`, with an actor and a critic."""
    del from_states
    torch.set_num_threads(1)
    library = importlib.import_module("torchrl.envs")
    modules = importlib.import_module("torchrl.modules")
    collectors = importlib.import_module("torchrl.collectors")
    module = importlib.import_module("tensordict.nn").TensorDictModule
    space = task.make().action_space
    if not isinstance(space, spaces.Discrete):
        raise NotHere("measured on CartPole alone")
    net = ActorCritic(task.make().observation_space.shape, int(space.n))
    asked = module(net, in_keys=["observation"], out_keys=["logits", "state_value"])
    policy = modules.ProbabilisticActor(
        asked,
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )

    def make() -> Any:
        return library.GymWrapper(task.make(), categorical_action_encoding=True)

    # Its name up to version 0.13.
    kind = getattr(collectors, "SyncDataCollector", None) or collectors.Collector
    collector = kind(
        library.SerialEnv(rows, make),
        policy,
        frames_per_batch=rows * NUM_STEPS,
        total_frames=-1,
    )
    batches = iter(collector)
    return Runner(lambda: next(batches), rows * NUM_STEPS, collector.shutdown, warm_up=1)


def tianshou(task: Task, rows: int, *, from_states: bool) -> Runner:
    """Tianshou's collector over a `DummyVectorEnv`, with an actor."""
    del from_states
    torch.set_num_threads(1)
    data, envs = (importlib.import_module(f"tianshou.{name}") for name in ("data", "env"))
    policies = importlib.import_module("tianshou.algorithm.modelfree.reinforce")
    space = task.make().action_space
    if not isinstance(space, spaces.Discrete):
        raise NotHere("measured on CartPole alone")

    class Actor(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = ActorCritic(task.make().observation_space.shape, int(space.n))

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
            del info
            return self.net(torch.as_tensor(obs, dtype=torch.float32))[0], state

    policy = policies.ProbabilisticActorPolicy(
        actor=Actor(),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=space,
        action_scaling=False,
        action_bound_method=None,
    )
    venv = envs.DummyVectorEnv([task.make] * rows)
    buffer = data.VectorReplayBuffer(rows * NUM_STEPS, rows)
    collector = data.Collector(policy, venv, buffer)
    collector.reset()

    def collect() -> None:
        buffer.reset()
        collector.collect(n_step=rows * NUM_STEPS)

    return Runner(collect, rows * NUM_STEPS, venv.close, warm_up=1)


def envpool(task: Task, rows: int, *, from_states: bool) -> Runner:
    """EnvPool with two threads and the same network, in a plain loop into arrays."""
    del from_states
    torch.set_num_threads(1)
    if task.envpool is None:
        raise NotHere("its own is another game")
    name, settings = task.envpool
    make = importlib.import_module("envpool").make
    envs = make(name, env_type="gymnasium", num_envs=rows, num_threads=2, seed=0, **settings)
    space = envs.action_space
    discrete = isinstance(space, spaces.Discrete)
    outputs = int(space.n) if discrete else int(np.prod(space.shape))
    net = ActorCritic(envs.observation_space.shape, outputs)
    log_std = torch.zeros(outputs)
    kept: dict[str, Any] = {
        "obs": np.zeros(
            (NUM_STEPS + 1, rows, *envs.observation_space.shape), envs.observation_space.dtype
        )
    }
    first, _ = envs.reset()
    kept["obs"][NUM_STEPS] = first

    @torch.inference_mode()
    def act(obs: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        seen = torch.from_numpy(obs)
        params, value = net(seen if obs.dtype == np.uint8 else seen.float())
        if discrete:
            policy: Any = torch.distributions.Categorical(logits=params, validate_args=False)
        else:
            policy = torch.distributions.Normal(params, log_std.exp(), validate_args=False)
        action = policy.sample()
        log_prob = policy.log_prob(action)
        log_prob = log_prob if discrete else log_prob.sum(-1)
        return action.numpy(), {"value": value.numpy(), "log_prob": log_prob.numpy()}

    def collect() -> None:
        obs = kept["obs"]
        obs[0] = obs[NUM_STEPS]
        for t in range(NUM_STEPS):
            action, info = act(obs[t])
            sent = action.astype(np.int32) if discrete else np.clip(action, space.low, space.high)
            found = envs.step(sent)
            obs[t + 1] = found[0]
            step = {"action": action, "reward": found[1], "ended": found[2] | found[3], **info}
            for key, rows_of in step.items():
                if key not in kept:
                    kept[key] = np.zeros((NUM_STEPS, *rows_of.shape), rows_of.dtype)
                kept[key][t] = rows_of

    return Runner(collect, rows * NUM_STEPS, envs.close, warm_up=2)
