"""compile_env: a user's Python env as a kernel, if the two are equal bit for bit."""

from __future__ import annotations

import copy
import functools
import importlib
import math
import operator
import warnings
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.nested import reward_of
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.made_env import check_reset
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import (
    DamagedState,
    KernelDiffers,
    NoKernel,
    ResetNeeded,
    UnknownName,
    WrongKind,
)
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.kernel_env import KernelEnv
from plangym_ext.native.kernel.known import register_kernel
from plangym_ext.native.kernel.row_kernel import Kernel, silent
from plangym_ext.native.kernel.rules_env import check_row
from plangym_ext.native.translate import runtime
from plangym_ext.native.translate.program import Program
from plangym_ext.native.translate.record import put_shown, whole_record
from plangym_ext.native.translate.values import Num

_BATCH = 1000
#: Kinds of rows.
_STEP, _RESET, _SEEDED = 0, 1, 2
_KINDS = ("a step", "a reset", "a reset by a seed")


class _Played:
    """Steps of the class itself, as rows of a batch."""

    def __init__(self, env: KernelEnv, program: Any) -> None:
        kernel, (dtype, shape) = env.kernel, program.obs
        action = env.layout.action.leaves[0]
        self.actions = np.zeros((_BATCH, *action.shape), action.dtype)
        self.kinds = np.zeros(_BATCH, np.int64)
        self.before = np.zeros(_BATCH, kernel.state)
        self.after = np.zeros(_BATCH, kernel.state)
        self.obs = np.zeros((_BATCH, *shape), dtype)
        self.rewards = np.zeros(_BATCH)
        self.over = np.zeros((_BATCH, 2), np.bool_)
        self.infos: list[dict[str, Any]] = [{}] * _BATCH


class _Reference:
    """An env of the class itself, and a random player of it."""

    def __init__(self, cls: type, kwargs: dict[str, Any], program: Any, dtype: Any) -> None:
        self.env: Any = cls(**kwargs)
        self._program = program
        self._space = copy.deepcopy(self.env.action_space)
        self._space.seed(1)
        self._random = np.random.default_rng(1)
        self._over, self._seeds = False, 0
        self._row = np.zeros(1, dtype)
        self._show(*self.env.reset(seed=0))

    def _show(self, obs: Any, info: Any = None) -> None:
        if info is not None:
            self._row = np.zeros(1, self._row.dtype)
        put_shown(self._program, self._row[0], obs, info)
        self._row = whole_record(self._program, self.env, self._row)

    def play(self, k: int, played: _Played) -> None:
        """Take a step or a reset, which becomes row k."""
        action = played.actions[k] = self._space.sample()
        played.before[k] = self._row[0]
        # Steps past an episode's end are compared too.
        if (self._over and self._random.random() < 0.9) or self._random.random() < 0.005:
            obs, info = self._reset(k, played)
            self._over = False
            self._show(obs, info)
        else:
            if self._space.shape == () and k % 2:
                action = int(action)  # it may be numpy's number, or Python's
            obs, reward, terminated, truncated, info = self.env.step(action)
            played.kinds[k], played.rewards[k] = _STEP, reward_of(reward)
            played.over[k] = terminated, truncated
            self._over = terminated or truncated
            self._show(obs)
        played.after[k], played.obs[k], played.infos[k] = self._row[0], obs, info

    def _reset(self, k: int, played: _Played) -> Any:
        played.kinds[k] = _RESET
        played.rewards[k], played.over[k] = 0.0, False
        if not self._program.draws or self._random.random() < 0.5:
            return self.env.reset()
        self._seeds += 1
        played.kinds[k] = _SEEDED
        played.before["rng"][k] = pcg64.record_of(np.random.default_rng(self._seeds))
        return self.env.reset(seed=self._seeds)


def compared(made: type, cls: type, kwargs: dict[str, Any], steps: int) -> None:
    """Compare a class with its compiled form, over at least so many steps and resets.

    Raises:
        KernelDiffers: they are not equal; the message says where.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of steps past an episode's end
        with KernelEnv(GymEnv(lambda: made(**kwargs), check=False)) as env:
            try:
                env.warm_up()
            except Exception as error:
                if not type(error).__module__.startswith("numba."):
                    raise
                text = str(error).strip().partition("\n")[0]
                raise NoKernel(f"{cls.__qualname__}: the compiler refuses it: {text}") from error
            if env.reset_columns is None:
                raise KernelDiffers(f"{cls.__qualname__}: a compiled reset is not the env's.")
            program: Any = env.plan_env.gym_env.unwrapped._program  # type: ignore[attr-defined]
            reference = _Reference(cls, kwargs, program, env.kernel.state)
            for done in range(0, steps, _BATCH):
                played = _Played(env, program)
                for k in range(_BATCH):
                    reference.play(k, played)
                difference = _difference(env, played)
                if difference:
                    raise KernelDiffers(f"{cls.__qualname__}: {difference} (steps from {done})")


def _difference(env: KernelEnv, played: _Played) -> str:
    """Return the first difference of a batch; "" without any."""
    memory = env._memory
    rows = np.zeros((_BATCH, memory.width), np.uint8)
    memory.views(rows)[1][...] = played.before
    found = env.step_live(played.actions, env.sealed(rows), played.kinds > 0, whole=False)
    if found is None:
        return (
            "the translation gives up where the env goes on: at an int beyond 2**53, an index out "
            "of range, a division by zero or a number that is infinite or not one"
        )
    pairs = [
        ("observation", played.obs.reshape(_BATCH, -1), found.obs[0].reshape(_BATCH, -1)),
        ("reward", played.rewards, found.rewards),
        ("flags", played.over, np.stack([found.terminated, found.truncated], axis=1)),
    ]
    states = memory.views(found.states)[1]
    pairs += [(name, played.after[name], states[name]) for name in states.dtype.names or ()]
    pairs += _info_pairs(env, played, found.infos)
    return min(filter(None, (_first(played, *pair) for pair in pairs)), default=(0, ""))[1]


def _info_pairs(env: KernelEnv, played: _Played, infos: Any) -> list[Any]:
    """Return names and columns of infos, the env's and the translation's."""
    info, pairs = env.kernel.info, []
    for name in (info.names or ()) if info is not None else ():
        mine = np.zeros(_BATCH, info[name])  # type: ignore[index]
        theirs = np.array(infos[name])
        for k, said in enumerate(played.infos):
            if name in said:
                mine[k] = said[name]
            else:
                theirs[k] = 0
        pairs.append((f"info {name}", mine, theirs))
    return pairs


def _first(played: _Played, name: str, want: Any, got: Any) -> tuple[int, str] | None:
    """Return the first row in which two columns differ, and a text; None: none does."""
    a, b = (np.ascontiguousarray(one).view(np.uint8).reshape(_BATCH, -1) for one in (want, got))
    places = np.flatnonzero((a != b).any(axis=1)) if a.shape == b.shape else np.zeros(1, int)
    if not places.size:
        return None
    k = int(places[0])
    return k, (
        f"{name} differs after {_KINDS[played.kinds[k]]} with the action {played.actions[k]}: "
        f"the env has {want[k]!r}, its translation {got[k]!r}"
    )


#: Env steps of the comparison that is made unasked: it takes a second or so.
STEPS = 20_000
_HELPERS = (
    "exact",
    "finite",
    "product",
    "nonzero",
    "place",
    "whole",
    "within",
    "float_mod",
    "float_floor",
    "power",
    "categorical",
    "uniform",
    "normal",
    "standard_normal",
    "call_loop",
)


def compile_env(env: type | str, *, steps: int = STEPS, **kwargs: Any) -> type[gym.Env[Any, Any]]:
    """Return a class of the same env with a compiled kernel, which `make` and `make_vec` use.

    Its `step` and `reset` are translated from their source: numbers and arrays in, numbers and
    arrays out. The translation is compared with the class itself, bit for bit. An env that is
    made later with other arguments is translated again.

    Args:
        env: a gymnasium env class, its name as "module:Class", or an env id.
        steps: env steps to compare, resets and seeds among them.
        kwargs: arguments of the class, for the comparison.

    Returns:
        A class that derives from the env's. Its instances are the env: they step, reset and
        render in Python, and have `get_state` and `set_state`.

    Raises:
        NoKernel: something cannot be translated; the message has the file, the line and why.
        KernelDiffers: the two are not equal.
        WrongKind: it is no class of envs, or one of gym's old interface.
        UnknownName: there is no such module, class or env.
    """
    steps = at_least("compile_env: steps", steps, 1)
    cls, defaults = _class_of(env)
    found = _compiled_class(cls)
    translated(cls, (), {**defaults, **kwargs})
    compared(found, cls, {**defaults, **kwargs}, steps)
    return found


def _class_of(env: Any) -> tuple[type, dict[str, Any]]:
    defaults: dict[str, Any] = {}
    try:
        if isinstance(env, str) and ":" in env and "/" not in env and "-v" not in env:
            module, _, name = env.partition(":")
            env = operator.attrgetter(name)(importlib.import_module(module))
        elif isinstance(env, str):
            spec = gym.spec(env)
            defaults, entry = dict(spec.kwargs), spec.entry_point
            env = gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    # A name that is empty is a ValueError to Python.
    except (ImportError, AttributeError, ValueError, gym.error.Error) as error:
        raise UnknownName(f"compile_env: {error}") from None
    if not isinstance(env, type) or not issubclass(env, gym.Env):
        raise WrongKind(f"compile_env: expected a class of gymnasium envs; got {env!r}")
    return env, defaults


@functools.cache
def _compiled_class(cls: type) -> type[gym.Env[Any, Any]]:
    # The module of this family: the codec of the class's own would not have the same fields.
    names = {"__module__": __name__, "__qualname__": f"{cls.__module__}.{cls.__qualname__}"}
    found = type(cls.__name__, (_Compiled, cls), {**names, "_translated_class": cls})
    register_kernel(found, operator.attrgetter("kernel"))
    return found


class _Compiled:
    """Kernel and states of a compiled class, beside the env's own."""

    _translated_class: type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kernel, self._program = translated(self._translated_class, args, kwargs)
        self._row = np.zeros(1, self.kernel.state)
        self._begun = False

    def reset(self, **kwargs: Any) -> Any:
        """Begin an episode; see the env."""
        found = super().reset(**kwargs)  # type: ignore[misc]
        self._row = np.zeros(1, self.kernel.state)
        self._begun = True
        put_shown(self._program, self._row[0], *found)
        return found

    def step(self, action: Any) -> Any:
        """Take a step; see the env."""
        found = super().step(action)  # type: ignore[misc]
        put_shown(self._program, self._row[0], found[0])
        return found

    def get_state(self) -> np.ndarray:
        """Return the state's bytes, `[S]` uint8, fresh.

        Raises:
            ResetNeeded: before the first reset.
            IncompleteState: an attribute holds a value of another kind than was compiled.
        """
        if not self._begun:
            raise ResetNeeded(f"{type(self).__name__}.get_state: call reset() first.")
        return whole_record(self._program, self, self._row).view(np.uint8).reshape(-1)

    def set_state(self, state: np.ndarray) -> None:
        """Continue from `state`, `[S]` uint8 from `get_state`; no reset is needed.

        Raises:
            DamagedState: wrong size or type, or no state of this env; nothing is changed.
        """
        where = f"{type(self).__name__}.set_state"
        row = check_row(where, state, self.kernel.state.itemsize).view(self.kernel.state)
        if not self._program.fits(row[0]) or (
            self._program.draws and not pcg64.could_be_rng(row[0]["rng"])
        ):
            raise DamagedState(f"{where}: it is no state of this env. Pass a row from get_state.")
        self._row, self._begun = row, True
        self._program.restore(self, row[0])
        if self._program.draws:
            pcg64.set_generator(self.np_random, row[0]["rng"])  # type: ignore[attr-defined]


def translated(cls: type, args: Any, kwargs: dict[str, Any]) -> tuple[Kernel, Program]:
    """Return the kernel of an env with its arguments, and the translation.

    Raises:
        NoKernel: something cannot be translated.
    """
    example = cls(*args, **kwargs)
    check_reset(example)
    if getattr(example, "render_mode", None) is not None:
        example.render_mode = None  # compiled rows are not drawn
    example.reset(seed=0)
    program = Program(example, cls)
    step, reset = _functions(program.source, tuple(program.helpers), cls.__module__)
    info = program.step_info or {}
    said = program.reset_info or {}
    fits = {name: inner for name, (_, inner) in said.items()}
    known = {name: inner for name, (_, inner) in info.items()}
    shown = all(known.get(name) == inner for name, inner in fits.items())
    kernel = Kernel(
        state=program.record(),
        step=step,
        reset=reset,
        observe=_observe(program.obs[1]),
        params=program.params,
        info=_info_dtype(program) if info else None,
        check=_check(
            tuple((f"{n}.tag", len(o)) for n, o in program.fields.items() if len(o) > 1),
            program.draws,
        ),
        reset_info=_reset_info(tuple((n, bool(s)) for n, s in fits.items()))
        if shown and said
        else silent,
    )
    return kernel, program


def _info_dtype(program: Program) -> np.dtype[Any]:
    return np.dtype([(n, Num(k, "").dtype, s) for n, (k, s) in (program.step_info or {}).items()])


@functools.cache
def _functions(source: str, helpers: tuple[str, ...], module: str) -> tuple[Any, Any]:
    """Return `step` and `reset` of a text; the same ones for the same text."""
    runtime.register_loops()
    scope: dict[str, Any] = {name: getattr(runtime, name) for name in _HELPERS}
    scope |= {"np": np, "math": math, "pcg64": pcg64, "__name__": f"{module}:compiled"}
    exec(compile(source, f"<compiled {module}>", "exec"), scope)
    for name in helpers:
        compiled(scope[name])
    return scope["step"], scope["reset"]


@functools.cache
def _made(source: str) -> Any:
    scope: dict[str, Any] = {"pcg64": pcg64, "__name__": "compiled"}
    exec(source, scope)
    return compiled(scope["made"])


def _observe(shape: tuple[int, ...]) -> Any:
    size = int(np.prod(shape))
    flat = "obs" if len(shape) == 1 else "obs.reshape(-1)"
    lines = ["def made(state, params, obs):", f"    flat = {flat}", f"    for k in range({size}):"]
    return _made("\n".join([*lines, '        flat[k] = state[".obs"][k]', ""]))


def _check(tags: tuple[tuple[str, int], ...], draws: bool) -> Any:
    tests = [f'state["{name}"] < {count}' for name, count in tags]
    tests += ['pcg64.could_be_rng(state["rng"])'] * draws
    return _made(f"def made(state, params):\n    return {' and '.join(tests) or 'True'}\n")


def _reset_info(names: tuple[tuple[str, bool], ...]) -> Any:
    lines = [f'    info["{n}"]{"[:]" * v} = state[".said.{n}"]' for n, v in names]
    return _made("\n".join(["def made(state, params, info):", *lines, ""]))
