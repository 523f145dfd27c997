"""Searches whose leaves a network rates: ours, and mctx's with the same weights in JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import torch
from stepping.rounds import Tree, fastest

import plangym_ext
from plangym_ext.learn import (
    AgentConfig,
    LatentConfig,
    LatentModel,
    NetworkEvaluator,
    OfLatents,
    make_agent_network,
    make_latent_network,
)
from plangym_ext.learn.networks.quick_forward import of_observations
from plangym_ext.planners import MCTS

#: Trees, simulations, and how many times mctx's better policy we aim at.
NETWORK_SHAPES = {"network": [(1, 200, 5), (32, 128, 3), (128, 64, 2)], "latent": [(32, 50, 2)]}
POLICIES = (mctx.muzero_policy, mctx.gumbel_muzero_policy)
WAVES = (1, 4, 8)
#: Largest difference of the two forward passes that is rounding.
ROUNDING = 1e-4
_DISCOUNT = 0.99


def layers(module: Any) -> list[tuple[Any, Any]]:
    """Return weights and biases of the dense layers in a module, in order."""
    found = [one for one in module.modules() if isinstance(one, torch.nn.Linear)]
    return [
        (jnp.asarray(one.weight.detach().numpy().T), jnp.asarray(one.bias.detach().numpy()))
        for one in found
    ]


def forward(dense: list[tuple[Any, Any]], x: Any, between: Callable[[Any], Any]) -> Any:
    """Return what dense layers make of rows, with a function between them."""
    for weight, bias in dense[:-1]:
        x = between(x @ weight + bias)
    weight, bias = dense[-1]
    return x @ weight + bias


def random_weights(network: Any) -> None:
    """Give a network weights of ordinary size: heads begin at 0, so that all would be alike."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for part in network.parameters():
            scale = part.shape[-1] ** -0.5 if part.ndim > 1 else 0.1
            part.copy_(scale * torch.randn(part.shape, generator=generator))


def same(name: str, ours: Any, theirs: Any) -> None:
    """Stop unless both networks say the same."""
    for one, other in zip(ours, theirs, strict=True):
        wrong = float(np.abs(np.asarray(one) - np.asarray(other)).max())
        if wrong > ROUNDING:
            raise SystemExit(f"{name}: the networks differ by {wrong:g}")


# CartPole with a network ----------------------------------------------------------


def cart_pole(x: Any, action: Any) -> tuple[Any, Any]:
    """Return the next states `[B, 4]` of CartPole, and whether the pole has fallen."""
    place, speed, angle, turning = x[:, 0], x[:, 1], x[:, 2], x[:, 3]
    force = jnp.where(action == 1, 10.0, -10.0)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    pushed = (force + 0.05 * turning**2 * sin) / 1.1
    turned = (9.8 * sin - cos * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    moved = pushed - 0.05 * turned * cos / 1.1
    found = [
        place + 0.02 * speed,
        speed + 0.02 * moved,
        angle + 0.02 * turning,
        turning + 0.02 * turned,
    ]
    over = (jnp.abs(found[0]) > 2.4) | (jnp.abs(found[2]) > 12 * 2 * np.pi / 360)
    return jnp.stack(found, axis=1), over


def with_network(envs: contextlib.ExitStack) -> dict[Tree, Any]:
    """Contestants of the section `network`."""
    env = envs.enter_context(plangym_ext.make("CartPole-v1"))
    config = AgentConfig(hidden=(64, 64), activation="tanh", shared_body=True)
    network = make_agent_network(env.observation_space, env.action_space, config, seed=0)
    random_weights(network)
    evaluator = NetworkEvaluator(of_observations(network))
    body, heads = layers(network.body), layers(network.heads)
    joined = [jnp.concatenate(parts, axis=-1) for parts in zip(*heads, strict=True)]
    dense = [*body, tuple(joined)]

    def rate(x: Any) -> tuple[Any, Any]:
        out = forward(dense, x, jnp.tanh)  # the heads are one layer
        return out[:, :2], out[:, 2]

    state, obs, _ = env.reset(seed=0)
    rows = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    priors, values = evaluator(rows)
    logits, theirs = rate(jnp.asarray(rows))
    same("network", (priors, values), (jax.nn.softmax(logits), theirs))

    def recurrent(params: Any, key: Any, action: Any, x: Any) -> Any:
        following, over = cart_pole(x, action)
        logits, value = rate(following)
        discount = jnp.where(over, 0.0, _DISCOUNT)
        return mctx.RecurrentFnOutput(
            reward=jnp.ones(len(x)), discount=discount, prior_logits=logits, value=value
        ), following

    found: dict[Tree, Any] = {}
    for batch, sims, _ in NETWORK_SHAPES["network"]:
        root = jnp.tile(jnp.asarray(obs)[None], (batch, 1))
        for policy in POLICIES:
            call = planned(policy, rate, recurrent, root, sims)
            found[Tree(policy.__name__, batch, sims, 1)] = fastest(call)
        for wave in WAVES:
            call = ours(env, evaluator, state, obs, (batch, sims, wave))
            found[Tree("MCTS", batch, sims, wave)] = fastest(call)
    return found


def planned(policy: Any, rate: Any, recurrent: Any, embedding: Any, sims: int) -> Any:
    """Return mctx's plan of a batch, compiled for its shape."""
    logits, value = rate(embedding)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding)
    plan = jax.jit(lambda key: policy(None, key, root, recurrent, sims).action_weights)
    key = jax.random.PRNGKey(0)
    return lambda: plan(key).block_until_ready()


def ours(env: Any, evaluator: Any, state: Any, obs: Any, shape: tuple[int, int, int]) -> Any:
    """Return our plan of a batch."""
    batch, sims, wave = shape
    planner = MCTS(sims, wave_size=wave, evaluator=evaluator, discount=_DISCOUNT)
    rngs = [np.random.default_rng(k) for k in range(batch)]
    states, shown = np.repeat(state[None], batch, axis=0), np.repeat(obs[None], batch, axis=0)
    return lambda: planner.plan_batch(env, states, rngs=rngs, obs=shown)


# A latent model -------------------------------------------------------------------


def with_latents(envs: contextlib.ExitStack) -> dict[Tree, Any]:
    """Contestants of the section `latent`."""
    cart = envs.enter_context(plangym_ext.make("CartPole-v1"))
    config = LatentConfig(
        latent=128, hidden=(128,), value_support=10, reward_support=10, endings=False
    )
    network = make_latent_network(cart.observation_space, cart.action_space, config, seed=0)
    random_weights(network)
    ahead, rated = layers(network.dynamics), layers(network.prediction)
    atoms = jnp.arange(-10.0, 11.0)

    def number(out: Any) -> Any:
        """Return the numbers of distributions over the atoms of compressed values."""
        y = (jax.nn.softmax(out) * atoms).sum(-1)
        wide = 0.004 * (jnp.abs(y) + 1.001)
        # The root less 1 as a quotient: as a difference it would lose its digits.
        root = wide / (jnp.sqrt(1.0 + wide) + 1.0) / 0.002
        return jnp.sign(y) * (root**2 - 1.0)

    def rate(latent: Any) -> tuple[Any, Any]:
        out = forward(rated, latent, jax.nn.relu)
        return out[:, :2], number(out[:, 2:])

    def step(latent: Any, action: Any) -> tuple[Any, Any]:
        played = jax.nn.one_hot(action, 2)
        out = forward(ahead, jnp.concatenate([latent, played], axis=1), jax.nn.relu)
        following, reward = out[:, :128], number(out[:, 128 : 128 + 21])
        low, high = following.min(1, keepdims=True), following.max(1, keepdims=True)
        return (following - low) / jnp.maximum(high - low, 1e-5), reward

    def recurrent(params: Any, key: Any, action: Any, latent: Any) -> Any:
        following, reward = step(latent, action)
        logits, value = rate(following)
        discount = jnp.full(len(latent), _DISCOUNT)
        return mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        ), following

    model = envs.enter_context(contextlib.closing(LatentModel(network)))
    evaluator = NetworkEvaluator(OfLatents(network))
    seen = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    states, actions = model.states_of(seen), np.arange(8) % 2
    rows = model.obs_of(states)
    out = model.step_batch(actions, states)
    following, reward = step(jnp.asarray(rows), jnp.asarray(actions))
    logits, value = rate(following)
    same("latent", (out.obs, out.rewards), (following, reward))
    same("latent", evaluator(out.obs), (jax.nn.softmax(logits), value))
    found: dict[Tree, Any] = {}
    for batch, sims, _ in NETWORK_SHAPES["latent"]:
        root = jnp.tile(jnp.asarray(rows[:1]), (batch, 1))
        for policy in POLICIES:
            call = planned(policy, rate, recurrent, root, sims)
            found[Tree(policy.__name__, batch, sims, 1)] = fastest(call)
        for wave in WAVES:
            inputs = torch.from_numpy(np.repeat(rows[:1], batch * wave, axis=0))
            found[Tree("our network alone", batch, sims, wave)] = fastest(
                alone(network, inputs, -(-sims // wave))
            )
            call = ours(model, evaluator, states[0], rows[0], (batch, sims, wave))
            found[Tree("MCTS", batch, sims, wave)] = fastest(call)
    return found


def alone(network: Any, latents: Any, waves: int) -> Any:
    """Return a call of dynamics and prediction as often as a search asks for them."""
    played = torch.zeros(len(latents), dtype=torch.int64)

    def call() -> None:
        with torch.inference_mode():
            for _ in range(waves):
                network.predict(network.step(latents, played).latent)

    return call


def contestants_of(name: str, envs: contextlib.ExitStack) -> dict[Tree, Any]:
    """Return the contestants of a section, `network` or `latent`."""
    torch.set_num_threads(1)  # as in a run: products of this size are slower on two
    return (with_network if name == "network" else with_latents)(envs)
