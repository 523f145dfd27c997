"""Our settings as those of Stable-Baselines3, where it has them."""

from __future__ import annotations

import math
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
        "atari": _is_atari(config),
        "env_kwargs": _env_kwargs(config),
        "num_envs": config.collector.num_envs,
        "steps": config.rounds * config.steps_per_round,
        "keywords": _KEYWORDS[name](config),
        "policy": _from_replay_policy(config) if name in _FROM_REPLAY else _policy(config),
        "normalize": None if name in _FROM_REPLAY else _normalized(config),
        "squared": getattr(config.algorithm.config, "loss", None) == "squared",
        "seed": config.seed,
        "threads": config.threads,
        "device": config.device,
    }


def _is_atari(config: RunConfig) -> bool:
    """Return whether its own wrappers are to be put around an Atari game."""
    return bool(config.env.kwargs.get("preprocessing"))


def _env_kwargs(config: RunConfig) -> dict[str, Any]:
    """Return what the env is made with; of Atari games, what its wrappers make the same of."""
    kwargs = dict(config.env.kwargs)
    if not _is_atari(config):
        return kwargs
    wanted = {"preprocessing": True, "episodic_life": True, "repeat_action_probability": 0.0}
    if kwargs != wanted:
        raise ValueError(f"its Atari wrappers are as {wanted}; got {kwargs}")
    return {"frameskip": 1, "repeat_action_probability": 0.0}


def _policy(config: RunConfig) -> dict[str, Any]:
    """Return the keywords of the network; values and policy have one body each, or of screens one.

    Of screens both have the network of Mnih et al. 2015, the policy's default there.
    """
    assert config.agent is not None
    if _is_atari(config):
        screens = config.agent.config
        if (screens.kind, screens.shared_body, screens.init) != ("nature", True, "orthogonal"):
            raise ValueError("of screens only one body, of kind nature, is the same there")
        return {"activation": "relu"}
    agent = _dense(config)
    if agent.shared_body:
        raise ValueError("only dense layers apart for policy and value are the same there")
    if agent.init != "orthogonal" or agent.layer_norm or agent.value_scale != 1.0:
        raise ValueError("layers begin orthogonal there, without layer_norm and value_scale")
    hidden = list(agent.hidden or (64, 64))
    return {
        "net_arch": {"pi": hidden, "vf": hidden},
        "activation": agent.activation,
        "log_std_init": agent.initial_log_std,
    }


def _from_replay_policy(config: RunConfig) -> dict[str, Any]:
    """Return the keywords of the network of an algorithm that learns from a replay.

    Layers begin as torch makes them, there and here; ours have heads that begin at 0.
    """
    assert config.agent is not None
    assert config.algorithm is not None
    screens = _is_atari(config)
    agent, ours = config.agent.config if screens else _dense(config), config.algorithm.config
    if screens and (agent.kind, agent.hidden, agent.recurrent) != ("nature", None, "none"):
        raise ValueError("of screens only the network of kind nature is the same there")
    if agent.init != "zero_heads" or agent.layer_norm or agent.normalize_obs:
        raise ValueError("layers begin as torch makes them there, and nothing is normalised")
    found = {"activation": agent.activation, "optimizer_kwargs": {"eps": ours.epsilon}}
    if config.algorithm.name == "dqn":
        if agent.dueling or agent.noisy or agent.returns != "mean":
            raise ValueError("DQN has a plain network there")
        # After the convolutions and their one dense layer there is none.
        return {**found, "net_arch": [] if screens else list(agent.hidden or (64, 64))}
    if agent.activation != "relu":
        raise ValueError("critics have rectifiers here, and the policy's activation there")
    if ours.critic_layer_norm:
        raise ValueError("critics are not normalised there")
    hidden = {"pi": list(agent.hidden), "qf": list(ours.critic_hidden)}
    # DDPG makes its one critic itself.
    count = {} if config.algorithm.name == "ddpg" else {"n_critics": ours.critics}
    return {**found, **count, "net_arch": hidden}


def _dense(config: RunConfig) -> Any:
    """Return the settings of a network that has dense layers alone."""
    assert config.agent is not None
    agent = config.agent.config
    if agent.kind not in ("auto", "mlp") or agent.recurrent != "none":
        raise ValueError("only networks of dense layers are the same there")
    return agent


def _normalized(config: RunConfig) -> dict[str, Any] | None:
    """Return the keywords of `VecNormalize`; None: it is not needed."""
    assert config.agent is not None
    assert config.algorithm is not None
    algorithm = config.algorithm.config
    if algorithm.clip_reward is not None and not _is_atari(config):
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


#: Of the replay of screens, which holds those of the next step once; then it cannot tell what a
#: time limit cut.
_FRAMES = {
    "optimize_memory_usage": True,
    "replay_buffer_kwargs": {"handle_timeout_termination": False},
}


def _replay(config: RunConfig) -> dict[str, Any]:
    """Return what DQN, SAC, TD3 and DDPG have in common."""
    assert config.algorithm is not None
    ours = config.algorithm.config
    if ours.optimizer != "adam" or ours.l2 or isinstance(ours.learning_rate, Schedule):
        raise ValueError("there is Adam alone, without weight decay, at one learning rate")
    if ours.prioritized:
        raise ValueError("draws are uniform there")
    if (ours.frames, ours.clip_reward) != ((True, 1.0) if _is_atari(config) else (False, None)):
        raise ValueError("frames are kept once and rewards clipped of Atari games alone there")
    updates = ours.updates_per_step * config.steps_per_round
    if updates != int(updates):
        raise ValueError(f"{updates} updates a round; there it is a whole number")
    return {
        "learning_rate": ours.learning_rate,
        "buffer_size": ours.capacity,
        "learning_starts": ours.learning_starts,
        "batch_size": ours.batch_size,
        "tau": ours.target_rate,
        "gamma": ours.discount,
        "train_freq": config.collector.moves,
        "gradient_steps": int(updates),
        "n_steps": ours.n_steps,
        **(_FRAMES if ours.frames else {}),
    }


def _dqn(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    if ours.double or not isinstance(ours.exploration, Schedule):
        raise ValueError("DQN is not double there, and explores by a schedule")
    steps = config.rounds * config.steps_per_round
    return {
        **_replay(config),
        "max_grad_norm": math.inf if ours.max_grad_norm is None else ours.max_grad_norm,
        # In steps there, and in updates here.
        "target_update_interval": round(ours.target_every / ours.updates_per_step),
        "exploration_initial_eps": ours.exploration.start,
        "exploration_final_eps": ours.exploration.end,
        "exploration_fraction": ours.exploration.over / steps,
    }


def _actor_critic(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    if ours.critic_learning_rate is not None or ours.max_grad_norm is not None:
        raise ValueError("critics learn at the policy's rate there, and no gradient is clipped")
    if ours.precision != "float32":
        raise ValueError("products are of float32 there")
    return _replay(config)


def _sac(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    if ours.policy_every != 1:
        raise ValueError("the policy of SAC learns as often as the critics there")
    entropy = f"auto_{ours.temperature}" if ours.learn_temperature else ours.temperature
    return {
        **_actor_critic(config),
        "target_update_interval": ours.target_every,
        "ent_coef": entropy,
        "target_entropy": "auto" if ours.target_entropy is None else ours.target_entropy,
    }


def _ddpg(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    if isinstance(ours.exploration, Schedule) or ours.target_every != ours.policy_every:
        raise ValueError("exploration is one number there, and targets follow with the policy")
    return {**_actor_critic(config), "action_noise": ours.exploration}


def _td3(config: RunConfig) -> dict[str, Any]:
    assert config.algorithm is not None
    ours = config.algorithm.config
    return {
        **_ddpg(config),
        "policy_delay": ours.policy_every,
        "target_policy_noise": ours.target_noise,
        "target_noise_clip": ours.target_noise_clip,
    }


_FROM_REPLAY: dict[str, Callable[[RunConfig], dict[str, Any]]] = {
    "dqn": _dqn,
    "sac": _sac,
    "td3": _td3,
    "ddpg": _ddpg,
}
_KEYWORDS = {"ppo": _ppo, "a2c": _a2c, **_FROM_REPLAY}
