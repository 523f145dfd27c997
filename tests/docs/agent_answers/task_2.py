import json

import numpy as np

import plangym_ext

actions = np.random.default_rng(7).integers(0, 2, (32, 40))
with plangym_ext.make("CartPole-v1") as env:
    state, obs, info = env.reset(seed=5)
    result = env.rollout_batch(actions, np.repeat(state[None], 32, axis=0))
    print(json.dumps({"lengths": result.steps.tolist()}))
