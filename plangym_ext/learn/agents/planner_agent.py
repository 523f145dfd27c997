"""PlannerAgent: adapter that presents a planner as an agent of samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs, Mode, needed_noise
from plangym_ext.planners.base import Planner
from plangym_ext.planners.episode import PlayableEnv
from plangym_ext.planners.plans import Plan

#: Infos of a step that are counts of a `Budget`.
COST = ("model_steps", "evaluator_rows", "restores")
#: As many bits as a uniform number has.
_SEEDS = 2.0**53


@final
class PlannerAgent(Agent):
    """Plays a planner's plans from the states of the envs.

    An agent is shown observations, a planner needs states: samplers call `visit` with them before
    each step, whose envs must have begun and not ended (`autoreset_mode="same_step"`).

    The infos of a step are what the plans say: "value" `[B]` float64, NaN where it is unknown;
    "model_steps", "evaluator_rows" and "restores" `[B]` int64; and, where actions are Discrete,
    "weights" and "q" `[B, A]` float64, NaN where unknown, and "visits" `[B, A]` int64, -1 where
    there are none, or the planner does not choose by them.

    Args:
        planner: of any kind; it keeps what it keeps from step to step, forgets the rows in which
            an episode begins, and all of them at `set_mode`: a fragment that is played again, or
            after a checkpoint, is the same.
        model: what it steps, such as `plangym_ext.make` returns for the same env.
        network: that is learned, of which the agent has the weights; None: nothing is.
        evaluator: that the planner asks about that network, which says what states are worth.
        make: makes such an agent in another process, without an argument; None: it stays in this
            one.
    """

    looks_at = frozenset({"first"})

    def __init__(
        self,
        planner: Planner,
        model: PlayableEnv,
        *,
        network: Any = None,
        evaluator: Any = None,
        make: Callable[[], PlannerAgent] | None = None,
    ) -> None:
        self.planner, self._model, self._make = planner, model, make
        self.network, self._evaluator = network, evaluator
        self._layout = SpaceLayout(model.action_space)
        space = model.action_space
        self._num_actions = int(space.n) if isinstance(space, spaces.Discrete) else None
        self._states: npt.NDArray[np.uint8] | None = None
        self._num_rows = 0

    def __reduce__(self) -> Any:
        """Travel by what makes it: planners and their models belong to a process.

        Raises:
            WrongKind: nothing makes it elsewhere.
        """
        if self._make is None:
            raise WrongKind(
                "PlannerAgent: it must be made in each process that it plays in, as its model "
                "belongs to this one; it was to travel. Give make, a function that makes it."
            )
        return self._make, ()

    def set_mode(self, mode: Mode) -> None:
        """Change the mode and drop the planner's kept search; see `Agent.set_mode`."""
        super().set_mode(mode)
        self.planner.reset()

    def visit(self, states: npt.NDArray[np.uint8]) -> None:
        """Receive the states `[B, S]` of the next step."""
        self._states = states

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Plan for B rows; see `Agent.step`."""
        noise = needed_noise(inputs, type(self).__name__)
        seeds = (noise.uniform()[:, 0] * _SEEDS).astype(np.uint64)
        states, self._states = self._states, None
        if states is None:  # an example step, before anything is played
            return Acted(self._example(len(seeds)), self._told([None] * len(seeds)), carry)
        if len(states) != len(seeds):
            raise InvalidOption(
                f"PlannerAgent: it plays all {len(states)} rows of its vector env at once; it was "
                f"asked for {len(seeds)}."
            )
        if len(seeds) != self._num_rows:
            # Other rows than before: trees by position would be those of other games.
            self.planner.reset()
        elif np.any(inputs.first):
            self.planner.forget_rows(np.flatnonzero(inputs.first))
        self._num_rows = len(seeds)
        plans = self.planner.plan_batch(
            self._model,
            states,
            rngs=[np.random.default_rng(seed) for seed in seeds],
            obs=inputs.obs,
            legal=inputs.legal,
        )
        return Acted(self._layout.stack([plan.action for plan in plans]), self._told(plans), carry)

    def _example(self, count: int) -> Any:
        """Return actions `[B, *act]` that the space contains."""
        rows = []
        for leaf in self._layout.leaves:
            low, high = leaf.bounds
            least = np.clip(np.zeros(leaf.shape), low, high).astype(leaf.dtype)
            rows.append(np.repeat(least[None], count, axis=0))
        return self._layout.join(tuple(rows))

    def _told(self, plans: Sequence[Plan | None]) -> dict[str, Any]:
        """Return the infos of a step; None stands for an example."""
        info: dict[str, Any] = {
            "value": np.array([np.nan if plan is None else plan.value for plan in plans]),
        }
        for name in COST:
            counts = [0 if plan is None else getattr(plan.budget, name) for plan in plans]
            info[name] = np.array(counts, np.int64)
        if self._num_actions is not None:
            shape = len(plans), self._num_actions
            info |= {"weights": np.full(shape, np.nan), "q": np.full(shape, np.nan)}
            info["visits"] = np.full(shape, -1, np.int64)
            for row, plan in enumerate(plans):
                for name in ("weights", "q", "visits"):
                    found = getattr(plan, name, None)
                    # Counts of what was drawn say nothing of what is good: they are no target.
                    if found is not None and (name != "visits" or plan.chosen_by_visits):  # type: ignore[union-attr]
                        info[name][row] = found
        return info

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return the evaluator's values, `[B]` float32; see `Agent.value`."""
        if self._evaluator is None:
            return super().value(inputs, carry)
        return self._evaluator(inputs.obs)[1]

    def as_planner(self) -> Planner:
        """Return the planner itself."""
        return self.planner

    def state_dict(self) -> dict[str, Any]:
        """Return "version", and the weights of the trained network as arrays by name.

        On the CPU these are the network's own memory: copy them before the next update.
        """
        if self.network is None:
            return super().state_dict()
        # Here: planners without a network do without torch.
        from plangym_ext.learn.networks.state import network_state

        weights = network_state(self.network).items()
        arrays = {name: part.detach().cpu().numpy() for name, part in weights}
        return {**super().state_dict(), "network": arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load version and weights.

        Raises:
            ForeignNetwork: they are of another network; nothing was changed.
        """
        if self.network is not None:
            from plangym_ext.learn.agents.network_agent import as_tensor
            from plangym_ext.learn.networks.state import load_network_state

            weights = {name: as_tensor(part) for name, part in state["network"].items()}
            load_network_state(self.network, weights, "PlannerAgent.load_state_dict")
        super().load_state_dict(state)
