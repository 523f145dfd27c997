"""Translation of operators and comparisons, with the types of Python and numpy."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.collected import Collections
from plangym_ext.native.translate.numpy_calls import resolved
from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Choice,
    Const,
    Info,
    Me,
    Method,
    Mixed,
    Num,
    Rng,
    Seq,
    Untranslatable,
    cast,
    literal,
)

_OPERATORS: dict[type, tuple[str, np.ufunc, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", np.add, operator.add),
    ast.Sub: ("-", np.subtract, operator.sub),
    ast.Mult: ("*", np.multiply, operator.mul),
    ast.Div: ("/", np.true_divide, operator.truediv),
    ast.FloorDiv: ("//", np.floor_divide, operator.floordiv),
    ast.Mod: ("%", np.remainder, operator.mod),
    ast.Pow: ("**", np.power, operator.pow),
    ast.BitAnd: ("&", np.bitwise_and, operator.and_),
    ast.BitOr: ("|", np.bitwise_or, operator.or_),
    ast.BitXor: ("^", np.bitwise_xor, operator.xor),
    ast.LShift: ("<<", np.left_shift, operator.lshift),
    ast.RShift: (">>", np.right_shift, operator.rshift),
}
_SIGNS: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
}
_COMPARISONS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


class Operators(Collections):
    """Translation of operators."""

    fork: Callable[..., Any]

    def _e_binop(self, node: ast.BinOp) -> Any:
        left = self.eval(node.left)
        return self.binary(type(node.op), left, self.eval(node.right))

    def binary(self, op: type, a: Any, b: Any) -> Any:
        """Return what an operator gives for two values."""
        a, b = self.parts_of(self.plain(a)), self.parts_of(self.plain(b))
        if isinstance(a, Mixed) or isinstance(b, Mixed):
            return self.each(a, lambda x: self.each(b, lambda y: self.binary(op, x, y)))
        if isinstance(a, Num) and isinstance(b, Num):
            return self._arithmetic(op, a, b)
        if isinstance(a, Arr) or isinstance(b, Arr):
            a, b = self.as_array(a), self.as_array(b)
            return self.mapped(lambda x, y: self._elements(op, x, y), a, b)
        if isinstance(a, Seq) and isinstance(b, Seq) and op is ast.Add:
            return Seq([*a.items, *b.items], a.is_list)
        if isinstance(a, Seq) and isinstance(b, Num) and op is ast.Mult:
            return Seq(a.items * self.static(b), a.is_list)
        if isinstance(a, Const) and isinstance(b, Const):
            return self.constant(_OPERATORS[op][2](a.value, b.value))
        raise Untranslatable("an operator on values that are no numbers")

    def _elements(self, op: type, a: Num, b: Num) -> Num:
        """Return the operator for elements of arrays, which are powers and quotients of ufuncs."""
        if op is ast.Pow:
            if b.const is VARIES or b.const != 2 or a.kind not in ("f8", "f4"):
                raise Untranslatable("a power of an array other than a square of floats")
            return self.let(a.kind, f"{a.text} * {a.text}")
        return self._arithmetic(op, a, b)

    def _arithmetic(self, op: type, a: Num, b: Num) -> Num:
        sign, ufunc, python = _OPERATORS[op]
        if a.const is not VARIES and b.const is not VARIES:
            try:
                return literal(python(a.const, b.const))
            except (ArithmeticError, TypeError) as error:
                raise Untranslatable(str(error)) from None
        if a.kind == b.kind == "bool" and op is not ast.Div and sign not in "&|^":
            raise Untranslatable(f"{sign} of two truths, as Python's and numpy's give others")
        if {a.kind, b.kind} <= {"int", "float", "bool"}:
            return self._python_arithmetic(op, sign, a, b)
        first, second, result = resolved(ufunc, a, b)
        kind = "bool" if result == np.bool_ else result.str[1:]
        if {a.kind, b.kind} & {"f?", "i?"}:
            is_python = {a.kind, b.kind} <= {"f?", "i?", "float", "int", "bool"}
            kind = {"f8": "f?", "i8": "i?"}.get(kind, kind) if is_python else kind
        left, right = cast(a, first), cast(b, second)
        if result.kind == "f":
            return self._floats(op, sign, kind, left, right, b)
        return self._ints(op, sign, kind, left, right)

    def _python_arithmetic(self, op: type, sign: str, a: Num, b: Num) -> Num:
        if "float" in (a.kind, b.kind) or op is ast.Div:
            f8 = np.dtype("f8")
            if op is ast.Div:
                a, b = self.exact_int(a), self.exact_int(b)
            return self._floats(op, sign, "float", cast(a, f8), cast(b, f8), b)
        if op is ast.Pow and b.const is not VARIES and 0 < b.const <= 4:
            found = a
            for _ in range(b.const - 1):
                found = self.let("int", f"product({found.text}, {a.text})")
            return found
        if (a.kind, b.kind) == ("bool", "bool") and sign in "&|^":
            return self.let("bool", f"{a.text} {sign} {b.text}")
        i8 = np.dtype("i8")
        return self._ints(op, sign, "int", cast(a, i8), cast(b, i8))

    def exact_int(self, one: Num) -> Num:
        """Return a number; raise if it is an int of Python that is rounded as a float."""
        if one.kind not in ("int", "i?"):
            return one
        if one.const is not VARIES:
            if abs(one.const) > 2**53:
                raise Untranslatable("an int beyond 53 bits and a float")
            return one
        return self.let(one.kind, f"within({one.text}, {-(2**53)}, {2**53})")

    def _floats(self, op: type, sign: str, kind: str, a: str, b: str, exponent: Num) -> Num:
        narrow = "np.float32" if kind == "f4" else "float"
        if op is ast.Pow:
            if exponent.const is not VARIES:
                b = self.program.hidden_number(float(exponent.const))
                b = f"np.float32({b})" if kind == "f4" else b
            return self.let(kind, f"power({a}, {b})")
        if op in (ast.Mod, ast.FloorDiv):
            if kind == "f4":
                raise Untranslatable("a rest of float32")
            return self.let(kind, f"float_{'mod' if op is ast.Mod else 'floor'}({a}, {b})")
        if op is ast.Div:
            b = f"nonzero({b})"
        if op not in (ast.Add, ast.Sub, ast.Mult, ast.Div):
            raise Untranslatable(f"{sign} of floats")
        return self.let(kind, f"{narrow}({a} {sign} {b})")

    def _ints(self, op: type, sign: str, kind: str, a: str, b: str) -> Num:
        if kind == "bool":
            if sign not in "&|^":
                raise Untranslatable(f"{sign} of numpy's bools")
            return self.let("bool", f"{a} {sign} {b}")
        if kind in ("int", "i?", "i8"):
            if op is ast.Mult:
                return self.let(kind, f"product({a}, {b})")
            if op in (ast.FloorDiv, ast.Mod):
                return self.let(kind, f"{a} {sign} nonzero({b})")
            if op in (ast.Add, ast.Sub):
                return self.let(kind, f"exact({a} {sign} {b}, float({a}) {sign} float({b}))")
            if sign in "&|^":
                return self.let(kind, f"{a} {sign} {b}")
            if op is ast.RShift:
                return self.let(kind, f"{a} >> within({b}, 0, 63)")
        elif op in (ast.Add, ast.Sub, ast.Mult) or sign in "&|^":
            return self.let(kind, f"np.{np.dtype(kind).name}({a} {sign} {b})")
        raise Untranslatable(f"{sign} of integers")

    def _e_unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.plain(self.eval(node.operand))
        if isinstance(node.op, ast.Not):
            return self.negated(self.truth(value))
        sign = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(node.op)]
        return self.each(value, lambda one: self._signed(sign, one))

    def negated(self, test: Num) -> Num:
        """Return the opposite of a truth."""
        if test.const is not VARIES:
            return literal(not test.const)
        return self.let("bool", f"not {test.text}")

    def _signed(self, sign: str, value: Any) -> Any:
        if isinstance(value, Arr):
            if value.kind == "bool" and sign == "~":
                return self.mapped(self.negated, value)
            return self.mapped(lambda one: self._signed(sign, one), value)
        if not isinstance(value, Num):
            raise Untranslatable(f"{sign} of a value that is no number")
        if value.const is not VARIES:
            return literal(_SIGNS[sign](value.const))
        if value.kind == "bool":
            if sign == "~":
                raise Untranslatable("~ of a truth, as Python's and numpy's give others")
            value = Num("int", f"np.int64({value.text})")
        name = value.dtype.name
        return self.let(value.kind, f"np.{name}({sign}{value.text})")

    def _e_boolop(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        value = self.eval(node.values[0])
        for k, part in enumerate(node.values[1:], 1):
            test = self.truth(value)
            if test.const is not VARIES:
                if bool(test.const) is not is_and:
                    return value
                value = self.eval(part)
                continue
            rest = ast.BoolOp(node.op, node.values[k:]) if k < len(node.values) - 1 else part
            ast.copy_location(rest, part)
            return self._either(test, value, rest, is_and=is_and)
        return value

    def _either(self, test: Num, value: Any, rest: ast.expr, *, is_and: bool) -> Any:
        """Return a value or, where its truth lets it, the rest of an `and` or `or`."""
        branches: list[Callable[[], Any]] = [lambda: self.eval(rest), lambda: value]
        first, other = branches if is_and else branches[::-1]
        return self.fork([(test.text, first), ("", other)])

    def _e_ifexp(self, node: ast.IfExp) -> Any:
        test = self.truth(self.eval(node.test))
        if test.const is not VARIES:
            return self.eval(node.body if test.const else node.orelse)
        return self.fork(
            [(test.text, lambda: self.eval(node.body)), ("", lambda: self.eval(node.orelse))]
        )

    def truth(self, value: Any) -> Num:
        """Return the truth of a value."""
        value = self.plain(value)
        if isinstance(value, Mixed):
            return self.each(value, self.truth)
        if isinstance(value, Arr) and value.size == 1:
            value = self.element(value, 0)
        if isinstance(value, Num):
            if value.const is not VARIES:
                return literal(bool(value.const))
            return value if value.kind == "bool" else self.let("bool", f"{value.text} != 0")
        if isinstance(value, Seq | Info):
            return literal(bool(value.items))
        if isinstance(value, Const):
            return literal(bool(value.value))
        if isinstance(value, Me | Rng | Method):
            return literal(True)
        raise Untranslatable("the truth of this value")

    # Comparisons ----------------------------------------------------------------

    def _e_compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        parts: list[Any] = []
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            with self.program.watched() as effects:
                right = self.eval(right_node)
            if parts and effects:
                raise Untranslatable("a comparison after another one, which changes something")
            parts.append(self.compare(type(op), left, right))
            left = right
        if len(parts) == 1:
            return parts[0]
        found = self.truth(parts[0])
        for part in parts[1:]:
            found = self.both(found, self.truth(part))
        return found

    def both(self, a: Num, b: Num, sign: str = "and") -> Num:
        """Return whether both, or one, of two truths hold."""
        for one, other in ((a, b), (b, a)):
            if one.const is not VARIES:
                return other if bool(one.const) is (sign == "and") else literal(bool(one.const))
        return self.let("bool", f"{a.text} {sign} {b.text}")

    def compare(self, op: type, a: Any, b: Any) -> Any:
        """Return what a comparison gives for two values."""
        if op in (ast.In, ast.NotIn):
            found = literal(False)
            for one in self.listed(b):
                found = self.both(found, self.truth(self.compare(ast.Eq, a, one)), "or")
            return found if op is ast.In else self.negated(found)
        for table, other in ((a, b), (b, a)):
            if isinstance(table, Choice) and isinstance(other, Const) and op in (ast.Eq, ast.NotEq):
                truths = [bool(_COMPARISONS[op][1](one, other.value)) for one in table.options]
                return self.chosen(Choice(truths, table.index))
        a, b = self.plain(a), self.plain(b)
        a, b = self.parts_of(a), self.parts_of(b)
        if isinstance(a, Mixed) or isinstance(b, Mixed):
            return self.each(a, lambda x: self.each(b, lambda y: self.compare(op, x, y)))
        if op in (ast.Is, ast.IsNot):
            if not isinstance(a, Const) and not isinstance(b, Const):
                raise Untranslatable("whether two values are one object")
            same = isinstance(a, Const) and isinstance(b, Const) and a.value is b.value
            return literal(same is (op is ast.Is))
        if isinstance(a, Num) and isinstance(b, Num):
            return self._compare_numbers(op, a, b)
        if isinstance(a, Arr) or isinstance(b, Arr):
            return self.mapped(
                lambda x, y: self._compare_numbers(op, x, y), self.as_array(a), self.as_array(b)
            )
        return self._compare_others(op, a, b)

    def parts_of(self, value: Any) -> Any:
        """Return a constant tuple, or a choice of tuples, by its items."""
        if isinstance(value, Const) and isinstance(value.value, list | tuple):
            return Seq(self.listed(value), isinstance(value.value, list))
        if isinstance(value, Choice):
            kinds = {type(one) for one in value.options}
            if len(kinds) == 1 and kinds <= {list, tuple}:
                return Seq(self.listed(value), kinds == {list})
        return value

    def _compare_others(self, op: type, a: Any, b: Any) -> Any:
        if isinstance(a, Seq) and isinstance(b, Seq) and op in (ast.Eq, ast.NotEq):
            found = literal(len(a.items) == len(b.items) and a.is_list == b.is_list)
            if found.const:
                for x, y in zip(a.items, b.items, strict=True):
                    found = self.both(found, self.truth(self.compare(ast.Eq, x, y)))
            return found if op is ast.Eq else self.negated(found)
        if isinstance(a, Const) and isinstance(b, Const):
            return literal(bool(_COMPARISONS[op][1](a.value, b.value)))
        if op in (ast.Eq, ast.NotEq) and (isinstance(a, Const) or isinstance(b, Const)):
            return literal(op is ast.NotEq)
        raise Untranslatable("a comparison of values that are no numbers")

    def _compare_numbers(self, op: type, a: Num, b: Num) -> Num:
        sign, python = _COMPARISONS[op]
        if a.const is not VARIES and b.const is not VARIES:
            return literal(bool(python(a.const, b.const)))
        if (a.kind[0] == "f") != (b.kind[0] == "f"):  # Python compares them exactly
            a, b = self.exact_int(a), self.exact_int(b)
        left, right = a.text, b.text
        if "f4" in (a.kind, b.kind):
            first, second, _ = resolved(np.add, a, b)  # compared in the type of the sum
            left, right = cast(a, first), cast(b, second)
        if "u8" in (a.kind, b.kind):
            raise Untranslatable("a comparison of uint64")
        return self.let("bool", f"{left} {sign} {right}")
