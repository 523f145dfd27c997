"""A search whose model steps run on a Ray cluster: here one that is started on this machine."""

import numpy as np

import plangym_ext
from plangym_ext.planners import MCTS

with plangym_ext.make("CartPole-v1", backend="ray", n_workers=2) as env:
    state, *_ = env.reset(seed=0)
    states = [state] * 4
    rngs = [np.random.default_rng(seed) for seed in range(4)]
    plans = MCTS(num_simulations=20).plan_batch(env, np.stack(states), rngs=rngs)
    for actor in env.pool.actors:
        print(f"actor {actor.index}: {actor.description['backend']} backend")
print("actions", [int(plan.action) for plan in plans])
