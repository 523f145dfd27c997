"""Playouts: random or policy rollouts from states, with discounted returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import mapped, rows_of, write_rows
from plangym_ext.core.compiling.jit import kernel
from plangym_ext.core.masks import MASK
from plangym_ext.errors import InvalidObservation
from plangym_ext.planners.masks import action_masks, discrete_actions, has_masks, weights_over_legal
from plangym_ext.planners.players import num_players, player_swaps
from plangym_ext.planners.rating import Evaluator, Policy, check_prior, evaluate
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.simulator import Rng, Rollout, SearchModel, States


class Starts(NamedTuple):
    """n start states of playouts, grouped by plan."""

    rows: npt.NDArray[np.integer[Any]]  # [n] plan of each, ascending
    states: States  # [n, S]
    obs: Any  # [n, *obs]; only a policy looks at it
    first: npt.NDArray[np.int64] | None = None  # [n] index of the first action; None: drawn too
    legal: npt.NDArray[np.bool_] | None = None  # [n, A] if the env says what states allow


def starts_from(
    request: PlanRequest,
    rows: npt.NDArray[np.integer[Any]],
    first: npt.NDArray[np.int64] | None,
    policy: Policy | None,
) -> Starts:
    """Return the starts of n playouts from the states of a plan request.

    Args:
        request: the states, and what is known of them.
        rows: `[n]` which state each begins in, ascending.
        first: `[n]` its first action; None: drawn too.
        policy: what draws the actions.
    """
    obs = None if policy is None else rows_of(request.needed_obs("a rollout_policy"), rows)
    # Where the env says what later states allow, playouts have to go step by step from the first.
    told = request.legal is not None or getattr(request.env, "tells_masks", False)
    legal = request.masks()[rows] if told else None
    return Starts(rows, request.states[rows], obs, first, legal)


class Playouts(NamedTuple):
    """Results of n playouts."""

    first: npt.NDArray[np.int64]  # [n] index of the first action
    rewards: npt.NDArray[np.float64]  # [n, depth], zero after an ending; of who moves first
    obs: Any  # [n, *obs] after the last step taken
    terminateds: npt.NDArray[np.bool_]  # [n]
    steps: npt.NDArray[np.int32]  # [n] steps taken
    restores: npt.NDArray[np.int64]  # [n]
    evaluator_rows: npt.NDArray[np.int64]  # [n] observations shown to the policy
    signs: npt.NDArray[np.float64] | None = None  # [n] -1: the other player moves next; None: one
    legal: npt.NDArray[np.bool_] | None = None  # [n, A] after the last step; None: all


def play_out(
    model: SearchModel, starts: Starts, depth: int, rngs: Sequence[Rng], policy: Policy | None
) -> Playouts:
    """Play `depth` steps from every state, or until an ending.

    The playout of a state depends only on the states of the same plan and on `rngs[its row]`.

    Args:
        model: what to step.
        starts: where to begin; at least one.
        depth: most steps, at least 1.
        rngs: one generator per plan.
        policy: draws the actions, uniformly where it gives no legal one any weight; None:
            uniformly from the legal ones, step by step if there are masks or two players and in
            one `rollout_batch` otherwise. A playout ends in a state that allows nothing.
    """
    num_actions, origin = discrete_actions(model.action_space, "rollouts")
    if policy is not None:
        return _by_policy(model, starts, depth, rngs, policy)
    if starts.legal is not None or num_players(model) == 2:
        return _among_legal(model, starts, depth, rngs)
    counts = np.bincount(starts.rows)
    actions = np.concatenate(
        [
            rngs[b].integers(num_actions, size=(counts[b], depth))
            for b in np.flatnonzero(counts).tolist()
        ]
    )
    if starts.first is not None:
        actions[:, 0] = starts.first
    out = model.rollout_batch(actions + origin, starts.states)
    if has_masks(getattr(out, "infos", {})):
        raise InvalidObservation(
            f"rollouts: an env with the info {MASK!r} must return it in its first step, so that "
            f"rollouts obey it; it came later. Return it in every reset and step, also where all "
            f"actions are legal."
        )
    ones = np.ones(len(actions), np.int64)
    return Playouts(actions[:, 0], out.rewards, out.obs, out.terminateds, out.steps, ones, 0 * ones)


# (what is legal [L, A], time, indices of the L starts that go on, obs) -> actions [L],
# -1 where nothing is to be done
Choose = Callable[[Any, int, npt.NDArray[np.intp], Any], npt.NDArray[np.int64]]


def _among_legal(model: SearchModel, starts: Starts, depth: int, rngs: Sequence[Rng]) -> Playouts:
    """Play step by step: what is legal is known once a state is there."""
    counts = np.bincount(starts.rows)
    # All numbers at once, used or not: so they do not depend on how playouts end.
    numbers = np.concatenate(
        [rngs[b].random((counts[b], depth)) for b in np.flatnonzero(counts).tolist()]
    )

    def choose(legal: Any, t: int, going: npt.NDArray[np.intp], obs: Any) -> Any:  # noqa: ARG001
        return legal_actions(numbers[going, t], legal)

    return _step_by_step(model, starts, depth, choose)


def _by_policy(
    model: SearchModel, starts: Starts, depth: int, rngs: Sequence[Rng], policy: Policy
) -> Playouts:
    """Play step by step: what is done depends on what is seen."""
    asked = np.zeros(len(starts.rows), np.int64)

    def choose(legal: Any, t: int, going: npt.NDArray[np.intp], obs: Any) -> Any:  # noqa: ARG001
        prior = check_prior("rollout_policy", policy(obs), len(going), legal.shape[1])
        asked[going] += 1
        return draw(weights_over_legal(prior, legal), starts.rows[going], rngs)

    return _step_by_step(model, starts, depth, choose)._replace(evaluator_rows=asked)


def _step_by_step(model: SearchModel, starts: Starts, depth: int, choose: Choose) -> Playouts:
    """Play one `step_batch` per step with the actions of `choose`."""
    num_actions, origin = discrete_actions(model.action_space, "rollouts")
    n = len(starts.rows)
    first, rewards = np.zeros(n, np.int64), np.zeros((n, depth))
    over, steps = np.zeros(n, np.bool_), np.zeros(n, np.int32)
    last = None if starts.obs is None else mapped(np.array, starts.obs)
    going, states, obs = np.arange(n), starts.states, starts.obs
    legal = np.ones((n, num_actions), np.bool_) if starts.legal is None else starts.legal
    allowed = legal.copy()
    signs = np.ones(n) if num_players(model) == 2 else None
    for t in range(depth):
        if t == 0 and starts.first is not None:
            actions = starts.first
        else:
            actions = choose(legal, t, going, obs)
        able = actions >= 0
        if not able.all():
            going, states, actions = going[able], states[able], actions[able]
            if going.size == 0:
                break
        if t == 0:
            first[going] = actions
        out = model.step_batch(actions + origin, states)
        if last is None:
            last = mapped(lambda leaf: np.zeros((n, *leaf.shape[1:]), leaf.dtype), out.obs)
        rewards[going, t] = out.rewards if signs is None else signs[going] * out.rewards
        ended = np.asarray(out.terminateds) | np.asarray(out.truncateds)
        if signs is not None:
            signs[going[player_swaps(out.infos, ended)]] *= -1.0
        write_rows(last, going, out.obs)
        over[going], steps[going] = out.terminateds, t + 1
        allowed[going] = legal = action_masks(out.infos, ended, num_actions)
        on = np.flatnonzero(~ended)
        if on.size == 0:
            break
        going, states, obs, legal = going[on], out.states[on], rows_of(out.obs, on), legal[on]
    restores, asked = steps.astype(np.int64), np.zeros_like(first)
    told = None if allowed.all() else allowed
    return Playouts(first, rewards, last, over, steps, restores, asked, signs, told)


@kernel
def legal_action(number: float, legal: npt.NDArray[Any]) -> int:
    """Return the legal action selected by a number in [0, 1), -1 without any."""
    count = 0
    for action in range(legal.size):
        count += legal[action]
    place = int(number * count)
    for action in range(legal.size):
        if legal[action]:
            if place == 0:
                return action
            place -= 1
    return -1


def legal_actions(
    numbers: npt.NDArray[np.float64], legal: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return `legal_action` of L numbers, `legal` being `[L, A]`."""
    pairs = zip(numbers, legal, strict=True)
    return np.array([legal_action(number, allowed) for number, allowed in pairs], np.int64)


def draw(
    weights: npt.NDArray[Any], rows: npt.NDArray[np.integer[Any]], rngs: Sequence[Rng]
) -> npt.NDArray[np.int64]:
    """Draw one action per row of `weights` `[n, A]`, each plan's from its generator.

    Returns:
        `[n]`, drawn in proportion to the weights; -1 where all are 0.
    """
    counts = np.bincount(rows)
    uniform = np.concatenate([rngs[b].random(counts[b]) for b in np.flatnonzero(counts).tolist()])
    bounds = np.cumsum(weights, axis=1, dtype=np.float64)
    # The last action with any weight, should rounding leave the draw above all bounds.
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    drawn = np.minimum((bounds <= (uniform * bounds[:, -1])[:, None]).sum(axis=1), last)
    return np.where(bounds[:, -1] > 0.0, drawn, -1)


def powers(discount: float, depth: int) -> npt.NDArray[np.float64]:
    """Return `[depth + 1]` float64, the discount to the power of 0, 1, ...

    Number by number: numpy's power of a whole array may round otherwise.
    """
    return np.array([discount**t for t in range(depth + 1)])


def returns_of(
    out: Playouts, discount: float, evaluator: Evaluator | None, num_actions: int
) -> npt.NDArray[np.float64]:
    """Return `[n]` float64 discounted returns, bootstrapped by the evaluator if there is one.

    Every last observation is evaluated, so that the number of rows does not depend
    on how the playouts end; what was terminated counts 0.
    """
    tail = None
    if evaluator is not None:
        _, tail = evaluate(evaluator, out.obs, len(out.steps), num_actions, legal=out.legal)
        tail = tail if out.signs is None else out.signs * tail
    return bootstrapped(out, discount, tail)


def bootstrapped(
    out: Rollout, discount: float, tail: npt.NDArray[np.float64] | None
) -> npt.NDArray[np.float64]:
    """Return `[n]` float64 discounted returns.

    Args:
        out: n sequences of steps.
        discount: in [0, 1].
        tail: `[n]` what follows the last step; 0 where it was terminated. None: nothing.
    """
    returns = np.empty(len(out.steps))
    discounted_sums(np.asarray(out.rewards, np.float64), discount, returns)
    if tail is not None:
        factors = powers(discount, max(out.steps))[out.steps]
        returns += np.where(out.terminateds, 0.0, factors * tail)
    return returns


@kernel
def discounted_sums(rewards: npt.NDArray[Any], discount: float, out: npt.NDArray[Any]) -> None:
    """Write sum over t of discount**t * rewards[i, t] to out[i].

    A loop, because a matrix product may add in another order when it is given
    another number of rows, and row i must depend on row i alone.

    Args:
        rewards: `[L, H]` float64, zero after an ending.
        discount: in [0, 1].
        out: `[L]` float64, written.
    """
    for i in range(rewards.shape[0]):
        ret = 0.0
        for t in range(rewards.shape[1] - 1, -1, -1):
            ret = rewards[i, t] + discount * ret
        out[i] = ret
