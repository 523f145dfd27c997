import json

import plangym_ext
from plangym_ext.planners import CEM, MPPI

used = {}
for name, cls in (("cem", CEM), ("mppi", MPPI)):
    with plangym_ext.make("Pendulum-v1") as env:
        state, obs, info = env.reset(seed=0)
        plan = cls(max_model_steps=600).plan(env, state, rng=0)
        used[name] = int(plan.budget.model_steps)
print(json.dumps(used))
