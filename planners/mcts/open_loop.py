"""OpenLoopMCTS: tree search over action sequences, for stochastic envs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import mapped, rows_of
from plangym_ext.core.options import Count, Function, OneOf
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import UNBOUNDED
from plangym_ext.planners.compiled.search import CompiledSearch
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.masks import action_masks, has_masks
from plangym_ext.planners.mcts.bandit import WidenedSearch
from plangym_ext.planners.mcts.open_expansions import Expansions, QFunction
from plangym_ext.planners.plans import Plan
from plangym_ext.planners.rating import Leaves, check_finite
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng, States
from plangym_ext.planners.trees.chance import backup_rewards
from plangym_ext.planners.trees.selection import select_wave
from plangym_ext.planners.trees.sts_kernels import new_descent, observed, select_frontier
from plangym_ext.planners.trees.tree import (
    OPEN,
    PENDING,
    ROOT,
    TERMINATED,
    TRUNCATED,
    UNSEEN,
    Tree,
    deepest,
    restrict_prior,
)

# states [n, S] and a generator -> the same states with other chances to come
Resample = Annotated[Callable[[States, Rng], States], Function("a function of states")]


@dataclass(eq=False, kw_only=True)
class OpenLoopMCTS(WidenedSearch):
    """Open-loop tree search over action sequences, for stochastic envs.

    For envs of chance, whose states are dear to store, or where a plan may not know what chance
    will bring.

    A node stands for the actions that lead to it and stores no state: a simulation
    plays them anew from the root, and backs up the rewards of this very time. What a
    node is worth is thus a mean over chance. An ending ends the simulation, wherever
    in the tree it falls. A simulation costs as many steps as it is deep.

    States hold the env's random generator, so replaying one gives the same again.
    `resample` is what makes chance; without it this is closed-loop search that keeps
    no states, at the price of the steps. With it a node has no one state to ask: its prior
    is that of the first one it is reached in, before which simulations end there, and in the
    tree masks other than the root's are not looked at. Trees are not kept between moves.

    With `num_expansions` a simulation goes on from its leaf as one of `STS` does: it gives a node
    all its children, descends into the child that the rule selects, H times, and backs up the
    return of the last one. A child counts as visited once by what it is rated: by a step into it
    and the rating there, or by a `q_function`, which takes no steps. Nothing is stepped or credited
    beyond the last expansion, and the value of an ending is its reward (Alpacka's code goes a step
    too far, and backs up a stale value there).

    Args:
        num_expansions: H, nodes expanded in a row by one simulation; None: one child a
            simulation, or 1 with a `q_function`. Not where actions are sampled.
        q_function: `obs [L, *obs] -> [L, A]`, what actions are worth, rewards included. There are
            no rollouts then; of an evaluator the prior is used. Masks as with `resample`.
        resample: `states [n, S], rng -> states [n, S]` with the env's random numbers
            drawn anew, such as `env.reseeded`; None leaves them as they are.
        max_depth: most actions of a sequence; a simulation that has played as many ends there.
            None: no limit.

    Source: Perez et al. 2015, "Open loop search for general video game playing";
    Alpacka's StochasticMCTS.
    """

    num_expansions: Count | None = None
    q_function: Annotated[QFunction | None, Function()] = None
    resample: Resample | None = None
    max_depth: Count | None = None
    # A node's reward differs between simulations: there is no branch to replay.
    choice: Annotated[str, OneOf(("visits", "value"))] = "visits"

    def __post_init__(self) -> None:
        if self.q_function is not None:
            self.rollout_depth, self.num_expansions = (
                self.rollout_depth or 0,
                self.num_expansions or 1,
            )
        super().__post_init__()
        if self.q_function is not None and self.rollout_depth:
            raise InvalidOption(
                f"OpenLoopMCTS: rollout_depth must be 0 with q_function, which replaces rollouts; "
                f"got {self.rollout_depth}."
            )
        if self.keep_tree:
            raise InvalidOption(
                "OpenLoopMCTS: keep_tree must be False, as an open-loop node has no state that "
                "could be compared with the env's next state. MCTS can keep its tree."
            )

    def _own_settings(self) -> dict[str, Any]:
        """Return that nodes have no states: only the roots' are kept."""
        return super()._own_settings() | {"stores_states": False}

    def _nodes_per_simulation(self, num_actions: int) -> int:
        """Return 1, the leaf, or the children of every expansion."""
        return num_actions * self.num_expansions if self.num_expansions else 1

    def _first_nodes(self, num_actions: int) -> int:
        """Return how many nodes the first expansion adds."""
        return num_actions if self.num_expansions else 1

    def _nodes_per_step(self) -> int:
        """Return how many nodes a step adds at most; with a Q function they take none."""
        return UNBOUNDED if self.q_function else 1

    def _plan_batch(self, request: PlanRequest) -> list[Plan]:
        """Grow B trees; a Q function is asked about the roots as well."""
        if self.num_expansions and getattr(request.env, "samples_actions", False):
            raise InvalidOption(
                f"OpenLoopMCTS: num_expansions must be None where actions are sampled, as a node "
                f"has all its children at once; got {self.num_expansions}."
            )
        self._root_obs = request.needed_obs("q_function") if self.q_function else request.obs
        return super()._plan_batch(request)

    def _compiled(self, search: Search) -> CompiledSearch | None:  # noqa: ARG002
        """Return None: sequences are not replayed in compiled code."""
        return None

    def _wave_of(self, search: Search) -> Callable[[], bool]:
        return functools.partial(self._expanding if self.num_expansions else self._wave, search)

    def _wave(self, search: Search) -> bool:
        """Choose, replay, rate and back up a wave; return False if there was none left."""
        tree, settings = search.tree, search.settings
        least = 1 + search.rater.most_steps
        # No walk of this wave goes further than one step beyond its tree's deepest node.
        cost = least + _depths(tree)
        limits = np.minimum(settings.wave_size, search.allowance(cost, least))
        rows, leaves = np.empty((2, max(0, int(limits.sum()))), np.int32)
        count = select_wave(tree, limits, settings.selection, search.halving, rows, leaves)
        if count == 0:
            return False
        rows, leaves = rows[:count], leaves[:count]
        played = self._replay(search, rows, leaves)
        value, prior = _rated(search, rows, played)
        if self.resample is None:
            _fill_in(tree, rows, leaves, played, value, prior)
        else:
            _fill_in_by_chance(search, rows, leaves, played, value, prior)
        if self.max_depth is not None:
            # Nothing is selected below a node that counts as cut; it is replayed like any other.
            ends = [
                len(_path(tree, int(b), int(n))) >= self.max_depth
                for b, n in zip(rows, leaves, strict=True)
            ]
            last = np.flatnonzero(ends)
            cut = last[tree.kind[rows[last], leaves[last]] != TERMINATED]
            tree.kind[rows[cut], leaves[cut]] = TRUNCATED
        backup_rewards(tree, rows, leaves, played.rewards, played.steps, value, settings.discount)
        search.done += np.bincount(rows, minlength=len(search.done))
        search.full = tree.size == settings.capacity
        return True

    def _expanding(self, search: Search) -> bool:
        """Choose, replay, expand and back up a wave; return False if there was none left."""
        tree, settings, rater = search.tree, search.settings, search.rater
        num_actions, most = tree.order.shape[1], self.num_expansions or 1
        least = most if self.q_function else most * num_actions * (1 + rater.most_steps)
        least += rater.most_steps
        allowed = search.allowance(least + _depths(tree), least)
        limits = np.where(search.full, 0, np.minimum(settings.wave_size, allowed))
        descent = new_descent(max(0, int(limits.sum())), num_actions)
        how = settings.selection, None, None
        count = select_frontier(tree, limits, *how, descent.rows, descent.leaves)
        if count == 0:
            return False
        rows, leaves = descent.rows[:count], descent.leaves[:count]
        played = self._replay(search, rows, leaves)
        shots = Expansions(
            search,
            self.q_function,
            self.resample is not None,
            descent,
            steps=played.steps,
            rewards=np.pad(played.rewards, ((0, 0), (0, most))),
            states=played.states,
            obs=played.obs,
        )
        going = np.flatnonzero(~played.terminated)
        deep = UNBOUNDED if self.max_depth is None else self.max_depth
        nothing = ~tree.legal[rows, leaves].any(axis=1)
        stays = (played.truncated | nothing | (played.steps >= deep))[going]
        shots.arrive(going, played.truncated[going], stays)
        going = going[~stays]
        counts = np.ones(count, np.bool_)
        counts[going] = False
        for step in range(most):
            found, children = shots.expand(going)
            if step == 0:
                counts[found] = True
            further = shots.steps[found] + 1 < deep
            going = shots.move(found[further], children[further]) if step < most - 1 else going[:0]
        # Those that found no room are no simulations.
        observed(tree, rows[~counts], leaves[~counts], int(count - counts.sum()))
        shots.back_up(counts)
        search.done += np.bincount(rows[counts], minlength=len(search.done))
        return bool(counts.any())

    def _replay(
        self, search: Search, rows: npt.NDArray[np.int32], leaves: npt.NDArray[np.int32]
    ) -> Replay:
        """Play the actions that lead to L nodes, one `rollout_batch` for each depth."""
        paths = [_path(search.tree, int(b), int(n)) for b, n in zip(rows, leaves, strict=True)]
        depths = np.array([len(path) for path in paths])
        roots = search.states.get(rows, np.zeros(len(rows), np.int64))
        if self.resample is not None:
            for b in np.unique(rows).tolist():
                roots[rows == b] = self.resample(roots[rows == b], search.rngs[b])
        if not depths.any():
            # The first wave of an expanding search: all are at their roots.
            seen = None if self._root_obs is None else rows_of(self._root_obs, rows)
            none, no = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.bool_)
            return Replay(roots, seen, np.zeros((len(rows), 0)), none, no, no, ~no, None)
        parts = []
        # `rollout_batch` plays as many actions in every row: one batch for each length.
        for depth in np.unique(depths):
            own = np.flatnonzero(depths == depth)
            actions = np.array([paths[i] for i in own], np.int64) + search.first_action
            parts.append((own, search.model.rollout_batch(actions, roots[own])))
        # Where row i of the wave is among the results, which lie by depth.
        order = np.argsort(np.concatenate([own for own, _ in parts]))
        rewards = np.zeros((len(rows), depths.max()))
        for own, out in parts:
            check_finite(f"{type(self).__name__}: rewards", np.ravel(out.rewards))
            rewards[own, : out.rewards.shape[1]] = out.rewards

        def joined(name: str) -> Any:
            return np.concatenate([getattr(out, name) for _, out in parts])[order]

        steps = joined("steps")
        search.costs.add(rows, model_steps=steps, expansions=1, restores=1)
        return Replay(
            joined("states"),
            mapped(lambda *of: np.concatenate(of)[order], *(out.obs for _, out in parts)),
            rewards,
            steps,
            joined("terminateds"),
            joined("truncateds"),
            steps == depths,
            _joined_masks(search, [out for _, out in parts], order),
        )


class Replay(NamedTuple):
    """Results of L replays."""

    states: States  # [L, S] after the last step taken
    obs: Any  # [L, *obs]
    rewards: npt.NDArray[np.float64]  # [L, D], zero after an ending
    steps: npt.NDArray[np.int32]  # [L] steps taken
    terminated: npt.NDArray[np.bool_]  # [L]
    truncated: npt.NDArray[np.bool_]  # [L]
    reached: npt.NDArray[np.bool_]  # [L] whether all actions could be played
    legal: npt.NDArray[np.bool_] | None  # [L, A] after them, if the env says so


def _fill_in(
    tree: Tree,
    rows: npt.NDArray[np.int32],
    leaves: npt.NDArray[np.int32],
    played: Replay,
    value: npt.NDArray[np.float64],
    prior: npt.NDArray[np.float32],
) -> None:
    """Write what is known of new nodes: without chance that is as in closed-loop search."""
    kind = np.full(len(rows), OPEN, np.uint8)
    kind[played.truncated], kind[played.terminated] = TRUNCATED, TERMINATED
    new = tree.kind[rows, leaves] == PENDING
    at = rows[new], leaves[new]
    tree.kind[at], tree.value[at], tree.legal[at] = kind[new], value[new], True
    tree.prior[at] = prior[new]
    if played.legal is not None:
        tree.legal[at] = played.legal[new]
        for b, node in zip(*at, strict=True):
            restrict_prior(tree, b, node)


def _fill_in_by_chance(
    search: Search,
    rows: npt.NDArray[np.int32],
    leaves: npt.NDArray[np.int32],
    played: Replay,
    value: npt.NDArray[np.float64],
    prior: npt.NDArray[np.float32],
) -> None:
    """Write what is known of new nodes, and of those that were reached for the first time."""
    tree = search.tree
    new = tree.kind[rows, leaves] == PENDING
    at = rows[new], leaves[new]
    # A node that chance kept the simulation from is as good as its parent.
    guess = np.where(played.reached, value, tree.q[rows, tree.parent[rows, leaves]])
    tree.value[at], tree.legal[at], tree.prior[at] = guess[new], True, 1.0 / tree.prior.shape[2]
    # Where there are no priors, nothing is to be waited for.
    tree.kind[at] = UNSEEN if search.has_priors else OPEN
    # What chance kept the simulation from, or ended there, has shown no state that goes on.
    seen = played.reached & ~played.terminated & (tree.kind[rows, leaves] == UNSEEN)
    # Backwards: of several simulations of a wave that reach a node the first one is written last.
    found = np.flatnonzero(seen)[::-1]
    at = rows[found], leaves[found]
    tree.kind[at], tree.value[at], tree.prior[at] = OPEN, value[found], prior[found]


def _depths(tree: Tree) -> npt.NDArray[np.int64]:
    """Return the depth of the deepest node of each tree, `[B]`."""
    depths = np.empty(len(tree.size), np.int64)
    deepest(tree, depths, np.empty(tree.parent.shape[1], np.int64))
    return depths


def _path(tree: Tree, b: int, node: int) -> list[int]:
    """Return the actions from the root of tree b to a node."""
    actions: list[int] = []
    while node != ROOT:
        actions.append(int(tree.action[b, node]))
        node = int(tree.parent[b, node])
    return actions[::-1]


def _joined_masks(
    search: Search, parts: list[Any], order: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_] | None:
    """Return `[L, A]` what the states after the replays allow, None if the env does not say."""
    if not any(has_masks(out.infos) for out in parts):
        return None
    num_actions = search.tree.order.shape[1]
    masks = [
        action_masks(out.infos, np.asarray(out.terminateds | out.truncateds), num_actions)
        for out in parts
    ]
    joined: npt.NDArray[np.bool_] = np.concatenate(masks)[order]
    return joined


def _rated(
    search: Search, rows: npt.NDArray[np.int32], played: Replay
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    """Return `[L]` what is expected after each replay, and `[L, A]` the prior there.

    Where it was terminated that is 0 and a uniform one.
    """
    num_actions = search.tree.order.shape[1]
    value = np.zeros(len(rows))
    prior = np.full((len(rows), num_actions), 1.0 / num_actions, np.float32)
    on = np.flatnonzero(~played.terminated)
    if on.size:
        legal = None if played.legal is None else played.legal[on]
        leaves = Leaves(
            rows[on], played.states[on], rows_of(played.obs, on), played.truncated[on], legal
        )
        rating = search.rate(leaves)
        value[on] = rating.value
        if rating.prior is not None:
            prior[on] = rating.prior
    return value, prior
