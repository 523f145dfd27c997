import json

import numpy as np

import plangym_ext

actions = np.linspace(-2, 2, 64)[:, None].astype(np.float32)
found = []
for n_workers in (2, None):
    with plangym_ext.make("Pendulum-v1", n_workers=n_workers) as env:
        state, obs, info = env.reset(seed=0)
        found.append(env.step_batch(actions, np.repeat(state[None], 64, axis=0)))
a, b = found
equal = a.obs.tobytes() == b.obs.tobytes() and a.states.tobytes() == b.states.tobytes()
print(json.dumps({"equal": equal, "best": int(a.rewards.argmax())}))
