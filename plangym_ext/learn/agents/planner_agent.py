"""PlannerAgent: adapter that presents a planner as an agent of samplers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.nested import leaves, rows_of, write_rows
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.numbers import check_kind
from plangym_ext.errors import IncompleteState, InvalidOption, WrongKind
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs, Mode, needed_noise
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.planners.base import Planner
from plangym_ext.planners.episode import PlayableEnv
from plangym_ext.planners.plans import Plan

#: Infos of a step that are counts of a `Budget`.
COST = ("model_steps", "expansions", "evaluator_rows", "restores")
States = npt.NDArray[np.uint8]  # [N, S]
Infos = dict[str, Any]
Seeds = npt.NDArray[np.uint64]  # [N]
#: As many bits as a uniform number has.
_SEEDS = 2.0**53


@final
class PlannerAgent(Agent):
    """Plays a planner's plans from the states of the envs.

    An agent is shown observations, a planner needs states: samplers call `visit` with them before
    each step, whose envs must have begun and not ended (`autoreset_mode="same_step"`).

    The infos of a step are what the plans say: "value" `[B]` float64, NaN where it is unknown;
    "depth" `[B]` float64, of the search tree or the sequence of actions, NaN where it is unknown;
    "model_steps", "expansions", "evaluator_rows" and "restores" `[B]` int64; and, where actions are
    Discrete, "weights" and "q" `[B, A]` float64, NaN where unknown, and "visits" `[B, A]` int64, -1
    where there are none, or the planner does not choose by them.

    With a student the planner is a teacher: it is asked in every state that is visited, and each
    step of each row is its own with the probability `share`, the student's otherwise (DAgger's
    mixture). The infos are then the counts, "value" `[B]` float32 of the student, if it has
    values, and targets for it: "expert_policy" `[B, P]` float32, "expert_value" `[B]` float32,
    NaN where the plan knows none, and "expert_played" `[B]` bool. The target of a policy over
    Discrete actions are the plan's weights (the shares of the visits of a tree search); its action
    where there are none, as of any planner of continuous actions.

    Source: Ross, Gordon & Bagnell 2011, "A reduction of imitation learning and structured
    prediction to no-regret online learning"; Anthony, Tian & Barber 2017, "Thinking fast and
    slow with deep learning and tree search".

    Args:
        planner: of any kind; it keeps what it keeps from step to step, forgets the rows in which
            an episode begins, and all of them at `set_mode`: a fragment that is played again, or
            after a checkpoint, is the same. A planner with a network as evaluator holds that
            network, so that it searches with its present weights.
        model: what it steps, such as `plangym_ext.make` returns for the same env.
        student: that is taught; carries nothing. None: the planner plays alone.
        network: that is learned, of which the agent has the weights; None: nothing is.
        evaluator: that the planner asks about that network, which says what states are worth.
        make: makes such an agent in another process, without an argument; None: it stays in this
            one.

    Attributes:
        share: in [0, 1], how likely a step is the planner's, with a student.
        visited: states `[B, S]` of all steps since it was cleared; None: they are not kept.

    Raises:
        IncompleteState: states of the model are not exact.
    """

    def __init__(
        self,
        planner: Planner,
        model: PlayableEnv,
        *,
        student: Any = None,
        network: Any = None,
        evaluator: Any = None,
        make: Callable[[], PlannerAgent] | None = None,
    ) -> None:
        if getattr(model, "exact", None) is False:
            name = getattr(model, "name", type(model).__name__)
            raise IncompleteState(
                f"PlannerAgent: a planner searches from exact states, and those of {name} are "
                f"not. `plangym-ext doctor` says why. Choose an algorithm without a planner."
            )
        self.planner, self._model, self._make = planner, model, make
        self.student, self.network, self._evaluator = student, network, evaluator
        self.looks_at = frozenset({"first"}) | (student.looks_at if student else frozenset())
        self.share = 0.0
        if not callable(getattr(planner, "plan_batch", None)):
            raise WrongKind(f"PlannerAgent: planner: expected a Planner; got {planner!r:.80}.")
        space: Any = getattr(model, "action_space", None)
        check_kind("PlannerAgent: model", space, spaces.Space, "an env with an action space")
        self._layout = SpaceLayout(space)
        self._num_actions = int(space.n) if isinstance(space, spaces.Discrete) else None
        self.visited: list[States] | None = None
        self._states: States | None = None
        self._num_rows = 0

    def __reduce__(self) -> Any:
        """Travel by what makes it: planners and their models belong to a process.

        Raises:
            WrongKind: nothing makes it elsewhere.
        """
        if self._make is None:
            raise WrongKind(
                "PlannerAgent: it cannot be sent to another process, as its model belongs to this "
                "one. Pass `make`, a function that makes it in each process."
            )
        return self._make, ()

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Refuse spaces that the student was not made for."""
        if self.student is not None:
            self.student.check_spaces(observation_space, action_space)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode and drop the planner's kept search; see `Agent.set_mode`."""
        super().set_mode(mode)
        self.planner.reset()
        if self.student is not None:
            self.student.set_mode(mode)

    def visit(self, states: States) -> None:
        """Take the states `[B, S]` from which the next `step` plans."""
        self._states = states
        if self.visited is not None:
            self.visited.append(states)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        acted = None if self.student is None else self.student.step(inputs, carry)
        # After the student's own numbers, and as many in each step, played or not.
        drawn = needed_noise(inputs, type(self).__name__).uniform(1 if acted is None else 2)
        seeds = (drawn[:, 0] * _SEEDS).astype(np.uint64)
        states, self._states = self._states, None
        if states is None:  # an example step, before anything is played
            action, info = self._example(len(seeds)), self._told([None] * len(seeds))
        else:
            if len(states) != len(seeds):
                raise _not_all_rows(len(states), len(seeds))
            if len(seeds) != self._num_rows:
                # Other rows than before: trees by position would be those of other games.
                self.planner.reset()
            elif np.any(inputs.first):
                self.planner.forget_rows(np.flatnonzero(inputs.first))
            self._num_rows = len(seeds)
            action, info = self.search(states, inputs.obs, inputs.legal, seeds)
        if acted is None:
            return Acted(action, info, carry)
        return self._mixed(acted, drawn[:, 1] < self.share, action, info)

    def _mixed(self, acted: Acted, played: Any, action: Any, info: dict[str, Any]) -> Acted:
        """Return the student's step, with the planner's actions in the rows that it plays."""
        mixed = acted.action  # the student's own copy
        write_rows(mixed, played, rows_of(action, played))
        # A kept subtree belongs to the search's own action.
        self.planner.forget_rows(np.flatnonzero(_differs(mixed, action)))
        info |= {name: rows for name, rows in acted.info.items() if name == "value"}
        return Acted(mixed, {**info, "expert_played": played}, acted.carry)

    def search(self, states: States, obs: Any, legal: Any, seeds: Seeds) -> tuple[Any, Infos]:
        """Search from N states of running episodes.

        Args:
            states: `[N, S]`.
            obs: `[N, *obs]` of the states.
            legal: `[N, A]`, which actions may be played; None: all.
            seeds: `[N]` of what each search draws.

        Returns:
            The actions `[N, *act]`, and the infos that the class names; fresh arrays.
        """
        # One for each state: no search depends on the others of the batch.
        rngs = [np.random.default_rng(seed) for seed in seeds]
        self.planner.updates = self.version
        plans = self.planner.plan_batch(self._model, states, rngs=rngs, obs=obs, legal=legal)
        return self._layout.stack([plan.action for plan in plans]), self._told(plans)

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
        info: dict[str, Any] = {}
        for name in COST:
            counts = [0 if plan is None else getattr(plan.budget, name) for plan in plans]
            info[name] = np.array(counts, np.int64)
        # Of a tree, or of the sequence that is played; numpy makes NaN of None.
        ahead = [
            plan and (plan.depth if plan.actions is None else len(plan.actions)) for plan in plans
        ]
        info["depth"] = np.array(ahead, np.float64)
        value = np.array([np.nan if plan is None else plan.value for plan in plans])
        if self.student is not None:
            known = value.astype(np.float32)
            return info | {"expert_policy": self._policy(plans), "expert_value": known}
        info["value"] = value
        if self._num_actions is not None:
            shape = len(plans), self._num_actions
            info |= {"weights": np.full(shape, np.nan), "q": np.full(shape, np.nan)}
            info["visits"] = np.full(shape, -1, np.int64)
            for row, plan in enumerate(plans):
                for name in ("weights", "q", "visits"):
                    found = getattr(plan, name, None)
                    # Counts of draws do not depend on returns: they are no target.
                    if found is not None and (name != "visits" or plan.chosen_by_visits):  # type: ignore[union-attr]
                        info[name][row] = found
        return info

    def _policy(self, plans: Sequence[Plan | None]) -> npt.NDArray[np.float32]:
        """Return the targets of the student's policy, `[N, P]`, as `Distribution.encode` does."""
        taught: Distribution = self.student.distribution
        known = [plan for plan in plans if plan is not None]
        if not known:
            return np.zeros((len(plans), taught.target_width), np.float32)
        if taught.num_actions is None or any(plan.weights is None for plan in known):
            return taught.encode(self._layout.stack([plan.action for plan in known]))
        return np.stack([plan.weights for plan in known]).astype(np.float32)  # type: ignore[misc]

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return `[B]` float32, values of the student or the evaluator; see `Agent.value`."""
        if self.student is not None:
            return self.student.value(inputs, carry)
        if self._evaluator is None:
            return super().value(inputs, carry)
        return self._evaluator(inputs.obs)[1]

    def as_planner(self) -> Any:
        """Return the planner; with a student, a planner that plays the student without a search."""
        return self.planner if self.student is None else self.student.as_planner()

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


def _not_all_rows(count: int, asked: int) -> InvalidOption:
    return InvalidOption(
        f"PlannerAgent: it plays all {count} rows of its vector env at once; it was asked for "
        f"{asked}."
    )


def _differs(mine: Any, theirs: Any) -> npt.NDArray[np.bool_]:
    """Return `[B]`, whether two actions are unlike."""
    parts = zip(leaves(mine), leaves(theirs), strict=True)
    return np.any([(a != b).reshape(len(a), -1).any(axis=1) for a, b in parts], axis=0)
