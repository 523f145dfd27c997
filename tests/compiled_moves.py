"""Episodes of a planner with `compiled` and without, which are to be the same."""

from __future__ import annotations

import plangym_ext
from plangym_ext.planners import play


def is_whole(planner):
    """Whether whole simulations of the last search ran in compiled code."""
    return planner._kept.beside is not None


def both_ways(
    name, cls, *, seed=3, max_steps=6, num_episodes=2, make=None, compiled_as=is_whole, **options
):
    """The episodes and the last trees of a planner, compiled and not."""
    found = []
    for compiled in (True, False):
        planner = cls(compiled=compiled, return_tree=True, **options)
        moves = []

        def look(move, planner=planner, moves=moves, wanted=compiled):
            assert compiled_as(planner) == wanted, "whether it was compiled"
            moves.append(move)

        with plangym_ext.make(name, **(make or {})) as env:
            assert env.backend == "kernel"
            play(
                env,
                planner,
                seed=seed,
                max_steps=max_steps,
                num_episodes=num_episodes,
                callback=look,
            )
        found.append((moves, planner))
    return found


def assert_equal_moves(name, cls, **options):
    (moves, planner), (others, _) = both_ways(name, cls, **options)
    assert len(moves) == len(others) > 0
    for move, other in zip(moves, others, strict=True):
        one, two = move.plan, other.plan
        assert move.state.tobytes() == other.state.tobytes()
        assert (one.action, one.value, one.full) == (two.action, two.value, two.full)
        for field in ("visits", "q", "weights"):
            assert getattr(one, field).tobytes() == getattr(two, field).tobytes(), field
        for field in one.tree._fields:
            assert getattr(one.tree, field).tobytes() == getattr(two.tree, field).tobytes(), field
        for field in ("model_steps", "expansions", "evaluator_rows", "restores"):
            assert getattr(one.budget, field) == getattr(two.budget, field), field
    return moves, planner
