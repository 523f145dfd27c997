"""Compiled kernels of FrozenLake, CliffWalking and Taxi, over a transition table.

Source: gymnasium's `FrozenLakeEnv`, `CliffWalkingEnv` and `TaxiEnv`, draw for draw.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from plangym_ext.envs.toy_text import _IS_FICKLE, _IS_NUMPY, _NO_ACTION
from plangym_ext.errors import NoKernel
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel

_STATE = np.dtype(
    [
        ("flags", "u1"),
        ("last_action", "i1"),
        ("facing", "u1"),
        ("square", "<i8"),
        ("rng", pcg64.RNG),
    ]
)
_INFO = np.dtype([("prob", "<f8")])
_TAXI_INFO = np.dtype([("prob", "<f8"), ("action_mask", "i1", (6,))])
#: Taxi's index of a passenger who is in the taxi, and its number of destinations.
_IN_TAXI, _DESTINATIONS = 4, 4


class Table(NamedTuple):
    """K outcomes of N squares and A actions; those of one pair lie side by side."""

    num_actions: int
    first: np.ndarray  # [N * A + 1] int64, first outcome of each pair
    cumulated: np.ndarray  # [K] float64, of the probabilities of one pair
    prob: np.ndarray  # [K] float64
    square: np.ndarray  # [K] int64
    reward: np.ndarray  # [K] float64
    terminated: np.ndarray  # [K] bool
    flags: np.ndarray  # [K] uint8, whether the square is a number of numpy's
    start: np.ndarray  # [N] float64, cumulated probabilities of the first square
    mask: np.ndarray  # [N, 6] int8, Taxi's legal actions; [0, 6] elsewhere
    is_fickle: bool  # Taxi's passengers
    fickle_probability: float


def kernel(env: Any) -> Kernel:
    """Return the kernel of one of the three envs.

    Raises:
        NoKernel: a probability is no Python float, so that rows of infos differ, or it
            is negative.
    """
    is_taxi = hasattr(env, "action_mask")
    squares, actions = range(len(env.P)), range(len(env.P[0]))
    first, outcomes, sums = [0], [], []
    for pair in (env.P[s][a] for s in squares for a in actions):
        outcomes += pair
        sums += np.cumsum(np.asarray([outcome[0] for outcome in pair])).tolist()
        first.append(len(outcomes))
    wrong = [outcome[0] for outcome in outcomes if type(outcome[0]) is not float or outcome[0] < 0]
    if wrong:
        raise NoKernel(
            f"{type(env).__qualname__}: its kernel takes probabilities that are Python floats, "
            f"at least 0; got {wrong[0]!r}"
        )
    masks = [env.action_mask(s) for s in squares] if is_taxi else np.zeros((0, 6))
    params = Table(
        num_actions=len(actions),
        first=np.array(first, np.int64),
        cumulated=np.array(sums, np.float64),
        prob=np.array([prob for prob, *_ in outcomes], np.float64),
        square=np.array([square for _, square, *_ in outcomes], np.int64),
        reward=np.array([reward for _, _, reward, _ in outcomes], np.float64),
        terminated=np.array([bool(terminated) for *_, terminated in outcomes]),
        flags=np.array([_IS_NUMPY * (type(s) is not int) for _, s, *_ in outcomes], np.uint8),
        start=np.cumsum(np.asarray(env.initial_state_distrib)),
        mask=np.array(masks, np.int8),
        is_fickle=is_taxi and bool(env.fickle_passenger),
        # Before gymnasium 1.4 the number stood in the code alone.
        fickle_probability=float(getattr(env, "fickle_probability", 0.3)) if is_taxi else 0.0,
    )
    moves, says = (taxi_step, taxi_reset_info) if is_taxi else (step, reset_info)
    info = _TAXI_INFO if is_taxi else _INFO
    return Kernel(_STATE, moves, reset, observe, params, info, check, says)


@compiled
def _walk(state: Any, params: Any, action: int) -> int:
    """Draw an outcome and go there; returns its index in the table."""
    pair = state["square"] * params.num_actions + action
    first = params.first[pair]
    outcome: int = first + pcg64.categorical(
        state["rng"], params.cumulated[first : params.first[pair + 1]]
    )
    state["square"] = params.square[outcome]
    # The flag of the square alone; the others stay.
    state["flags"] = (state["flags"] & (255 - _IS_NUMPY)) | params.flags[outcome]
    state["last_action"] = action
    return outcome


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Make one move of FrozenLake or CliffWalking."""
    outcome = _walk(state, params, action)
    info["prob"] = params.prob[outcome]
    return params.reward[outcome], params.terminated[outcome], False


def taxi_step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Make one move of Taxi, at which a fickle passenger may change the destination."""
    before = state["square"]
    outcome = _walk(state, params, action)
    after = state["square"]
    # A square is ((row * 5 + column) * 5 + passenger) * 4 + destination.
    in_taxi = before // _DESTINATIONS % 5 == _IN_TAXI
    if params.is_fickle and state["flags"] & _IS_FICKLE and in_taxi and before // 20 != after // 20:
        drawn = pcg64.integers(state["rng"], _DESTINATIONS - 1)
        old = before % _DESTINATIONS
        destination = drawn + (drawn >= old)  # the drawn one of those that are not the old
        state["square"] = after // _DESTINATIONS * _DESTINATIONS + destination
        state["flags"] = _IS_NUMPY
    info["prob"] = params.prob[outcome]
    info["action_mask"][:] = params.mask[state["square"]]
    return params.reward[outcome], params.terminated[outcome], False


def reset(state: Any, params: Any) -> None:
    """Draw the first square, and whether Taxi's passenger is fickle."""
    state["square"] = pcg64.categorical(state["rng"], params.start)
    state["flags"], state["facing"], state["last_action"] = _IS_NUMPY, 0, _NO_ACTION
    if params.is_fickle and pcg64.random(state["rng"]) < params.fickle_probability:
        state["flags"] = _IS_NUMPY | _IS_FICKLE


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the probability of the first square, which is given as 1."""
    info["prob"] = 1.0


def taxi_reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the same, and the legal actions."""
    info["prob"] = 1.0
    info["action_mask"][:] = params.mask[state["square"]]


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the square."""
    obs[0] = state["square"]


def check(state: Any, params: Any) -> bool:
    """Return whether the square is in the table."""
    return 0 <= state["square"] < params.start.size and pcg64.could_be_rng(state["rng"])
