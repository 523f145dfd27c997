"""A network learns CartPole from searches of 16 simulations a move, then plays alone.

`python cartpole_from_planning.py` takes about a minute on two processors.
`ROUNDS=2` in the environment makes it a short trial.
"""

import os
import tempfile

from plangym_ext.run import Runner, Trained, compose

rounds = int(os.environ.get("ROUNDS", "400"))
folder = tempfile.mkdtemp()

# A preset, and over it what should differ: the same keys as on the command line.
config = compose(["cartpole", {"rounds": rounds, "seed": 1}])
with Runner(config, folder, show=True) as runner:
    runner.run()
    print(f"{runner.steps} moves, {runner.algorithm.updates} updates")

# The network alone: no search, no model.
with Trained(folder, player="network", seed=123) as trained:
    returns = [episode.return_ for episode in trained.play(20)]
    print(f"alone: mean return {sum(returns) / len(returns):.1f}")

# The same network inside a search.
with Trained(folder, player="planner", seed=123) as trained:
    returns = [episode.return_ for episode in trained.play(4)]
    print(f"with search: mean return {sum(returns) / len(returns):.1f}")
