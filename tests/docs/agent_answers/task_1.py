import json

import numpy as np

import plangym_ext

with plangym_ext.make("CartPole-v1") as env:
    state, obs, info = env.reset(seed=3)
    result = env.step_batch(np.arange(16) % 2, np.repeat(state[None], 16, axis=0), dt=4)
    print(json.dumps({"obs": result.obs.tolist(), "reward": float(result.rewards.sum())}))
