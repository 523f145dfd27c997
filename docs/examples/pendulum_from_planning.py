"""A planner of continuous actions teaches a network to swing up a pendulum, which then plays alone.

`python pendulum_from_planning.py` takes about a minute on two processors.
`ROUNDS=2` in the environment makes it a short trial.
"""

import os
import tempfile

from plangym_ext.run import Runner, Trained, compose

rounds = int(os.environ.get("ROUNDS", "60"))
folder = tempfile.mkdtemp()

# At first the teacher plays, at last the student; the teacher searches from all states of both.
config = compose(["expert_pendulum", {"rounds": rounds, "seed": 1}])
with Runner(config, folder, show=True) as runner:
    runner.run()
    print(f"{runner.steps:,} steps played, {runner.algorithm.steps:,} with those of searches")

# The network alone: no search, no model.
with Trained(folder, seed=123) as trained:
    returns = [episode.return_ for episode in trained.play(20)]
    print(f"alone: mean return {sum(returns) / len(returns):.1f}")
