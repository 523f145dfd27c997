"""Kernel registry: registration, and lookup of the kernel that fits a given env."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces, wrappers

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.invalid import MARKS
from plangym_ext.core.results import RESULT_FIELDS, RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import NoKernel, WrongKind
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.native_env import state_of
from plangym_ext.states.codec import layers
from plangym_ext.states.families import family_of, load_named
from plangym_ext.states.wrapper_parts import TimeLimitPart

_registered: dict[str, str | Callable[[Any], Kernel]] = {}

#: Wrappers that the compiled loop stands in for; the second and third do nothing to it.
_WRAPPERS = (wrappers.TimeLimit, wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)
#: Ways of capturing a state that write the same fields at the same places always.
_FIXED = ("codec", "own")


@checking_arguments
def register_kernel(env_class: type | str, kernel: str | Callable[[Any], Kernel]) -> None:
    """Register a compiled kernel for an env class; `make` then uses it.

    Args:
        env_class: class of the unwrapped env, or its name as "module:name". Classes
            that derive from it are not meant: they may have other rules.
        kernel: callable from the unwrapped env to the `Kernel` for its arguments, or
            its name as "module:name". It raises `NoKernel` for arguments that it does
            not know.
    """
    if isinstance(env_class, type):
        if not issubclass(env_class, gym.Env):
            raise WrongKind(f"register_kernel: expected a gymnasium.Env class; got {env_class!r}")
        env_class = f"{env_class.__module__}:{env_class.__qualname__}"
    _registered[env_class] = kernel


def may_have_kernel(target: Any) -> bool:
    """Return whether a kernel may be registered for an entry point, a class or its name."""
    if isinstance(target, type):
        target = f"{target.__module__}:{target.__qualname__}"
    # What another callable makes is not known before it is called.
    return bool(_registered) and (not isinstance(target, str) or target in _registered)


def find_kernel(env: GymEnv, kernel: Kernel | None = None) -> Kernel:
    """Return the kernel of an env with its arguments and wrappers.

    Args:
        env: the env.
        kernel: one to examine instead of the registered one.

    Raises:
        NoKernel: there is none, or it would not do what the env does; the message says why.
    """
    try:
        kernel = _kernel_for(env.gym_env.unwrapped) if kernel is None else kernel
    except NoKernel as error:
        raise NoKernel(error.reason, name=env.name) from None
    reason = _wrong_wrapper(env) or _wrong_spaces(env) or _wrong_state(env, kernel)
    reason = reason or _wrong_info(env, kernel)
    if reason:
        raise NoKernel(reason, name=env.name)
    return kernel


def _kernel_for(base: Any) -> Kernel:
    kernel = _factory(base)(base)
    if not isinstance(kernel, Kernel):
        raise WrongKind(
            f"{type(base).__qualname__}: what is registered as its kernel must return a Kernel; "
            f"got {kernel!r}"
        )
    return kernel


def _factory(base: Any) -> Callable[[Any], Kernel]:
    cls = type(base)
    own = _registered.get(f"{cls.__module__}:{cls.__qualname__}")
    if own is not None:
        factory: Callable[[Any], Kernel] = load_named(own)
        return factory
    family = family_of(base)
    found = family.load_native("kernel") if family is not None else None
    if found is None:
        raise NoKernel(f"{cls.__qualname__}: no kernel is known for this class")
    return found


def _wrong_wrapper(env: GymEnv) -> str:
    above = layers(env.gym_env)[:-1]
    for layer in above:
        if type(layer) not in _WRAPPERS:
            return f"the compiled loop does not know the wrapper {type(layer).__qualname__}"
    if sum(type(layer) is wrappers.TimeLimit for layer in above) > 1:
        return "the compiled loop counts for one TimeLimit only"
    return ""


def _wrong_spaces(env: GymEnv) -> str:
    for space in (env.observation_space, env.action_space):
        if not isinstance(
            space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        ):
            return f"a kernel's observations and actions are single arrays; this is {space}"
    return ""


def _wrong_state(env: GymEnv, kernel: Kernel) -> str:
    parts = [part for part in env.codec.parts if not isinstance(part, TimeLimitPart)]
    if len(parts) != 1 or parts[0].method not in _FIXED or not parts[0].exact:
        ways = ", ".join(part.method for part in parts)
        return f"its state is captured as {ways}; a kernel reads what a codec or get_state writes"
    if kernel.state.itemsize != parts[0].width:
        return (
            f"its state takes {parts[0].width} bytes, that of the kernel "
            f"{kernel.state.itemsize}; both must be the same fields in the same order"
        )
    return ""


def _wrong_info(env: GymEnv, kernel: Kernel) -> str:
    fields = () if kernel.info is None else kernel.info.names or ()
    mine = [(name, *_shaped(kernel.info[name])) for name in fields]  # type: ignore[index]
    theirs = [(column.key, *_shaped(_dtype(column))) for column in env.layout.info]
    # The marks of invalid values are no info of the env's, and stand last.
    theirs = theirs[:-1] if MARKS in env.layout.info else theirs
    if mine != theirs:
        return f"the kernel's info fields must be the env's, {theirs}; got {mine}"
    return ""


def _dtype(column: InfoColumn) -> np.dtype[Any]:
    return np.dtype((column.dtype, column.shape))


def _shaped(dtype: np.dtype[Any]) -> tuple[str, tuple[int, ...]]:
    return dtype.base.str, dtype.shape


# Self-test of a kernel --------------------------------------------------------
# A kernel is a second text of the same rules. Another version of the simulator, another
# mathematics library or a slip of the pen would make it another env, so it is compared
# before its first results are used.


_ROUNDS, _ROWS, _HORIZON = 4, 6, 12
#: Env steps of the comparison: every other round takes two for each action.
_STEPS = _ROUNDS * _ROWS * _HORIZON * 3 // 2
#: Seconds of env steps that a comparison may take which was not asked for.
_MOST_SECONDS = 20.0
_GUARD = 0xA5


class GuardedMemory:
    """Allocates arrays with a guard row of known bytes before and after."""

    def __init__(self) -> None:
        self._guards: list[np.ndarray] = []

    def new(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of a shape and dtype, as `numpy.empty` does."""
        size, *rest = (shape,) if isinstance(shape, int) else shape
        whole = np.empty((size + 2, *rest), dtype)
        whole.view(np.uint8).reshape(-1)[...] = _GUARD
        self._guards += [whole[:1], whole[-1:]]
        return whole[1:-1]

    def intact(self) -> bool:
        """Return whether nothing was written outside the arrays."""
        return all((guard.view(np.uint8) == _GUARD).all() for guard in self._guards)


def first_difference(
    env: GymEnv,
    run: Callable[[RowRequest, GuardedMemory], RowResults | None],
    *,
    required: bool = True,
) -> str:
    """Return the first difference between an env and its kernel, or "" without any.

    Args:
        env: the reference; it is left where it was.
        run: runs a request on the kernel; None if the kernel refused a row.
        required: whether to compare however long it takes; else an env whose steps take too
            long differs.
    """
    seconds = (env.step_seconds or 0.0) * _STEPS
    if seconds > _MOST_SECONDS and not required:
        return (
            f"a step of the env takes {env.step_seconds:.2g} s, so to compare it with the kernel "
            f"would take {seconds:.0f} s"
        )
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    states = np.repeat(state_of(env), _ROWS, axis=0)
    reset_first = np.ones(_ROWS, bool)
    for turn in range(_ROUNDS):
        actions = np.array([[space.sample() for _ in range(_HORIZON)] for _ in range(_ROWS)])
        actions = actions.astype(env.layout.action.leaves[0].dtype, copy=False)
        dt = np.array(1 + turn % 2, np.int32)
        request = RowRequest((actions,), states, dt, reset_first)
        memory = GuardedMemory()
        got = run(request, memory)
        if not memory.intact():
            return "the kernel wrote outside its row"
        try:
            want = env._run_rows(request)
        except Exception as error:  # such as an invalid value, which ends the comparison
            return "" if got is None else f"the env raises {error!r}, the kernel goes on,"
        if got is None and not all(np.isfinite(one).all() for one in (want.rewards, want.obs[0])):
            return ""  # such rows are left to the env, here and later
        if got is None:
            return "the kernel refused a state that the env takes, or raised"
        field = _differs(want, got)
        if field:
            return f"{field} of row {_first_row(want, got)} differ in batch {turn + 1} of {_ROUNDS}"
        states, reset_first = want.states, want.terminated | want.truncated
    return ""


def _fields(results: RowResults) -> dict[str, np.ndarray]:
    fields = {"observations": results.obs[0]}
    fields |= {one.name: getattr(results, one.name) for one in RESULT_FIELDS}
    fields |= {f"infos[{key!r}]": results.infos[key] for key in results.infos.keys()}  # noqa: SIM118
    # Last: what else differs says more.
    return fields | {"states": fields.pop("states")}


def _differs(want: RowResults, got: RowResults) -> str:
    mine, theirs = _fields(want), _fields(got)
    if mine.keys() != theirs.keys():
        return "info fields"
    if any(a.keys() != b.keys() for a, b in zip(want.infos, got.infos, strict=True)):
        return "info fields"
    return next((name for name in mine if mine[name].tobytes() != theirs[name].tobytes()), "")


def _first_row(want: RowResults, got: RowResults) -> int:
    mine, theirs = _fields(want), _fields(got)
    for row in range(len(want.terminated)):
        if any(mine[name][row].tobytes() != theirs[name][row].tobytes() for name in mine):
            return row
    return -1
