"""Translation of the expressions in an env's functions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.calls import call_value, method_of
from plangym_ext.native.translate.operators import Operators
from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Const,
    Info,
    Me,
    Method,
    Mixed,
    Num,
    Seq,
    Untranslatable,
    known,
    literal,
)


class Expressions(Operators):
    """Translation of expressions."""

    scope: dict[str, Any]

    def eval(self, node: ast.expr) -> Any:
        """Return the value of an expression; what it computes is written."""
        before, self.node = self.node, node if hasattr(node, "lineno") else self.node
        method = getattr(self, f"_e_{type(node).__name__.lower()}", None)
        if method is None:
            raise Untranslatable(f"a {type(node).__name__.lower()} expression")
        found = method(node)
        self.node = before
        return found

    def static(self, value: Any) -> Any:
        """Return the object that a value is known to be."""
        if isinstance(value, Num) and value.const is not VARIES:
            return value.const
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Seq):
            found = [self.static(one) for one in value.items]
            return found if value.is_list else tuple(found)
        raise Untranslatable("a value that is only known as it runs")

    def each(self, value: Any, function: Callable[[Any], Any]) -> Any:
        """Return a function's value of each kind that a value may have, joined."""
        if not isinstance(value, Mixed):
            return function(value)
        branches = [
            (f"{value.tag} == {k}", lambda one=one: self._attempt(function, one))
            for k, one in enumerate(value.options)
        ]
        return self.fork(branches)

    def _attempt(self, function: Callable[[Any], Any], value: Any) -> Any:
        """Return a function's value; write `raise TypeError` where it cannot translate None."""
        if not isinstance(value, Const) or value.value is not None:
            return function(value)
        try:
            return function(value)
        except Untranslatable:
            self.emit("raise TypeError")
            self.alive = False
            return None

    # Names ----------------------------------------------------------------------

    def _e_constant(self, node: ast.Constant) -> Any:
        return known(node.value)

    def _e_joinedstr(self, node: ast.JoinedStr) -> Any:  # noqa: ARG002 - as its like
        raise Untranslatable("a text that is made as it runs")

    def _e_name(self, node: ast.Name) -> Any:
        if node.id in self.vars:
            return self.vars[node.id]
        if node.id in self.scope:
            return self.constant(self.scope[node.id])
        if hasattr(builtins, node.id):
            return Const(getattr(builtins, node.id))
        raise Untranslatable(f"{node.id} may have no value here")

    def constant(self, value: Any, label: str = "") -> Any:
        """Return an object that does not change."""
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return self.program.constant_array(value, label)
        return known(value)

    def _e_attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
            return self.program.inherited(self.scope["__class__"], node.attr)
        return self.each(self.eval(node.value), lambda owner: self._attribute(owner, node.attr))

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Me):
            return self.program.attribute(self, name)
        if isinstance(owner, Const):
            if not hasattr(owner.value, name):
                raise Untranslatable(f"there is no {name}")
            value = getattr(owner.value, name)
            is_data = isinstance(owner.value, list | dict | str | tuple)
            return (
                Method(owner, name)
                if is_data or _is_of(value, owner.value)
                else (self.constant(value))
            )
        if isinstance(owner, Arr) and name in ("shape", "size", "ndim", "T"):
            if name == "T":
                return self.transposed(owner)
            shape = Seq([literal(n) for n in owner.shape])
            return {"shape": shape, "size": literal(owner.size), "ndim": literal(len(owner.shape))}[
                name
            ]
        if isinstance(owner, Arr | Num) and name == "dtype":
            return Const(np.dtype(Num(owner.kind, "").dtype))
        return Method(owner, name)

    # Collections ----------------------------------------------------------------

    def _e_tuple(self, node: ast.Tuple) -> Seq:
        return Seq(self._items(node.elts))

    def _e_list(self, node: ast.List) -> Seq:
        return Seq(self._items(node.elts), True)

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.listed(self.eval(node.value))
            else:
                found.append(self.plain(self.eval(node)))
        for one in found:
            if isinstance(one, Seq):
                one.held = True  # under two names from here on
        return found

    def _e_dict(self, node: ast.Dict) -> Info:
        if any(key is None for key in node.keys):
            raise Untranslatable("a dict that is made of others")
        keys = [self.static(self.eval(key)) for key in node.keys if key is not None]
        return Info(dict(zip(keys, self._items(node.values), strict=True)))

    def _e_listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        return self.comprehension(node, node.elt)

    _e_generatorexp = _e_listcomp

    def _e_subscript(self, node: ast.Subscript) -> Any:
        return self.subscript(self.eval(node.value), node.slice)

    def _e_call(self, node: ast.Call) -> Any:
        if any(isinstance(one, ast.Starred) for one in node.args) or any(
            one.arg is None for one in node.keywords
        ):
            raise Untranslatable("arguments from a list or dict")
        function = self.eval(node.func)
        if isinstance(function, Const) and self.program.is_silent(function.value):
            return Const(None)
        with self.program.watched() as effects:
            given = [self.eval(one) for one in node.args]
        if (
            effects
            and function in (Const(any), Const(all))
            and isinstance(node.args[0], ast.GeneratorExp)
        ):
            raise Untranslatable("any or all of things that change something, up to the first one")
        named = {str(one.arg): self.eval(one.value) for one in node.keywords}
        if isinstance(function, Method) and isinstance(function.owner, Me):
            return self.program.call(self, function.function, [Me(), *given], named)
        if isinstance(function, Method):
            return self.each(
                function.owner, lambda one: method_of(self, one, function.function, given, named)
            )
        return call_value(self, function, given, named)


def _is_of(value: Any, owner: Any) -> bool:
    """Return whether a value is a method of an object."""
    return (
        callable(value)
        and getattr(value, "__self__", None) is owner
        and not isinstance(owner, type(np))
    )
