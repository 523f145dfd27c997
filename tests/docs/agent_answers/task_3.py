import json

import plangym_ext
from plangym_ext.planners import MCTS, play

with plangym_ext.make("CartPole-v1") as env:
    episode = play(env, MCTS(num_simulations=32), seed=0, max_steps=120)
print(
    json.dumps({"return": float(episode.return_), "model_steps": int(episode.budget.model_steps)})
)
