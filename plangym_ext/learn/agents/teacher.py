"""Teacher: planner searches from given states as policy and value targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import IncompleteState
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.planners.base import Planner
from plangym_ext.planners.plans import Budget, Plan


class Lessons(NamedTuple):
    """A teacher's targets for N states; fresh arrays."""

    action: Any  # [N, *act] what it would play, nested as the space
    policy: npt.NDArray[np.float32]  # [N, P] targets of the policy, see Distribution.encode
    value: npt.NDArray[np.float32]  # [N] what the states are worth by the search; NaN: unknown
    cost: npt.NDArray[np.int64]  # [N, 3] model steps, rows of the evaluator, restores


@final
class Teacher:
    """Turns a planner's searches from given states into learning targets.

    A plan's weights are the target of a policy over Discrete actions (the shares of the visits of
    a tree search), its action is where there are none, as of any planner of continuous actions.
    The value at the root is the target of the critic.

    Args:
        planner: of any kind. One that asks a network is made with it, so that it searches with
            what the network knows by now.
        env: that is searched; it remains the caller's.
        distribution: of the policy that is taught.

    Raises:
        IncompleteState: states of the env are not exact.
    """

    def __init__(self, planner: Planner, env: Any, distribution: Distribution) -> None:
        if env.exact is False:
            raise IncompleteState(
                f"Teacher: a planner searches from exact states, and those of {env.name} are not. "
                f"`plangym-ext doctor` says why; learn by another algorithm there."
            )
        self.planner, self.env = planner, env
        self._distribution = distribution
        self._layout = SpaceLayout(env.action_space)

    @property
    def target_width(self) -> int:
        """P, the width of a policy target."""
        return self._distribution.target_width

    def lessons(
        self,
        states: npt.NDArray[np.uint8],
        obs: Any,
        legal: npt.NDArray[np.bool_] | None,
        seeds: npt.NDArray[np.uint64],
    ) -> Lessons:
        """Search from N states of running episodes and return their targets.

        Args:
            states: `[N, S]`.
            obs: `[N, *obs]` of the states.
            legal: `[N, A]`, which actions may be played; None: all.
            seeds: `[N]` of what each search draws.
        """
        plans = self.planner.plan_batch(
            self.env,
            states,
            # One for each state: no search depends on the others of the batch.
            rngs=[np.random.default_rng(seed) for seed in seeds],
            obs=obs,
            legal=legal,
        )
        action = self._layout.stack([plan.action for plan in plans])
        costs = [
            (plan.budget.model_steps, plan.budget.evaluator_rows, plan.budget.restores)
            for plan in plans
        ]
        return Lessons(
            action,
            self._policy(plans, action),
            np.array([plan.value for plan in plans], np.float32),
            np.array(costs, np.int64),
        )

    def _policy(self, plans: Sequence[Plan], action: Any) -> npt.NDArray[np.float32]:
        """Return the targets of the policy, `[N, P]`."""
        weights = [plan.weights for plan in plans if plan.weights is not None]
        if len(weights) < len(plans) or self._distribution.num_actions is None:
            return self._distribution.encode(action)
        return np.stack(weights).astype(np.float32)


def cost_of(lessons: npt.NDArray[np.int64]) -> Budget:
    """Return the joint cost of searches, `[..., 3]`, in the form of `Lessons.cost`."""
    steps, rows, restores = (int(n) for n in lessons.reshape(-1, 3).sum(axis=0))
    return Budget(model_steps=steps, evaluator_rows=rows, restores=restores)
