"""NativeEnv: base class of the in-process native backends, with compiled input checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoColumn, InfoWriter
from plangym_ext.core.results import RowResults
from plangym_ext.core.slot_stepper import LocalStepper
from plangym_ext.errors import IncompleteState
from plangym_ext.native.compiled import built_once, compiled
from plangym_ext.native.kernel.pcg64 import RNG, next64
from plangym_ext.native.row_checks import RowChecks
from plangym_ext.states.envelope import HEADER, as_wide
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes


class NativeEnv(LocalStepper, LiveStepper):
    """A `LiveStepper` for backends so fast that numpy's input checks would be noticeable."""

    #: Compiled check that accepts usual inputs; None before it is compiled.
    _checks: RowChecks | None = None
    #: None before rows are first reset by seeds.
    _seeded: SeededResets | None = None

    def checked_states(self, states: Any, where: str) -> np.ndarray:
        if self._checks is not None and self._checks.whole(states):
            found: np.ndarray = states
            return found
        # What is unusual: another width or layout, or a state to be refused by name.
        return super().checked_states(states, where)

    def _checked_actions(
        self, actions: Any, batch_shape: tuple[int, ...], where: str
    ) -> tuple[np.ndarray, ...]:
        if self._checks is not None and self._checks.in_range(actions, batch_shape):
            return (actions,)
        return super()._checked_actions(actions, batch_shape, where)

    # Rows of a vector env -------------------------------------------------------

    def seeded_rows(
        self, states: np.ndarray, fresh: np.ndarray, seeds: Sequence[int | None]
    ) -> np.ndarray | None:
        """Return rows after a native reset by seeds; see `LiveStepper`."""
        if self._seeded is None:
            self._seeded = SeededResets(self)
        return self._seeded.begun(states, fresh, seeds)

    def sealed(self, rows: np.ndarray) -> np.ndarray:
        found = as_wide(rows.copy(), self.state_width)
        self.envelope.seal(found, sum(part.width for part in self.codec.parts))
        return found


def state_of(env: GymEnv) -> Any:
    """Return the gymnasium env's state, `[1, S]` uint8, even where `get_state` refuses."""
    row = np.zeros((1, env.state_width), np.uint8)
    end = env.codec.capture(row[0].data, HEADER)
    env.envelope.seal(row, end - HEADER)
    return row


# Self-test of a backend's resets against the env's own, byte for byte ---------


_RESETS = 4


def proved_resets(
    env: GymEnv, run: Callable[[np.ndarray, np.ndarray, np.ndarray], RowResults | None]
) -> tuple[InfoColumn, ...] | None:
    """Return the infos of a reset, if a backend resets rows without a step as the env does.

    Args:
        env: the reference; it is left where it was.
        run: resets rows on the backend: actions, states and which are reset, as of `step_live`.
            Its states may lack a seal.

    Returns:
        The fields, in the env's order; None if states, observations or infos differ, or not
        all infos are numbers of the same types every time.
    """
    here = state_of(env)
    try:
        before, after, shown, infos = _played(env)
    finally:
        env.codec.restore(here[0].data, HEADER)
    columns = InfoWriter(infos[0]).columns
    if any(InfoWriter(info).columns != columns or len(info) != len(columns) for info in infos):
        return None
    action = env.layout.action.leaves[0]
    actions = np.zeros((_RESETS, *action.shape), action.dtype)
    found = run(actions, before, np.ones(_RESETS, bool))
    if found is None or found.rewards.any() or found.terminated.any() or found.truncated.any():
        return None
    # Without the headers, as these states may lack a seal.
    same = found.states[:, HEADER:].tobytes() == after[:, HEADER:].tobytes()
    same = same and found.obs[0].tobytes() == shown.tobytes()
    if not same or not {column.key for column in columns} <= set(found.infos.keys()):
        return None
    said = all(
        np.array_equal(found.infos[column.key][k], info[column.key])
        for k, info in enumerate(infos)
        for column in columns
    )
    return columns if said else None


def _played(env: GymEnv) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """Return states before and after some resets, their observations and infos."""
    leaf = env.layout.obs.leaves[0]
    before, infos = [], []
    shown = np.zeros((_RESETS, *leaf.shape), leaf.dtype)
    write = env.obs_writer.into((shown,))
    for k in range(_RESETS):
        before.append(state_of(env))
        # Vector envs pass empty options on with a mask.
        obs, info = env.gym_env.reset(options={} if k % 2 else None)
        write(k, obs)
        infos.append(info)
    # What a reset has led to is where the next one began.
    after = [*before[1:], state_of(env)]
    return np.concatenate(before), np.concatenate(after), shown, infos


# Batched resets by seed on a native backend -----------------------------------


#: Seeds that the env and the native reset are compared on.
_SEEDS = (0, 1, 12345, 2**31 - 5)
_MOST = 2**64 - 1


class SeededResets:
    """Sets the generators of rows by seeds before their resets.

    A seeded reset is one without a seed after the generator was replaced, if nothing else of the
    env depends on the seed: that is tried, once, and compared byte for byte.

    Args:
        env: whose rows they are; the env proper is reset by the comparison.
    """

    def __init__(self, env: LiveStepper) -> None:
        self._env = env
        self._tried, self._at = False, -1
        self._example = np.zeros(0, np.uint8)

    def begun(
        self, states: np.ndarray, fresh: np.ndarray, seeds: Sequence[int | None]
    ) -> np.ndarray | None:
        """Return rows after a native reset by seeds, `[k, S]` uint8, fresh.

        Args:
            states: `[k, S]` uint8 of rows.
            fresh: `[k]` bool, which of them were never reset: these states say nothing.
            seeds: of each; None goes on with the generator of the row, which is not fresh.
        """
        numbers = [seed for seed in seeds if seed is not None and 0 <= seed <= _MOST]
        chosen = np.array([seed is not None for seed in seeds])
        # Seeds out of range are left to the env, which refuses them in its own words.
        if len(numbers) < chosen.sum() or (fresh & ~chosen).any() or not self._prove():
            return None
        found = states.copy()
        # Any state will do: after a reset by seed nothing depends on the one before.
        found[fresh] = self._example
        rows = found[chosen]
        put_streams(rows, self._at, numbers)
        # Back from the copy, which is what a mask gives.
        found[chosen] = rows
        return found

    def _prove(self) -> bool:
        """Return whether native resets by seed are the env's; found out once."""
        if not self._tried:
            found = self._place()
            self._at = -1 if found is None else found
            self._tried = True
        return self._at >= 0

    def _place(self) -> int | None:
        """Return where a row has its generator, if a reset by seed depends on nothing else."""
        env, leaf = self._env, self._env.layout.obs.leaves[0]
        shown = np.zeros((len(_SEEDS), *leaf.shape), leaf.dtype)
        write, states, infos, places = env.plan_env.obs_writer.into((shown,)), [], [], set()
        for k, seed in enumerate(_SEEDS):
            state, obs, info = env.reset(seed=seed)
            write(k, obs)
            states.append(state)
            infos.append(info)
            try:
                places.add(generator_at(state, env.gym_env.unwrapped.np_random))
            except IncompleteState:  # a generator of another kind
                return None
        if len(places) > 1 or (at := places.pop()) is None:
            return None
        wanted = np.stack(states)
        begun = wanted[::-1].copy()  # each begins with another one's
        put_streams(begun, at, _SEEDS)
        self._example = wanted[0]
        return at if self._are_same(begun, wanted, shown, infos) else None

    def _are_same(
        self, begun: np.ndarray, wanted: np.ndarray, shown: np.ndarray, infos: list[dict[str, Any]]
    ) -> bool:
        """Return whether a native reset of rows comes to states, observations and infos."""
        action = self._env.layout.action.leaves[0]
        ignored = np.zeros((len(begun), *action.shape), action.dtype)
        found = self._env.step_live(ignored, begun, np.ones(len(begun), bool), whole=False)
        columns = self._env.reset_columns
        if found is None or columns is None:
            return False
        told = all(
            np.array_equal(found.infos[column.key][k], np.asarray(info.get(column.key)))
            for k, info in enumerate(infos)
            for column in columns
        )
        same = self._env.sealed(found.states).tobytes() == wanted.tobytes()
        return told and same and found.obs[0].tobytes() == shown.tobytes()


_POOL = 4
_LOW = np.uint64(0xFFFFFFFF)
_INIT_A, _MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_INIT_B, _MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_MIX_L, _MIX_R = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)
_0, _1, _16, _32, _63 = (np.uint64(n) for n in (0, 1, 16, 32, 63))


@compiled
def _hashed(value: Any, constant: Any, factor: Any) -> tuple[Any, Any]:
    """Return a hashed word of 32 bits, and the constant for the next one."""
    value = value ^ constant
    constant = (constant * factor) & _LOW
    value = (value * constant) & _LOW
    return value ^ (value >> _16), constant


@compiled
def seed_streams(seeds: Any, streams: Any, pool: Any, words: Any) -> None:
    """Write the generator state of `numpy.random.default_rng(seed)`, for each seed.

    Source: numpy's `SeedSequence`, after O'Neill 2015, "Developing a seed_seq alternative";
    O'Neill 2014, "PCG".

    Args:
        seeds: `[B]` uint64.
        streams: `[B]` records of type `RNG`, written.
        pool: `[4]` uint64, to write on.
        words: `[8]` uint64, to write on.
    """
    for row in range(len(seeds)):
        constant = _INIT_A
        for k in range(_POOL):
            # numpy pads a seed with words of 0 to the size of the pool.
            entropy = _0
            if k == 0:
                entropy = seeds[row] & _LOW
            elif k == 1:
                entropy = seeds[row] >> _32
            pool[k], constant = _hashed(entropy, constant, _MULT_A)
        # Every word is mixed into every other one, so that each depends on the whole seed.
        for source in range(_POOL):
            for k in range(_POOL):
                if k != source:
                    mixed, constant = _hashed(pool[source], constant, _MULT_A)
                    mixed = (_MIX_L * pool[k] - _MIX_R * mixed) & _LOW
                    pool[k] = mixed ^ (mixed >> _16)
        constant = _INIT_B
        for k in range(2 * _POOL):
            words[k], constant = _hashed(pool[k % _POOL], constant, _MULT_B)
        begin_stream(
            streams[row],
            # numpy pairs its words low half first, and 128 bits of these pairs high half first.
            words[2] | (words[3] << _32),
            words[0] | (words[1] << _32),
            words[6] | (words[7] << _32),
            words[4] | (words[5] << _32),
        )


@compiled
def begin_stream(rng: Any, low: Any, high: Any, inc_low: Any, inc_high: Any) -> None:
    """Seed a generator as PCG's `srandom` does: with its state and its increment."""
    rng["inc_low"] = (inc_low << _1) | _1
    rng["inc_high"] = (inc_high << _1) | (inc_low >> _63)
    rng["low"], rng["high"] = _0, _0
    rng["has_half"], rng["half"] = 0, 0
    # As `srandom`: a step from 0, the state is added, and a step again.
    next64(rng)
    before = rng["low"]
    rng["low"] = before + low
    # An unsigned sum that is less than a part of it has wrapped.
    carried = _1 if rng["low"] < before else _0
    rng["high"] += high + carried
    next64(rng)


def generator_at(state: np.ndarray, generator: np.random.Generator) -> int | None:
    """Return the byte offset of the generator in a state `[S]` uint8; None if not unique."""
    record = np.zeros(RNG_BYTES, np.uint8)
    GeneratorBytes().capture(generator, record.data, 0)
    data, sought = state.tobytes(), record.tobytes()
    # Found by its bytes: where a part puts its generator is its own affair.
    at = data.find(sought)
    return None if at < 0 or data.find(sought, at + 1) >= 0 else at


def streams_of(seeds: Sequence[int]) -> np.ndarray:
    """Return `[B]` records of type `RNG`, the generators of seeds of at most 64 bits."""
    streams = np.zeros(len(seeds), RNG)
    notes = np.empty(_POOL, np.uint64), np.empty(2 * _POOL, np.uint64)
    arguments = np.array(seeds, np.uint64), streams, *notes
    fill, _ = built_once("seed streams", seed_streams, arguments)
    fill(*arguments)
    return streams


def put_streams(states: np.ndarray, at: int, seeds: Sequence[int]) -> None:
    """Set the generators in state rows `[B, S]` uint8 by seeds `[B]` of at most 64 bits."""
    streams = streams_of(seeds).view(np.uint8)
    states[:, at : at + RNG_BYTES] = streams.reshape(-1, RNG_BYTES)
