"""Presets of training runs in which an agent (PPO, DQN, SAC, ...) plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.run.settings.preset import Preset

#: Networks of vectors: one body for the policy, one for values.
APART = {
    "name": "actor_critic",
    "activation": "tanh",
    "init": "orthogonal",
    "shared_body": False,
}

#: As is usual for learning from screens; an episode of 108,000 frames is cut.
_ATARI = {
    "id": "ALE/Pong-v5",
    "kwargs": {
        "preprocessing": True,
        "episodic_life": True,
        "repeat_action_probability": 0.0,
    },
    "max_steps": 27_000,
}


def _line(start: float, over: int) -> dict[str, Any]:
    """Return a schedule that ends at 0 with the run, after so many updates."""
    return {"start": start, "end": 0.0, "over": over}


def agent_on_cartpole(algorithm: Mapping[str, Any], **rest: Any) -> dict[str, Any]:
    """Return settings in which an agent learns CartPole."""
    return {
        "env": {"id": "CartPole-v1", "max_steps": 500},
        "agent": dict(APART),
        "algorithm": dict(algorithm),
        **rest,
    }


def _ppo_on_mujoco(env_id: str, initial_log_std: float = -0.5) -> dict[str, Any]:
    """Return PPO settings for a MuJoCo task, a million steps, after Tianshou's benchmark."""
    return {
        "env": {"id": env_id, "max_steps": 1000},
        "agent": {**APART, "normalize_obs": True, "initial_log_std": initial_log_std},
        "algorithm": {
            "name": "ppo",
            # A round is 2,048 steps: ten epochs of 32 batches, 320 updates.
            "learning_rate": _line(3e-4, 488 * 320),
            "epochs": 10,
            "batch_size": 64,
            "value_weight": 0.25,
            "normalize_reward": True,
        },
        "collector": {"num_envs": 64, "moves": 32},
        "evaluation": {"every": 122, "episodes": 10},
        "rounds": 488,
        "checkpoint_every": 61,
    }


def _from_replay(
    env_id: str, max_steps: int, steps: int, agent: str, algorithm: Mapping[str, Any], **rest: Any
) -> dict[str, Any]:
    """Return settings of an agent with a replay, one update per step of one env."""
    rounds = steps // 16
    return {
        "env": {"id": env_id, "max_steps": max_steps},
        "agent": {"name": agent, **rest},
        "algorithm": dict(algorithm),
        "collector": {"num_envs": 1, "moves": 16},
        "evaluation": {"every": rounds // 10, "episodes": 10},
        "rounds": rounds,
        "checkpoint_every": rounds // 10,
    }


def _atari_from_replay(agent: Mapping[str, Any], algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a Q network for Atari: ten million steps, an update every four."""
    return {
        "env": _ATARI,
        "agent": {"name": "q", "kind": "nature", **agent},
        "algorithm": {
            # With each frame once, of 84 x 84 bytes, they take 1.8 GB.
            "capacity": 250_000,
            "frames": True,
            "updates_per_step": 0.25,
            "batch_size": 32,
            "clip_reward": 1.0,
            **algorithm,
        },
        "collector": {"num_envs": 4, "moves": 8},
        # In training a lost life ends an episode, as it is to cost. A score is of a whole game.
        "evaluation": {"every": 31_250, "episodes": 4, "env": {"episodic_life": False}},
        "rounds": 312_500,
        "checkpoint_every": 6_250,
    }


AGENT_PRESETS: Mapping[str, Preset] = {
    "ppo_cartpole": Preset(
        "PPO balances a pole",
        agent_on_cartpole(
            {
                "name": "ppo",
                # 20 updates a round, until the last one.
                "learning_rate": _line(1e-3, 8000),
                "gae_lambda": 0.8,
                "discount": 0.98,
                "epochs": 20,
                "batch_size": 256,
            },
            collector={"num_envs": 8, "moves": 32},
            evaluation={"every": 100, "episodes": 20},
            rounds=400,
            checkpoint_every=50,
        ),
    ),
    "ppo_lunarlander": Preset(
        "PPO lands on the moon; needs the extra box2d",
        {
            "env": {"id": "LunarLander-v3", "max_steps": 1000},
            "agent": dict(APART),
            "algorithm": {
                "name": "ppo",
                "learning_rate": 3e-4,
                "discount": 0.999,
                "gae_lambda": 0.98,
                "epochs": 4,
                "batch_size": 64,
                "entropy_weight": 0.01,
            },
            "collector": {"num_envs": 16, "moves": 1024},
            "evaluation": {"every": 15, "episodes": 20},
            "rounds": 61,
            "checkpoint_every": 10,
        },
    ),
    "ppo_halfcheetah": Preset(
        "PPO runs; needs the extra mujoco",
        # With the -0.5 of that benchmark half of the seeds keep to a slow way of running.
        _ppo_on_mujoco("HalfCheetah-v5", initial_log_std=-1.0),
    ),
    "ppo_hopper": Preset("PPO hops; needs the extra mujoco", _ppo_on_mujoco("Hopper-v5")),
    "ppo_atari": Preset(
        "PPO plays an Atari game from its screens: --env.id ALE/Breakout-v5",
        {
            "env": _ATARI,
            "agent": {"name": "actor_critic", "kind": "nature", "init": "orthogonal"},
            "algorithm": {
                "name": "ppo",
                # 16 updates a round, until the last one; as CleanRL, which halves the squared
                # error of values.
                "learning_rate": _line(2.5e-4, 9765 * 16),
                "epochs": 4,
                "batch_size": 256,
                "clip": 0.1,
                "value_clip": 0.1,
                "value_weight": 0.25,
                "entropy_weight": 0.01,
                "clip_reward": 1.0,
            },
            "collector": {"num_envs": 8, "moves": 128},
            "evaluation": {
                "every": 500,
                "episodes": 4,
                "sample": True,
                "env": {"episodic_life": False},
            },
            "rounds": 9765,
            "checkpoint_every": 100,
            # Convolutions take two thirds of a round, and two cores are what most machines have.
            "threads": 2,
        },
    ),
    "a2c_cartpole": Preset(
        "A2C balances a pole",
        agent_on_cartpole(
            {"name": "a2c", "learning_rate": _line(7e-4, 12_500)},
            collector={"num_envs": 8, "moves": 5},
            evaluation={"every": 1250, "episodes": 20, "stop_at": 495.0},
            rounds=12_500,
            checkpoint_every=1250,
        ),
    ),
    "recurrent_ppo_cartpole_no_velocity": Preset(
        "PPO with an LSTM balances a pole whose velocity it is not shown",
        {
            "env": {"id": "plangym_ext/CartPoleNoVelocity-v0", "max_steps": 500},
            "agent": {
                "name": "actor_critic",
                "hidden": [64],
                "init": "orthogonal",
                "shared_body": False,
                "normalize_obs": True,
                "recurrent": "lstm",
                "recurrent_size": 64,
                "recurrent_first": True,
            },
            "algorithm": {
                "name": "ppo",
                # 20 updates a round, until the last one.
                "learning_rate": _line(1e-3, 8000),
                "clip": _line(0.2, 8000),
                "gae_lambda": 0.8,
                "discount": 0.98,
                "epochs": 20,
                "batch_size": 256,
                "minibatch": "env",
                "normalize_reward": True,
            },
            "collector": {"num_envs": 8, "moves": 32},
            "evaluation": {"every": 100, "episodes": 20},
            "rounds": 400,
            "checkpoint_every": 50,
        },
    ),
    "recurrent_ppo_pendulum_no_velocity": Preset(
        "PPO with an LSTM swings up a pendulum whose velocity it is not shown",
        {
            "env": {"id": "plangym_ext/PendulumNoVelocity-v0", "max_steps": 200},
            "agent": {
                "name": "actor_critic",
                "hidden": [64],
                "init": "orthogonal",
                "shared_body": False,
                "recurrent": "lstm",
                "recurrent_size": 64,
                "recurrent_first": True,
            },
            "algorithm": {
                "name": "ppo",
                # 40 updates a round, until the last one.
                "learning_rate": _line(1e-3, 98 * 40),
                "discount": 0.9,
                "epochs": 10,
                "batch_size": 256,
                "minibatch": "env",
                "normalize_reward": True,
            },
            "collector": {"num_envs": 16, "moves": 64},
            "evaluation": {"every": 14, "episodes": 20},
            "rounds": 98,
            "checkpoint_every": 14,
        },
    ),
    "pqn_cartpole": Preset(
        "PQN balances a pole, with the settings of CleanRL",
        {
            "env": {"id": "CartPole-v1", "max_steps": 500},
            "agent": {
                "name": "q",
                "hidden": [120, 84],
                "layer_norm": True,
                "init": "orthogonal",
            },
            "algorithm": {
                "name": "pqn",
                # 16 updates a round, until the last one.
                "learning_rate": _line(2.5e-4, 976 * 16),
                "exploration": {"start": 1.0, "end": 0.05, "over": 250_000},
            },
            "collector": {"num_envs": 4, "moves": 128},
            "evaluation": {"every": 122, "episodes": 20},
            "rounds": 976,
            "checkpoint_every": 122,
        },
    ),
    "dqn_lunarlander": Preset(
        "DQN lands on the moon, with the settings of rl-zoo3; needs the extra box2d",
        {
            "env": {"id": "LunarLander-v3", "max_steps": 1000},
            "agent": {"name": "q", "hidden": [256, 256]},
            "algorithm": {
                "name": "dqn",
                "learning_rate": 6.3e-4,
                "capacity": 50_000,
                "learning_starts": 128,
                "updates_per_step": 1.0,
                "batch_size": 128,
                "target_every": 250,
                "exploration": {"start": 1.0, "end": 0.1, "over": 12_000},
            },
            "collector": {"num_envs": 1, "moves": 16},
            "evaluation": {"every": 625, "episodes": 20},
            "rounds": 6250,
            "checkpoint_every": 625,
        },
    ),
    "dqn_cartpole": Preset(
        "DQN balances a pole, with the settings of CleanRL",
        {
            "env": {"id": "CartPole-v1", "max_steps": 500},
            "agent": {"name": "q", "hidden": [120, 84]},
            "algorithm": {
                "name": "dqn",
                "learning_rate": 2.5e-4,
                "max_grad_norm": None,
                "loss": "squared",
                "capacity": 10_000,
                "learning_starts": 10_000,
                "updates_per_step": 0.1,
                "batch_size": 128,
                "target_every": 50,
                "exploration": {"start": 1.0, "end": 0.05, "over": 250_000},
            },
            "collector": {"num_envs": 8, "moves": 10},
            "evaluation": {"every": 625, "episodes": 20},
            "rounds": 6250,
            "checkpoint_every": 625,
        },
    ),
    "r2d1_cartpole_no_velocity": Preset(
        "R2D1 balances a pole whose velocity it is not shown",
        {
            "env": {"id": "plangym_ext/CartPoleNoVelocity-v0", "max_steps": 500},
            "agent": {"name": "q", "hidden": [64], "recurrent": "lstm", "recurrent_size": 64},
            "algorithm": {
                "name": "r2d1",
                # 64 updates a round once learning has begun, until the last one.
                "learning_rate": _line(1e-3, 25_088),
                "discount": 0.99,
                "capacity": 100_000,
                "learning_starts": 2_000,
                # Many small updates: it takes most of them to learn to tell velocities.
                "updates_per_step": 0.25,
                "batch_size": 16,
                "burn_in": 8,
                "length": 16,
                "n_steps": 5,
                "target_every": 200,
                "alpha": 0.6,
                "exploration": {"start": 1.0, "end": 0.05, "over": 20_000},
            },
            "collector": {"num_envs": 16, "moves": 16},
            "evaluation": {"every": 100, "episodes": 20},
            "rounds": 400,
            "checkpoint_every": 50,
        },
    ),
    "dqn_atari": Preset(
        "DQN plays an Atari game from its screens: --env.id ALE/Breakout-v5",
        _atari_from_replay(
            {},
            {
                "name": "dqn",
                "learning_rate": 1e-4,
                "max_grad_norm": None,
                "learning_starts": 80_000,
                "target_every": 250,
                "exploration": {"start": 1.0, "end": 0.01, "over": 1_000_000},
            },
        ),
    ),
    "rainbow_atari": Preset(
        "Rainbow plays an Atari game from its screens: --env.id ALE/Breakout-v5",
        _atari_from_replay(
            {"dueling": True, "noisy": True, "returns": "atoms"},
            {
                "name": "rainbow",
                "learning_starts": 20_000,
                "target_every": 2_000,
                # At first the noise of an action's advantage is too small to try others.
                "exploration": {"start": 1.0, "end": 0.0, "over": 250_000},
                # By updates, one for four steps: it ends with the run.
                "beta": {"start": 0.4, "end": 1.0, "over": 2_500_000},
            },
        ),
    ),
    "sac_pendulum": Preset(
        "SAC swings up a pendulum",
        _from_replay(
            "Pendulum-v1",
            200,
            20_000,
            "soft_policy",
            {"name": "sac", "learning_rate": 1e-3, "learning_starts": 100, "capacity": 20_000},
        ),
    ),
    "td3_pendulum": Preset(
        "TD3 swings up a pendulum",
        _from_replay(
            "Pendulum-v1",
            200,
            20_000,
            "deterministic_policy",
            {"name": "td3", "discount": 0.98, "capacity": 20_000},
        ),
    ),
    "ddpg_pendulum": Preset(
        "DDPG swings up a pendulum",
        _from_replay(
            "Pendulum-v1",
            200,
            20_000,
            "deterministic_policy",
            {"name": "ddpg", "discount": 0.98, "capacity": 20_000},
        ),
    ),
    "sac_halfcheetah": Preset(
        "SAC runs; needs the extra mujoco",
        _from_replay("HalfCheetah-v5", 1000, 1_000_000, "soft_policy", {"name": "sac"}),
    ),
    "td3_halfcheetah": Preset(
        "TD3 runs; needs the extra mujoco",
        _from_replay("HalfCheetah-v5", 1000, 1_000_000, "deterministic_policy", {"name": "td3"}),
    ),
}
