"""Our settings as those of Stable-Baselines3, where it has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.learn.schedule import Schedule
from plangym_ext.run.settings.config import RunConfig


def sb3_settings(config: RunConfig) -> dict[str, Any]:
    """Return what `sb3_run.py` reads: plain values, of equal meaning.

    Raises:
        ValueError: a setting has no equal there.
    """
    assert config.agent is not None
    assert config.algorithm is not None
    name = config.algorithm.name
    if name not in _KEYWORDS:
        raise ValueError(f"Stable-Baselines3 has no algorithm for {name!r}")
    return {
        "algorithm": name.upper(),
        "env": config.env.id,
        "env_kwargs": dict(config.env.kwargs),
        "num_envs": config.collector.num_envs,
        "steps": config.rounds * config.steps_per_round,
        "keywords": _KEYWORDS[name](config),
        "policy": _policy(config.agent.config),
        "normalize": _normalized(config),
        "seed": config.seed,
        "threads": config.threads,
    }


def _policy(agent: Any) -> dict[str, Any]:
    """Return the body of the network; values and policy have one each."""
    if agent.kind not in ("auto", "mlp") or agent.shared_body or agent.recurrent != "none":
        raise ValueError("only dense layers apart for policy and value are the same there")
    if agent.init != "orthogonal" or agent.layer_norm or agent.value_scale != 1.0:
        raise ValueError("layers begin orthogonal there, without layer_norm and value_scale")
    return {
        "hidden": list(agent.hidden or (64, 64)),
        "activation": agent.activation,
        "log_std": agent.initial_log_std,
    }


def _normalized(config: RunConfig) -> dict[str, Any] | None:
    """Return the keywords of `VecNormalize`; None: it is not needed."""
    assert config.agent is not None
    assert config.algorithm is not None
    algorithm = config.algorithm.config
    if algorithm.clip_reward is not None:
        raise ValueError("rewards are clipped by another wrapper there")
    obs, reward = config.agent.config.normalize_obs, algorithm.normalize_reward
    if not obs and not reward:
        return None
    return {"norm_obs": obs, "norm_reward": reward, "gamma": algorithm.discount}


def _on_policy(config: RunConfig) -> dict[str, Any]:
    """Return what A2C and PPO have in common."""
    assert config.algorithm is not None
    ours = config.algorithm.config
    if ours.l2 or isinstance(ours.entropy_weight, Schedule):
        raise ValueError("there is no weight decay, and no schedule of the entropy's weight there")
    return {
        "learning_rate": ours.learning_rate,
        "n_steps": config.collector.moves,
        "gamma": ours.discount,
        "gae_lambda": ours.gae_lambda,
        "ent_coef": ours.entropy_weight,
        "vf_coef": ours.value_weight,
        "max_grad_norm": ours.max_grad_norm,
        "normalize_advantage": ours.normalize_advantage != "none",
    }


def _ppo(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    if (ours.optimizer, ours.normalize_advantage) != ("adam", "minibatch"):
        raise ValueError("PPO has Adam and advantages normalised by minibatch there")
    per_round = ours.epochs * -(-config.steps_per_round // ours.batch_size)
    return {
        **_on_policy(config),
        "learning_rate": _by_share(ours.learning_rate, per_round * config.rounds),
        "batch_size": ours.batch_size,
        "n_epochs": ours.epochs,
        "clip_range": _by_share(ours.clip, per_round * config.rounds),
        "clip_range_vf": _by_share(ours.value_clip, per_round * config.rounds),
        "target_kl": ours.target_kl,
    }


def _a2c(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    if ours.optimizer != "rmsprop":
        raise ValueError("A2C has RMSprop here and there")
    return {
        **_on_policy(config),
        "learning_rate": _by_share(ours.learning_rate, config.rounds),
        "rms_prop_eps": ours.epsilon,
    }


def _by_share(number: Any, updates: int) -> Any:
    """Return a number, or what a schedule is at the beginning and the end of the run.

    Schedules count updates here; there they go by the share of the steps that is left.
    """
    if not isinstance(number, Schedule):
        return number
    if abs(number.over - updates) > 0.01 * updates:
        raise ValueError(f"the schedule {number} must end with the run, after {updates} updates")
    return [number.start, number.end]


_KEYWORDS: dict[str, Callable[[RunConfig], dict[str, Any]]] = {"ppo": _ppo, "a2c": _a2c}
