"""CompiledSearch: runs the waves of a tree search in compiled code."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.compiled.leaves import Job, Places
from plangym_ext.planners.compiled.waves import MakeWave, make_loop
from plangym_ext.planners.lockstep.node_states import ArrayStates
from plangym_ext.planners.lockstep.search import Search
from plangym_ext.planners.players import num_players
from plangym_ext.planners.rollouts.playouts import powers
from plangym_ext.planners.simulator import RaterCode, Simulator, SimulatorFunctions, simulator_of

#: Steps that one call runs at most, about: some 50 ms, after which an interrupt is heard.
_STEPS_PER_CALL = 1 << 20
#: The same where a clock has to be looked at.
_STEPS_PER_LOOK = 1 << 14
#: Work that another thread is woken for: what it takes to begin is some 50 us.
_WORK_PER_THREAD = 1 << 14
#: Descending and backing up, in steps of a quick simulator.
_WORK_PER_SIMULATION = 16


def compiled_search(
    search: Search, make_wave: MakeWave, nodes: int = 1, new_own: Callable[[], Any] | None = None
) -> CompiledSearch | None:
    """Return a runner of a search's waves in compiled code, or None.

    See `CompiledSearch` for the arguments.
    """
    code, states = search.rater.code(), search.states
    if code is None or not isinstance(states, ArrayStates):
        return None
    simulator = simulator_of(search.model)
    if simulator is None or states.rows.shape[2] != simulator.width:
        return None
    # Rollouts of two players are stepped, and so choose among the legal, masks or none.
    if num_players(search.model) == 2 and not simulator.has_masks:
        return None
    return CompiledSearch(search, simulator, code, make_wave, nodes, new_own)


@functools.cache
def _maker(make_wave: MakeWave, value: Any, has_masks: bool) -> Callable[[SimulatorFunctions], Any]:
    """Return the same function for the same arguments: compiled code is cached by it."""
    return lambda functions: make_loop(functions, make_wave, value, has_masks)


class CompiledSearch:
    """Runs the waves of one search inside compiled code, whole simulations of it.

    Waves equal the planner's own bit for bit, so both may take turns. Where compiled code cannot
    continue, as at a reward that is not finite, it undoes the wave, and leaves the next one to the
    planner.

    Args:
        search: whose states are in an array.
        simulator: of its model.
        rating: what its rater does.
        make_wave: the wave to compile.
        nodes: most nodes that a simulation adds.
        new_own: returns what the wave needs besides, for one thread; None: nothing.
    """

    def __init__(
        self,
        search: Search,
        simulator: Simulator,
        rating: RaterCode,
        make_wave: MakeWave,
        nodes: int,
        new_own: Callable[[], Any] | None,
    ) -> None:
        states = search.states
        assert isinstance(states, ArrayStates)
        assert states.rows.shape[2] == simulator.width
        self.search, self._simulator, self._rating = search, simulator, rating
        batch, settings = len(search.done), search.settings
        # One for each thread that may share the trees.
        lanes = min(simulator.threads.most, batch)
        # Refused here if they pay for no simulation: compiled code would run none.
        limits = search.limits(nodes * (1 + search.rater.most_steps))
        self._job = Job(
            wave_size=settings.wave_size,
            num_simulations=limits.num_simulations,
            max_model_steps=limits.max_model_steps,
            cost=limits.cost,
            rollouts=nodes * rating.num_rollouts if rating.depth else 0,
            discount=settings.discount,
            powers=powers(settings.discount, rating.depth),
            first_action=search.first_action,
            depth=rating.depth,
            num_rollouts=rating.num_rollouts,
            own=None,  # see `_arguments`
            done=search.done,
            full=search.full,
            counts=search.costs.counts,
            draws=np.empty((batch, 0, rating.depth), self._number),
            drawn=np.zeros(batch, np.int64),
            used=np.zeros(batch, np.int64),
            wave=np.empty((batch, settings.wave_size), np.int32),
            left=np.zeros(batch, np.bool_),
            counts_before=np.zeros((4, batch), np.int64),
            rewards=np.empty((lanes, rating.depth)),
            legal=np.empty((lanes, search.tree.order.shape[1]), np.bool_),
        )
        self._own = [None if new_own is None else new_own() for _ in range(lanes)]
        # Rollouts step in the row of their lane; `rows` takes no fewer than two.
        scratch = simulator.rows(np.zeros((max(2, lanes), simulator.width), np.uint8))
        # A view: compiled code steps the search's own states in place.
        flat = states.rows.reshape(-1, simulator.width)
        self._places = Places(simulator.context(lanes), simulator.rows(flat), scratch)
        maker = _maker(make_wave, rating.value, simulator.has_masks)
        self._loop = simulator.build(maker, self._arguments(1, 0, batch))

    @property
    def _number(self) -> type:
        # As `play_out` draws: numbers of [0, 1) that choose among the legal, or actions.
        return np.float64 if self._simulator.has_masks else np.int64

    def _arguments(self, waves: int, first: int, stop: int, lane: int = 0) -> tuple[Any, ...]:
        search = self.search
        selection, halving = search.settings.selection, search.halving
        job, where = self._job._replace(own=self._own[lane]), (first, stop, lane, waves)
        return (search.tree, job, selection, halving, self._places, *where)

    def check(self, states: npt.NDArray[np.uint8]) -> None:
        """Raise the model's errors for damaged or foreign roots `[B, S]`."""
        if not self.search.states.checks:
            self._simulator.check(states, "step_batch")

    def run(self, run_wave: Callable[[], bool], *, timed: bool) -> bool:
        """Run many waves; return False if there was none left.

        Args:
            run_wave: runs one as the planner does, for what compiled code cannot handle.
            timed: return soon, as a clock has to be looked at.
        """
        self.search.finish_all()
        more = self._run(timed)
        return run_wave() if np.count_nonzero(self._job.left) else more

    def _run(self, timed: bool) -> bool:
        """Run many waves in compiled code; return whether there may be more."""
        job, batch = self._job, len(self.search.done)
        steps = _STEPS_PER_LOOK if timed else _STEPS_PER_CALL
        waves = max(1, steps // (batch * job.wave_size * job.cost))
        if not job.rollouts:
            return self._grow(waves)
        rngs = self.search.rngs
        drawn = np.minimum(self.search.allowance(job.cost), waves * job.wave_size) * job.rollouts
        # How many numbers simulations need is known when they have ended.
        before = [rng.bit_generator.state for rng in rngs]
        self._draw(drawn)
        more = self._grow(waves)
        for b in np.flatnonzero(job.used < drawn).tolist():
            # As if only the needed numbers had been drawn.
            rngs[b].bit_generator.state = before[b]
            self._numbers(b, int(job.used[b]))
        return more

    def _grow(self, waves: int) -> bool:
        """Run at most `waves` waves in each tree; return whether there may be more.

        Trees are shared among threads where that pays. They have nothing in common that is
        written, and each draws its own numbers, so they are the same for any number of threads.
        """
        batch, threads = len(self.search.done), self._simulator.threads
        count = self._num_threads(waves)
        ends = [batch * k // count for k in range(count + 1)]
        lanes = enumerate(itertools.pairwise(ends))
        shares = [self._arguments(waves, *share, lane) for lane, share in lanes]
        return any(threads.run(self._loop, shares))

    def _num_threads(self, waves: int) -> int:
        """Return how many threads share the trees."""
        job, batch = self._job, len(self.search.done)
        left = min(waves * job.wave_size, job.num_simulations)
        work = batch * left * (job.cost + _WORK_PER_SIMULATION)
        return max(1, min(self._simulator.threads.most, batch, work // _WORK_PER_THREAD))

    def _draw(self, counts: npt.NDArray[np.int64]) -> None:
        """Draw the numbers for `counts[b]` rollouts in tree b."""
        self._job.used[:], self._job.drawn[:] = 0, counts
        shape = (len(counts), int(counts.max()), self._job.depth)
        self._job = self._job._replace(draws=np.empty(shape, self._number))
        for b, count in enumerate(counts.tolist()):
            if count:
                self._job.draws[b, :count] = self._numbers(b, count)

    def _numbers(self, b: int, count: int) -> npt.NDArray[Any]:
        """Draw what `play_out` draws for `count` rollouts of tree b, `[count, depth]`."""
        size = (count, self._job.depth)
        if self._simulator.has_masks:
            return self.search.rngs[b].random(size)
        return self.search.rngs[b].integers(self.search.tree.order.shape[1], size=size)
