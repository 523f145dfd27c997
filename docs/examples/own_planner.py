"""A planner of one's own: random rollouts, judged by their first action."""

from dataclasses import dataclass

import numpy as np

import plangym_ext
from plangym_ext.planners import MCTS, Budget, Plan, Planner, play


@dataclass(eq=False, kw_only=True)
class Lookahead(Planner):
    """Random rollouts from each action; the action with the best mean return is played.

    Args:
        depth: steps of a rollout.
    """

    depth: int = 20

    def _plan_batch(self, request):
        num_actions, first = request.discrete_actions()
        # As many rollouts as `num_simulations` and `max_model_steps` pay for, options of every
        # planner; None where time alone limits a plan.
        rollouts = self._affordable(self.depth) or self.default_simulations
        each = max(1, rollouts // num_actions)
        plans = []
        for state, rng in zip(request.states, request.rngs, strict=True):
            actions = rng.integers(num_actions, size=(each * num_actions, self.depth))
            actions[:, 0] = np.tile(np.arange(num_actions), each)
            states = np.repeat(state[None], len(actions), axis=0)
            played = request.env.rollout_batch(first + actions, states)
            returns = played.rewards.sum(axis=1).reshape(each, num_actions).mean(axis=0)
            best = int(returns.argmax())
            cost = Budget(model_steps=int(played.steps.sum()), restores=len(actions))
            plans.append(Plan(first + best, float(returns[best]), cost, q=returns))
        return plans


def main():
    """Play an episode with it and one with tree search, at equal cost."""
    with plangym_ext.make("CartPole-v1") as env:
        for planner in (Lookahead(max_model_steps=400), MCTS(max_model_steps=400)):
            episode = play(env, planner, seed=0, max_steps=100)
            print(type(planner).__name__, episode.return_, episode.budget.model_steps)


if __name__ == "__main__":
    main()
