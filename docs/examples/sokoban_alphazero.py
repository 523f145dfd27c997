"""AlphaZero on Sokoban: a policy and a value learn from each other through the search.

`python sokoban_alphazero.py` trains for some minutes on two processors.
`ROUNDS=2` in the environment makes it a short trial.
"""

import os
import tempfile

from plangym_ext.run import Runner, Trained, compose

rounds = int(os.environ.get("ROUNDS", "300"))
levels = min(20, rounds)
folder = tempfile.mkdtemp()

# The preset has a value network and Shoot Tree Search. A planner or algorithm of another
# name begins with its own defaults; all else stays.
alphazero = {
    "planner": {
        "name": "mcts",
        "num_simulations": 48,
        "wave_size": 8,
        "discount": 0.97,
        "root_noise": 0.25,
        "dirichlet_alpha": 0.5,
        "temperature": 1.0,
    },
    "agent": {"heads": ["policy", "value"]},
    "algorithm": {"name": "alphazero", "discount": 0.97, "capacity": 30_000},
    "evaluation": {"every": 0},
    "rounds": rounds,
}
with Runner(compose(["sokoban_6x6", alphazero]), folder, show=True) as runner:
    runner.run()

for player in ("network", "planner"):
    with Trained(folder, player=player) as trained:
        episodes = trained.play(levels)
        solved = sum(episode.terminated for episode in episodes) / len(episodes)
        print(f"{player}: {solved:.0%} of {levels} new levels solved")
