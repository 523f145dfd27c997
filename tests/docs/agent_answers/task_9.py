import json
from dataclasses import dataclass

import numpy as np

import plangym_ext
from plangym_ext.planners import Budget, Plan, Planner, play


@dataclass(eq=False, kw_only=True)
class Own(Planner):
    """Each action, continued by random actions; the best mean return is played.

    Args:
        repeats: continuations of each action.
        depth: random steps of a continuation.
    """

    repeats: int = 10
    depth: int = 15

    def _plan_batch(self, request):
        num_actions, first = request.discrete_actions()
        plans = []
        for state, rng in zip(request.states, request.rngs, strict=True):
            rows = num_actions * self.repeats
            actions = rng.integers(num_actions, size=(rows, 1 + self.depth))
            actions[:, 0] = np.repeat(np.arange(num_actions), self.repeats)
            played = request.env.rollout_batch(
                first + actions, np.repeat(state[None], rows, axis=0)
            )
            q = played.rewards.sum(axis=1).reshape(num_actions, self.repeats).mean(axis=1)
            best = int(q.argmax())
            cost = Budget(model_steps=int(played.steps.sum()), restores=rows)
            plans.append(Plan(first + best, float(q[best]), cost, q=q))
        return plans


with plangym_ext.make("CartPole-v1") as env:
    episode = play(env, Own(), seed=0, max_steps=60)
print(json.dumps({"return": float(episode.return_)}))
