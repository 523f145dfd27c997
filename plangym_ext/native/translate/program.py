"""Program: translation of a whole env, its fields as a record, its functions as source text."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import textwrap
import types
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.errors import NoKernel
from plangym_ext.native.translate.arguments import parameters_of
from plangym_ext.native.translate.arguments import passed as passed_as
from plangym_ext.native.translate.arrays import code
from plangym_ext.native.translate.calls import method_of
from plangym_ext.native.translate.fields import Fields
from plangym_ext.native.translate.python_calls import to_float
from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Const,
    Info,
    Me,
    Method,
    Mixed,
    Num,
    Rng,
    Seq,
    Untranslatable,
    built,
    cast,
    form,
    joined,
    leaves,
    mark_named,
    parts_in,
)
from plangym_ext.native.translate.walk import Walk, function_values

_ARRAYS = gym.spaces.Box | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
_SILENT = ("gymnasium.logger",)


class Program(Fields):
    """One env's translation.

    Args:
        env: an instance that was reset; what its functions do not change is taken for constant.
        cls: the class whose functions are translated.

    Attributes:
        source: text of `step`, `reset` and what they call.
        params: what it takes as `params`.
        step_info: infos of a step: name -> (kind, shape).
        reset_info: infos of a reset, likewise.
    """

    def __init__(self, env: Any, cls: type) -> None:
        super().__init__(env)
        self.cls = cls
        for _ in range(20):
            self._begin()
            none = {"seed": Const(None), "options": Const(None)}
            self._entry("reset", [Me()], none, "state, params", self._reset_ends)
            self._entry(
                "step", [Me(), self._action()], {}, "state, params, action, info", self._step_ends
            )
            self.source = "\n\n".join(self._texts) + "\n"
            self.params = self.arrays()
            if not self.changed:
                break
        else:
            raise NoKernel(f"{cls.__qualname__}: its fields take ever more types")

    def _begin(self) -> None:
        self.begin_pass()
        self._memo: dict[Any, Any] = {}
        self.effects: list[set[str]] = [set()]
        self._stack: list[Any] = []
        self._texts: list[str] = []
        self.helpers: list[str] = []
        self.step_info: dict[str, Any] | None = None
        self.reset_info: dict[str, Any] | None = None

    def _action(self) -> Any:
        space = self.env.action_space
        if isinstance(space, gym.spaces.Discrete):
            return Num("i?", "action")
        shape: tuple[int, ...] = space.shape or ()
        if isinstance(space, _ARRAYS) and len(shape) == 1:
            places = tuple(range(shape[0]))
            return Arr(code(space.dtype), shape, None, "action", "", places, "?")
        raise NoKernel(f"actions of a kernel are a number or a vector; these are of {space}")

    def _entry(self, name: str, given: list[Any], named: Any, head: str, ends: Any) -> None:
        function = getattr(self.cls, name)
        tree, scope, defaults = self._source(function)
        accepted = {one.arg for one in (*tree.args.args, *tree.args.kwonlyargs)}
        kept = {key: one for key, one in named.items() if key in accepted}
        values = function_values(tree, given, {**defaults, **kept})
        # Each field may have all of its forms.
        forms = {f"self.{key}": frozenset(range(len(one))) for key, one in self.fields.items()}
        walk = Walk(self, tree, scope, {**values, **forms}, ends)
        lines = self._located(walk, function, entry=True)
        self._texts.append("\n".join([f"def {name}({head}):", *lines]))

    def _located(self, walk: Walk, function: Any, *, entry: bool = False) -> list[str]:
        """Run a walk; a refusal names the place in the file."""
        try:
            return walk.run_by_kinds() if entry else walk.run()
        except (Untranslatable, TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, NoKernel):  # of a function that is called
                raise
            file = inspect.getsourcefile(function) or "?"
            line = getattr(walk.node, "lineno", walk.tree.lineno)
            text = ast.unparse(walk.node).partition("\n")[0]
            raise NoKernel(f"{file}, line {line}: `{text}`: {error}") from None

    @staticmethod
    @functools.cache
    def _parsed(function: Any) -> ast.FunctionDef:
        if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
            raise Untranslatable("a function that is decorated, or not written in Python")
        try:
            lines, first = inspect.getsourcelines(function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, SyntaxError):
            raise Untranslatable(f"there is no source of {function.__qualname__}") from None
        ast.increment_lineno(tree, first - 1)
        found = tree.body[0]
        if not isinstance(found, ast.FunctionDef):
            raise Untranslatable("a function of this form")
        for node in ast.walk(found):
            if isinstance(node, ast.Global | ast.Nonlocal | ast.Yield | ast.YieldFrom):
                raise Untranslatable(f"{type(node).__name__.lower()} in {function.__qualname__}")
        return found

    def _source(self, function: Any) -> tuple[ast.FunctionDef, dict[str, Any], dict[str, Any]]:
        try:
            tree = self._parsed(function)
        except Untranslatable as error:
            raise NoKernel(f"{getattr(function, '__qualname__', function)}: {error}") from None
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        scope = dict(function.__globals__)
        scope |= {name: cell.cell_contents for name, cell in cells.items()}
        parameters = inspect.signature(function).parameters.values()
        defaults = {f"{p.name}=": p.default for p in parameters if p.default is not p.empty}
        return tree, scope, defaults

    # What the walks ask -----------------------------------------------------------

    @contextlib.contextmanager
    def watched(self) -> Iterator[set[str]]:
        """Yield what is changed in the block: names of fields, "np_random"."""
        self.effects.append(set())
        try:
            yield self.effects[-1]
        finally:
            found = self.effects.pop()
            self.effects[-1] |= found

    def attribute(self, walk: Walk, name: str) -> Any:
        """Return an attribute of the env."""
        if name == "np_random":
            self.draws = True
            return Rng()
        if name in self.fields:
            return self.read(walk, name)
        if name == "unwrapped":
            return Me()
        if name == "spec":
            raise Untranslatable("spec, which an env is given after it was made")
        found = inspect.getattr_static(self.cls, name, None)
        if isinstance(found, property) and name not in vars(self.env):
            return self.call(walk, found.fget, [Me()], {})
        if isinstance(found, types.FunctionType) and name not in vars(self.env):
            return Method(Me(), found)
        if not hasattr(self.env, name):
            raise Untranslatable(f"the env has no {name} when it was reset")
        if found is None and name not in vars(self.env):
            raise Untranslatable(f"{name} is no attribute, but made when it is asked for")
        value = getattr(self.env, name)
        if isinstance(value, np.random.Generator):
            raise Untranslatable("a generator other than np_random")
        return walk.constant(value, name)

    def inherited(self, cls: type, name: str) -> Any:
        """Return `super().name`, in a function of a class."""
        mro = self.cls.__mro__
        for one in mro[mro.index(cls) + 1 :]:
            if name in vars(one):
                if one is gym.Env:
                    return Const(_nothing)  # it seeds, and nothing is seeded as it runs
                return Method(Me(), vars(one)[name])
        raise Untranslatable(f"no inherited {name}")

    def is_silent(self, function: Any) -> bool:
        """Return whether a function only tells the user something."""
        module = getattr(function, "__module__", "")
        return function is _nothing or module in _SILENT or function is warnings.warn

    def call_bound(self, walk: Walk, method: Any, given: list[Any], named: dict[str, Any]) -> Any:
        """Return what a method of a constant object gives."""
        if method.__self__ is self.env:
            return self.call(walk, method.__func__, [Me(), *given], named)
        return method_of(walk, Const(method.__self__), method.__name__, given, named)

    def call(self, walk: Walk, function: Any, given: list[Any], named: dict[str, Any]) -> Any:
        """Return what a Python function gives; it becomes a function of the translation."""
        tree, scope, defaults = self._source(function)
        texts: list[str] = []
        keys: list[Any] = []
        values = function_values(tree, given, {**defaults, **named})
        passed = {}
        for k, (name, value) in enumerate(values.items()):
            passed[name], key = passed_as(walk, walk.plain(value), f"a{k}", texts)
            keys.append((name, key))
        fields = {key: one for key, one in walk.vars.items() if key.startswith("self.")}
        memo = (
            function,
            tuple(keys),
            tuple(sorted((k, tuple(sorted(v))) for k, v in fields.items())),
        )
        if memo in self._stack:
            raise Untranslatable(f"{function.__name__} calls itself")
        if memo not in self._memo:
            self._stack.append(memo)
            names = [one for one, _ in parameters_of(passed)]
            with self.watched() as effects:
                one = self._function(function, tree, scope, {**passed, **fields}, names)
            self._memo[memo] = (*one, effects)
            self._stack.pop()
        label, wanted, after, constant, is_given, effects = self._memo[memo]
        self.effects[-1] |= effects
        for name in effects:
            self.check_alone(walk, name)
        if not after and wanted is not None:
            walk.emit("raise ValueError")
            walk.alive = False
            return Const(None)
        if constant is not None:
            return constant
        walk.vars.update(after)
        result = walk.fresh()
        outs = [name for name, _ in leaves(wanted, result)]
        head = f"{', '.join(outs)}{',' * (len(outs) == 1)} = " if outs else ""
        walk.emit(f"{head}{label}({', '.join(['state', 'params', *texts])})")
        found = built(wanted, result)
        if is_given:
            mark_named(found)
        return found

    def _function(
        self, function: Any, tree: Any, scope: Any, values: dict[str, Any], names: list[str]
    ) -> Any:
        found: list[Any] = []
        raw: list[Any] = []

        def note(walk: Walk, value: Any) -> None:
            raw.extend(parts_in(walk.plain(value)))
            found.append(_kept(walk, value))

        first = Walk(self, tree, scope, dict(values), note)
        lines = self._located(first, function)
        given = [one for value in values.values() for one in parts_in(value)]
        #: Whether it returns an array or a list that it was given.
        is_given = any(one is other for one in raw if isinstance(one, Arr | Seq) for other in given)
        label = f"h{len(self._memo)}_{function.__name__.strip('<>')}"
        wanted: Any = form(found[0]) if found else form(Const(None))
        for one in found[1:]:
            wanted = joined(wanted, form(one))
        after: dict[str, Any] = {}
        for one in first.returned:
            for key, known_ones in one.items():
                if key.startswith("self."):
                    after[key] = after.get(key, frozenset()) | known_ones
        if len(found) == 1 and not lines and _is_constant(found[0]):
            return label, wanted, after or {"": None}, found[0], False

        def ends(walk: Walk, value: Any) -> None:
            walk.convert(_kept(walk, value), wanted, "r")
            outs = [name for name, _ in leaves(wanted, "r")]
            walk.emit(f"return {', '.join(outs)}{',' * (len(outs) == 1)}".rstrip())

        second = Walk(self, tree, scope, dict(values), ends)
        lines = self._located(second, function)
        self.helpers.append(label)
        self._texts.append(
            "\n".join([f"def {label}({', '.join(['state', 'params', *names])}):", *lines])
        )
        return label, wanted, after or ({} if not found else {"": None}), None, is_given

    # Ends -------------------------------------------------------------------------

    def _step_ends(self, walk: Walk, value: Any) -> None:
        obs, reward, terminated, truncated, info = _results(walk, value, 5)
        self._observe(walk, obs)
        self.step_info = self._say(walk, info, self.step_info, 'info["{}"]')
        total = to_float(walk, reward)
        flags = [walk.truth(one).text for one in (terminated, truncated)]
        walk.emit(f"return {total.text}, {flags[0]}, {flags[1]}")

    def _reset_ends(self, walk: Walk, value: Any) -> None:
        obs, info = _results(walk, value, 2)
        self._observe(walk, obs)
        self.reset_info = self._say(walk, info, self.reset_info, 'state[".said.{}"]')
        walk.emit("return")

    def _observe(self, walk: Walk, obs: Any) -> None:
        dtype: np.dtype[Any]
        shape: tuple[int, ...]
        space = self.env.observation_space
        if isinstance(space, gym.spaces.Discrete):
            dtype, shape = np.dtype("i8"), (1,)
        elif isinstance(space, _ARRAYS):
            dtype, shape = space.dtype, space.shape or (1,)
        else:
            raise Untranslatable(f"an observation of {space}: a kernel's are single arrays")
        self.obs = (dtype, shape)
        size = int(np.prod(shape))
        target = Arr(code(dtype), shape, None, 'state[".obs"]', "", tuple(range(size)))

        def write(one: Any) -> Any:
            array = walk.as_array(one)
            if array.shape not in (shape, ()) or (array.shape == () and size != 1):
                raise Untranslatable(
                    f"an observation of shape {array.shape}; the space has {shape}"
                )
            walk.fill(target, array)

        walk.each(obs, write)

    def _say(self, walk: Walk, info: Any, before: Any, place: str) -> dict[str, Any]:
        if not isinstance(info, Info):
            raise Untranslatable("infos that are no dict with known keys")
        found: dict[str, Any] = {}
        for key, value in info.items.items():
            if isinstance(value, Mixed) or not isinstance(value, Num | Arr):
                raise Untranslatable(f"the info {key!r} is no number or array, or not always")
            where = place.format(key)
            if isinstance(value, Num):
                found[key] = (value.kind, ())
                walk.emit(f"{where} = {cast(value, value.dtype)}")
                continue
            if len(value.shape) != 1:
                raise Untranslatable(f"the info {key!r} is no vector")
            found[key] = (value.kind, value.shape)
            target = Arr(value.kind, value.shape, None, where, "", tuple(range(value.size)))
            walk.fill(target, value)
        if before is not None and before != found:
            raise Untranslatable(f"infos {found}; elsewhere {before}")
        return found


def _nothing() -> None:
    """Do nothing, in the place of `gymnasium.Env.reset`."""


def _results(walk: Walk, value: Any, count: int) -> list[Any]:
    items = walk.listed(value) if isinstance(value, Seq) else []
    if len(items) != count:
        raise Untranslatable(f"expected {count} results")
    return [walk.plain(one) for one in items]


def _kept(walk: Walk, value: Any) -> Any:
    """Return a value that does not refer to memory of the function that returns it."""
    value = walk.plain(value)
    if isinstance(value, Arr) and value.items is None:
        if (
            value.owner in walk.program.fields or value.owner.startswith("params")
        ) and not value.offset:
            return value
        if value.size > 64:
            raise Untranslatable("a function that returns a large array")
        return Arr(value.kind, value.shape, [walk.element(value, k) for k in range(value.size)])
    if isinstance(value, Seq):
        return Seq([_kept(walk, one) for one in value.items], value.is_list)
    return value


def _is_constant(value: Any) -> bool:
    if isinstance(value, Seq):
        return all(map(_is_constant, value.items))
    return isinstance(value, Const) or (isinstance(value, Num) and value.const is not VARIES)
