"""Walk: translation of one function of an env, statement by statement."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.flow import Flow, Loop
from plangym_ext.native.translate.values import (
    LOOSE,
    PART,
    Arr,
    Choice,
    Const,
    Info,
    Me,
    Num,
    Seq,
    Untranslatable,
    form,
    known,
    literal,
    mark_named,
    parts_in,
)

#: A loop over fewer known things than this is written out.
_UNROLLED = 64


class Walk(Flow):
    """Translates one function for arguments of known forms.

    Args:
        program: the translation that it is part of.
        tree: the function's definition.
        scope: its globals, and what it closes over.
        values: of its arguments, and forms of the env's fields as "self.name".
        ends: called with the value of each `return`; it writes what is to be returned.
    """

    def __init__(
        self,
        program: Any,
        tree: ast.FunctionDef,
        scope: dict[str, Any],
        values: dict[str, Any],
        ends: Callable[[Walk, Any], None],
    ) -> None:
        self.program, self.tree, self.scope, self._ends = program, tree, scope, ends
        self.vars = values
        self.lines: list[str] = []
        self.depth, self.alive = 1, True
        #: Of lines that are run once: lists and dicts may only grow there.
        self.base = 1
        self._temps = 0
        #: Arrays that became a field's, and its name.
        self.kept: list[tuple[Arr, str]] = []
        self._loops: list[Loop] = []
        self.node: ast.AST = tree
        self.returned: list[dict[str, Any]] = []
        names = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript | ast.AugAssign)]
        targets = [
            n.target if isinstance(n, ast.AugAssign) else n.value
            for n in names
            if isinstance(n, ast.AugAssign) or isinstance(n.ctx, ast.Store)
        ]
        #: Locals that may be arrays that are written to.
        self._written = {t.id for t in targets if isinstance(t, ast.Name)}

    def run(self) -> list[str]:
        """Return the function's body, as lines."""
        self.block(self.tree.body)
        if self.alive:
            self.returned.append(self.vars)
            self._ends(self, Const(None))
            self.alive = False
        return self.lines

    def run_by_kinds(self) -> list[str]:
        """Return the body, written once for each kind of values that the env's fields hold."""
        split = self.program.split_fields()
        if not split:
            return self.run()
        branches: list[tuple[str, Callable[[], Any]]] = []
        for tags in itertools.product(*(range(count) for _, count in split)):
            chosen = {
                f"self.{name}": frozenset({k}) for (name, _), k in zip(split, tags, strict=True)
            }
            tests = [
                f'state["{name}.tag"] == {k}' for (name, _), k in zip(split, tags, strict=True)
            ]

            def branch(chosen: dict[str, Any] = chosen) -> None:
                self.base = self.depth
                self.vars.update(chosen)
                self.run()

            branches.append((" and ".join(tests), branch))
        self.fork(branches)
        return self.lines

    # Statements -----------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        """Write statements, up to one that leaves."""
        for statement in body:
            if not self.alive:
                return
            self.node = statement
            method = getattr(self, f"_s_{type(statement).__name__.lower()}", None)
            if method is None:
                raise Untranslatable(f"a {type(statement).__name__.lower()} statement")
            method(statement)

    def _s_pass(self, _: ast.Pass) -> None:
        pass

    def _s_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise Untranslatable("a part of an object that is deleted")
            del self.vars[target.id]

    def _s_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.eval(node.value)

    def _s_assert(self, node: ast.Assert) -> None:
        self._if(node.test, lambda: None, self._fail)

    def _s_raise(self, _: ast.Raise) -> None:
        self._fail()

    def _fail(self) -> None:
        self.emit("raise ValueError")
        self.alive = False

    def _s_return(self, node: ast.Return) -> None:
        value = Const(None) if node.value is None else self.eval(node.value)
        self.returned.append(self.vars)
        self._ends(self, value)
        self.alive = False

    def _s_if(self, node: ast.If) -> None:
        self._if(node.test, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def _if(self, test: ast.expr, then: Callable[[], Any], other: Callable[[], Any]) -> None:
        condition = self.truth(self.eval(test))
        if condition.const is True:
            then()
        elif condition.const is False:
            other()
        else:
            self.fork([(condition.text, then), ("", other)])

    def _s_try(self, node: ast.Try) -> None:
        # What is raised in compiled code ends the batch, so nothing is ever caught in it.
        leaves = (ast.Return, ast.Break, ast.Continue)
        if node.finalbody and any(isinstance(one, leaves) for one in ast.walk(node)):
            raise Untranslatable("a way out of a try statement that has a finally")
        self.block([*node.body, *node.orelse, *node.finalbody])

    def _s_while(self, node: ast.While) -> None:
        if node.orelse:
            raise Untranslatable("an else of a loop")

        def body() -> None:
            condition = self.truth(self.eval(node.test))
            if condition.const is not True:
                self.emit(f"if not {condition.text}:")
                with self.aside() as lines:
                    self._leave("break")
                self.alive = True
                self.lines += lines
            self.block(node.body)

        self.loop("while True:", body)

    def _s_break(self, _: ast.Break) -> None:
        self._leave("break")

    def _s_continue(self, _: ast.Continue) -> None:
        self._leave("continue")

    def _leave(self, word: str) -> None:
        if not self._loops:
            raise Untranslatable(f"{word} in a loop over known things")
        loop = self._loops[-1]
        loop.outs.append(dict(self.vars))
        if loop.forms is not None:
            self.settle(loop.forms)
        self.emit(word)
        self.alive = False

    def _s_for(self, node: ast.For) -> None:
        bounds = self.range_of(node.iter)
        has_ways_out = any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(node))
        if bounds is not None:
            counts = [one.const for one in bounds]
            known_counts = all(isinstance(one, int | np.integer) for one in counts)
            if not known_counts or has_ways_out or len(range(*counts)) > _UNROLLED:
                self._counted(node, ", ".join(one.text for one in bounds))
                return
            items: list[Any] = [literal(k) for k in range(*counts)]
        else:
            if has_ways_out:
                raise Untranslatable("break or continue in a loop that is not over a range")
            items = self.listed(self.eval(node.iter))
        loops, self._loops = self._loops, []
        for item in items:
            self.assign(node.target, item)
            self.block(node.body)
        self._loops = loops
        self.block(node.orelse)

    def _counted(self, node: ast.For, bounds: str) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise Untranslatable("a loop of this form")
        counter = self.fresh()

        def body() -> None:
            self.assign(node.target, Num("int", counter))
            self.block(node.body)

        self.loop(f"for {counter} in range({bounds}):", body)

    # Assignments ----------------------------------------------------------------

    def _s_assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        if len(node.targets) > 1 and any(map(_may_change, parts_in(value))):
            raise Untranslatable("two names for one new object")
        for target in node.targets:
            self.assign(target, value)

    def _s_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value))

    def _s_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        load = ast.copy_location(ast.parse(ast.unparse(target), mode="eval").body, target)
        with self.program.watched() as effects:
            before = self.eval(load)
        if effects:
            raise Untranslatable("a target that changes something as it is found")
        value = self.binary(type(node.op), before, self.eval(node.value))
        if isinstance(before, Arr):  # in place
            if (
                before.items is not None
                or not isinstance(value, Arr)
                or value.shape != before.shape
            ):
                raise Untranslatable("an array changed in place that may have other names")
            if not np.can_cast(Num(value.kind, "").dtype, Num(before.kind, "").dtype, "same_kind"):
                raise Untranslatable("numbers that numpy writes to no array of this type in place")
            self.own(before)
            self.fill(before, value)
            return
        if isinstance(before, Seq) and before.is_list:
            raise Untranslatable("a list that grows")
        self.assign(target, value)

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a value to a target."""
        if isinstance(target, ast.Name):
            self._assign_name(target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            value = self.each(value, lambda one: Seq(self.listed(one)))
            items = self.listed(value)
            if any(isinstance(one, ast.Starred) for one in target.elts):
                raise Untranslatable("a starred target")
            if len(items) != len(target.elts):
                raise Untranslatable(f"{len(items)} values for {len(target.elts)} names")
            items = [self._under_name(one, self.fresh()) for one in items]
            waiting = [f"${self.fresh()}" for _ in items]
            self.vars |= dict(zip(waiting, items, strict=True))
            for name, part, one in zip(waiting, target.elts, items, strict=True):
                self.vars.pop(name, None)
                self.assign(part, one)
        elif isinstance(target, ast.Attribute) and isinstance(self.eval(target.value), Me):
            self.program.store(self, target.attr, value)
        elif isinstance(target, ast.Subscript):
            self.set_item(self.eval(target.value), target.slice, value)
        else:
            raise Untranslatable("it changes an object other than the env")

    def _assign_name(self, name: str, value: Any) -> None:
        if isinstance(value, Arr):
            value = self._named_array(name, value)
        if isinstance(value, Choice):
            value = self.chosen(value)
        self.vars[name] = self._under_name(value, f"v_{name}")

    def _under_name(self, value: Any, name: str) -> Any:
        """Write a value to variables; what it shares with others is not changed from here on."""
        shared = [one for one in parts_in(value) if _may_change(one) and self.has_name(one)]
        if any(isinstance(one, Info) for one in shared):
            raise Untranslatable("two names for one dict")
        found = self.convert(value, form(value), name)
        for one in shared:
            mark_named(found)
            if isinstance(one, Seq):
                mark_named(one)
        if isinstance(value, Arr) and value.items is not None:
            found.owner = found.owner or value.owner
        return found

    def _named_array(self, name: str, value: Arr) -> Arr:
        fresh = value.items is not None
        if name in self._written and (fresh or value.base.startswith("m")):
            if value.owner in (PART, LOOSE) or self.has_name(value):
                raise Untranslatable("an array changed in place that may have other names")
            # A memory of its own, since elements may be chosen as it runs.
            found = self.memory(value)
            self.emit(f"v_{name}_a = {found.base}")
            return Arr(value.kind, value.shape, None, f"v_{name}_a", found.offset, found.index, "·")
        if value.owner in self.program.fields and value.owner not in self.program.inplace:
            if value.size > 64:
                raise Untranslatable("a name for a large array of the state")
            items = [self.element(value, k) for k in range(value.size)]
            return Arr(value.kind, value.shape, items, owner=LOOSE * value.order_is_loose)
        return value

    def set_item(self, owner: Any, index: ast.expr, value: Any) -> None:
        """Write to an element or a part of an array, list or dict."""
        if isinstance(owner, Info) and self.depth == self.base:
            owner.items[self.static(self.eval(index))] = value
        elif isinstance(owner, Arr) and owner.items is None:
            self.own(owner)
            place = self.subscript(owner, index, view=True)
            self.fill(place, value)
        elif (
            isinstance(owner, Seq) and owner.is_list and not owner.held and self.depth == self.base
        ):
            owner.items[self.static(self.eval(index))] = value
        else:
            raise Untranslatable("it changes a part of an object that is no array of its own")

    def own(self, array: Arr) -> None:
        """Note that an array is changed in place; refuse one that is not the env's or fresh."""
        if array.owner.startswith("params"):
            self.program.make_field(array)
        self.program.effects[-1].add(f"{array.owner}[]")
        if any(name == array.owner and self.has_name(one) for one, name in self.kept):
            raise Untranslatable("an array changed in place that has another name")
        if array.owner in self.program.fields:
            self.program.change_in_place(array.owner)


def _may_change(value: Any) -> bool:
    """Return whether there are operations that change a value itself."""
    return isinstance(value, Arr | Info) or (isinstance(value, Seq) and value.is_list)


def function_values(
    tree: ast.FunctionDef, given: list[Any], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the values of a function's parameters; defaults are in `named` as "name=".

    Raises:
        Untranslatable: they do not fit.
    """
    arguments = tree.args
    if arguments.vararg:
        raise Untranslatable("a function of any number of arguments")
    places = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    found = dict(zip(places, given, strict=False))
    for name in [*places, *(one.arg for one in arguments.kwonlyargs)]:
        if name in named:
            found[name] = named[name]
        elif name not in found:
            if f"{name}=" not in named:
                raise Untranslatable(f"no value for the argument {name}")
            found[name] = known(named[f"{name}="])
    return found
