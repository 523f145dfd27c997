import json

import numpy as np

from plangym_ext.run import Runner, Trained, compose

small = {"collector": {"num_envs": 4}}
with Runner(compose(["ppo_cartpole", small, {"rounds": 2}]), "run") as runner:
    runner.run()
with Runner(compose(["ppo_cartpole", small, {"rounds": 4}]), "run", resume=True) as runner:
    runner.run()
    rounds = runner.round
with Trained("run") as trained:
    returns = [episode.return_ for episode in trained.play(3)]
print(json.dumps({"rounds": int(rounds), "mean_return": float(np.mean(returns))}))
