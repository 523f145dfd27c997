"""compile_env: a user's Python env as a kernel, if the two are equal bit for bit."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.errors import DamagedState, ResetNeeded, UnknownName, WrongKind
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.known import register_kernel
from plangym_ext.native.kernel.row_kernel import Kernel, silent
from plangym_ext.native.kernel.rules_env import check_row
from plangym_ext.native.translate import runtime
from plangym_ext.native.translate.comparison import compared
from plangym_ext.native.translate.program import Program
from plangym_ext.native.translate.record import put_shown, whole_record
from plangym_ext.native.translate.values import Num

#: Env steps of the comparison that is made unasked: it takes a second or so.
STEPS = 20_000
_HELPERS = (
    "exact",
    "product",
    "nonzero",
    "place",
    "whole",
    "float_mod",
    "float_floor",
    "power",
    "categorical",
    "normal",
    "standard_normal",
    "call_loop",
)


def compile_env(env: type | str, *, steps: int = STEPS, **kwargs: Any) -> type[gym.Env[Any, Any]]:
    """Return a class of the same env with a compiled kernel, which `make` and `make_vec` use.

    Its `step` and `reset` are translated from their source: numbers and arrays in, numbers and
    arrays out. What is translated is compared with the class itself, bit for bit; the env's
    arguments may be others later, for which it is translated again when an env is made.

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
        WrongKind: it is no class of envs.
        UnknownName: there is no such module, class or env.
    """
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
    except (ImportError, AttributeError, gym.error.Error) as error:
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
