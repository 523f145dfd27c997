"""SnapshotPart: state of an unknown layer as an object graph of its attributes.

Attributes are written as an object graph: plain data, and the Python objects on a
grid or a road with theirs, all layers that need it together, so that what they share
stays shared. Where something else is found, they are pickled instead, and such a
state is opened only in the session that made it. The envs themselves are never
pickled or copied: many of gymnasium's silently come back as fresh, unplayed ones.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState, UntrustedState
from plangym_ext.states import part, trust
from plangym_ext.states.constants import Constants, Made
from plangym_ext.states.costs import AttributeCost, least
from plangym_ext.states.graph.classes import MARK
from plangym_ext.states.graph.plans import Plans
from plangym_ext.states.graph.reader import Finder, GraphReader
from plangym_ext.states.graph.writer import GraphWriter, Name, is_simple, name_of
from plangym_ext.states.identities import Identities
from plangym_ext.states.layer_attributes import LayerAttributes
from plangym_ext.states.nameable import AnyThing, Nameable
from plangym_ext.states.part import StatePart, get_block, put_block
from plangym_ext.states.plain import MALFORMED, NotPlain
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES, set_all

#: Most bytes that a snapshot may take, unless `SnapshotPart` is given another limit. Every row
#: of every batch is that wide and copied with each step; a state of more is as a rule a
#: buffer that no step reads.
MAX_BYTES = 16 << 20
_NAMED_AS_LARGE = 3
#: Room for growth: states of one env differ in size as objects come and go.
_SLACK = 2.0
_MOST_TABLES = 256
_NO_DIGEST = bytes(trust.DIGEST_BYTES)
# First byte of a state: what the rest is.
_GRAPH, _PICKLE = b"G", b"P"
#: Bytes of that, and of the digest after it.
_HEAD = 1 + trust.DIGEST_BYTES
# Changed in place, so that it matters who else holds them.
_CHANGEABLE = (list, dict, set, deque, OrderedDict, np.ndarray)


def _may_be_shared(value: Any) -> bool:
    kind: Any = type(value)
    return kind in _CHANGEABLE or (is_simple(kind) and not isinstance(value, gym.Env))


@functools.cache
def _is_named(kind: Any) -> bool:
    return issubclass(kind, (gym.Space, gym.envs.registration.EnvSpec, *RANDOM_TYPES))


@functools.lru_cache(1024)
def _named_in(names: tuple[str, ...], kinds: tuple[Any, ...]) -> tuple[str, ...]:
    """Return which attributes of a layer are named, by the types of all of them."""
    return tuple(name for name, kind in zip(names, kinds, strict=True) if _is_named(kind))


class SnapshotPart(StatePart):
    """Attributes of some layers of an env.

    Args:
        layers: the layers whose attributes are the state.
        stack: all layers of the env; references to them are kept as references.
        trusted: open what another session pickled, and objects of any class.
        ignored: names of attributes that no step reads.
        max_bytes: most bytes that a state may take.

    Raises:
        IncompleteState: an attribute can be neither written as a graph nor pickled, or
            the attributes take more than `max_bytes`. A capture raises it too, when they
            come to be so.
    """

    def __init__(
        self,
        layers: list[Any],
        stack: list[Any],
        *,
        trusted: bool = False,
        ignored: Iterable[str] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._max_bytes = max_bytes
        self._layers = [LayerAttributes(layer, ignored) for layer in layers]
        self._stack, self._trusted = stack, trusted
        self._kinds = [type(layer) for layer in layers]
        self._nameable = Nameable(stack)
        own = set(map(id, layers))
        self._others = [i for i, layer in enumerate(stack) if id(layer) not in own]
        #: What the graphs may refer to, by name; the first graph says what that is.
        self._known = self._nameable.known
        self._any = AnyThing(self._known)
        self._pickles = False
        #: The attribute for which states are pickled, and what it holds; "" if they are not.
        self.pickled_for = ""
        #: Whether states need this session's word, by their tables.
        self._needs_word: dict[Any, bool] = {}
        self._plans = Plans()
        self._constants = Constants(stack)
        self._identities = Identities(stack)
        # Later states may hold others of these classes, in a process that cannot import them.
        self._known |= {name_of(kind): kind for kind in self._identities.kinds}
        self._set_width(self._data(learns=True))
        self.method = "pickle" if self._pickles else "objects" if self._known else "plain"

    def _set_width(self, data: bytes) -> None:
        self.width = min(int(len(data) * _SLACK), self._max_bytes) + 256

    def leave_out(self, made: Made) -> None:
        """Leave out data of the constructor that no reset or step changes."""
        own = {i for i in range(len(self._stack)) if i not in self._others}
        self._constants.take(made, own)
        if self._constants:
            self._set_width(self._data())

    def learned(self, before: Mapping[str, bytes]) -> Any:  # noqa: ARG002 - no simulator
        """Return the names in the first graph, and whether attributes need a pickle."""
        code = [layer.code_names() for layer in self._layers]
        return self._nameable.learned(), self._pickles, code, self._constants.learned()

    def adopt(self, learned: Any, before: Mapping[str, bytes]) -> None:  # noqa: ARG002
        """Allow the same names as an equal env, whose first graph may have held other objects."""
        names, pickles, code, constants = learned
        self._nameable.adopt(names)
        self._constants.adopt(constants)
        self._needs_word.clear()
        self._plans.forget()
        for layer, found in zip(self._layers, code, strict=True):
            layer.adopt_code(found)
        if pickles:
            self._pickles, self.canonical = True, False

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        return put_block(buffer, offset, end, self._data())

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the attributes, and drop those that came later."""
        data, offset = get_block(buffer, offset)
        # Read as a whole before anything is assigned: what is refused has changed nothing.
        read = self._unpickled if data[:1] == _PICKLE else self._read
        for layer, attributes in zip(self._layers, read(data), strict=True):
            layer.assign(attributes)
        return offset

    def _data(self, *, learns: bool = False) -> bytes:
        for kind, layer in zip(self._kinds, self._layers, strict=True):
            if type(layer.layer) is not kind:
                raise IncompleteState(
                    f"snapshot: the class of {kind.__qualname__} is {layer.layer.__class__} now, "
                    "and no state holds the class of an env. Keep what a class decides in an "
                    "attribute, or in an object that the env holds."
                )
        reason = ""
        if not self._pickles:
            try:
                return self._checked(self._graph(learns=learns))
            except NotPlain as error:
                reason = self.pickled_for = self._holder(error)
                # From then on: two kinds of states would make equal ones differ in bytes,
                # which those of a pickle may do anyhow.
                self._pickles, self.canonical = True, False
        return self._checked(_PICKLE + self._pickled(reason))

    def _holder(self, error: NotPlain) -> str:
        """Return what an attribute holds that has no place in a graph, with its name."""
        for layer in self._layers:
            for name, value in layer.state().items():
                writer = self._writer(self._names())
                writer.put(value)
                try:
                    writer.data()
                except NotPlain as found:
                    if str(found) == str(error):
                        return f"{layer.name}.{name} holds {error}"
        return str(error)

    def _checked(self, data: bytes) -> bytes:
        if len(data) <= self._max_bytes:
            return data
        costs = sorted(self.attribute_costs(), key=lambda cost: cost.bytes, reverse=True)
        largest = ", ".join(
            f"{cost.name} ({cost.bytes:,} bytes)" for cost in costs[:_NAMED_AS_LARGE]
        )
        raise IncompleteState(
            f"snapshot: the attributes take {len(data):,} bytes, expected at most "
            f"{self._max_bytes:,}, since every row is that wide; the largest are {largest}. "
            "Keep what no step reads out of the env's attributes, give the env get_state and "
            "set_state, or use capture='replay'."
        )

    def constant_sizes(self) -> dict[str, int]:
        """Return the bytes of the attributes that states leave out; see `constants`."""
        return self._constants.sizes()

    def attribute_costs(self) -> list[AttributeCost]:
        """Return the cost of each attribute separately."""
        return [
            self._cost(f"{layer.name}.{name}", value)
            for layer in self._layers
            for name, value in layer.state().items()
        ]

    def _cost(self, name: str, value: Any) -> AttributeCost:
        def written() -> bytes:
            writer = self._writer(self._names())
            writer.put(value)
            return writer.data()

        try:
            data = written()
        except NotPlain:
            from plangym_ext.states import attribute_pickle

            names = self._names()
            seconds = least(lambda: attribute_pickle.size(value, names))
            return AttributeCost(name, attribute_pickle.size(value, names), seconds, True)
        read = least(lambda: GraphReader(data, self._named, self._any, self._held).get())
        return AttributeCost(name, len(data), least(written) + read, False)

    # As a graph -------------------------------------------------------------------

    def _graph(self, *, learns: bool = False) -> bytes:
        """Return a graph of all attributes, by a plan if there is one."""
        key, roots = self._attributes()
        named, shared = self._names(), self._shared()
        if key is not None and (found := self._plans.written(key, roots, named, shared)):
            return self._sealed(*found)
        writer = self._writer(named, learns=learns)
        writer.put_all([layer.state() for layer in self._layers])
        data = writer.data()
        if learns:
            self._nameable.referable.update(map(name_of, writer.references))
        needs = self._needs(writer)
        if key is not None and not (learns or writer.wide):
            self._plans.saw_written(key, data, writer.levels, needs)
        return self._sealed(data, needs)

    def _attributes(self) -> tuple[Any, list[Any]]:
        """Return what the attributes of all layers are, or None if that has no name, and them."""
        plans: list[Any] = []
        values: list[Any] = []
        for layer in self._layers:
            attributes = vars(layer.layer)
            plan = layer.plan(attributes)
            if plan is None:
                return None, []
            plans.append(plan)
            values += plan.take(attributes)
        return tuple(plans), values

    def _writer(self, named: dict[int, Name], *, learns: bool = False) -> GraphWriter:
        writer = GraphWriter(named, self._known, learns=learns, shared=self._shared())
        writer.tied = set(self._constants.arrays)
        return writer

    def _needs(self, writer: GraphWriter) -> bool:
        """Return whether a state needs this session's word: no stranger's may hold the like."""
        needs = self._needs_word.get(writer.table)
        if needs is None:
            needs = part.are_written(writer.table) or not self._nameable.needs_no_word(
                writer.shapes, writer.references
            )
            for layer in self._layers:
                kind: Any = type(layer.layer)
                needs = needs or bool(part.misplaced(kind, tuple(layer.state())))
            if len(self._needs_word) >= _MOST_TABLES:
                self._needs_word.clear()
            self._needs_word[writer.table] = needs
        return needs

    def _sealed(self, data: bytes, needs: bool) -> bytes:
        """Return a state with its kind and the digest that it needs before it, or zeros."""
        return b"".join((_GRAPH, trust.digest(data) if needs else _NO_DIGEST, data))

    def _read(self, data: bytes) -> Any:
        vouched = self._trusted or (
            data[1:_HEAD] != _NO_DIGEST and trust.is_ours(data[_HEAD:], data[1:_HEAD])
        )
        try:
            read = self._plans.read(vouched, data, _HEAD, self._named)
        except MALFORMED as error:
            raise DamagedState(f"object graph: {error}") from error
        if read is not None:
            found, generators = read
            set_all(generators)
            return found
        finder: Finder = self._any if vouched else self._nameable
        reader = GraphReader(data[_HEAD:], self._named, finder, self._held)
        found = reader.get()
        self._check(found, careful=finder.careful)
        self._plans.saw_read(vouched, data[_HEAD:], reader.levels)
        # Last, as it sets live generators: nothing is refused after it.
        reader.end()
        return found

    def _check(self, found: Any, *, careful: bool) -> None:
        """Refuse what is not the attributes of every layer."""
        if not isinstance(found, list) or len(found) != len(self._layers):
            raise DamagedState(f"state: expected the attributes of {len(self._layers)} layers")
        for layer, attributes in zip(self._layers, found, strict=True):
            layer.check(attributes)
            if careful:
                self._nameable.check_layer(layer.layer, tuple(attributes))

    def _names(self) -> dict[int, Name]:
        """Return what is named in a graph: layers, what is constant in them, and generators."""
        named: dict[int, Name] = {}
        for i, layer in enumerate(self._stack):
            # By the place in the stack, which is the same in every process; an `id` is not.
            named[id(layer)] = (i, "")
            found = vars(layer)
            for name in _named_in(tuple(found), tuple(map(type, found.values()))):
                named[id(found[name])] = (i, name)
        if self._constants:
            self._constants.add_names(named)
        self._identities.add_names(named)
        return named

    def _named(self, layer: int, name: str) -> Any:
        """Return what `_names` names so, or None if the attribute is gone."""
        if name.startswith(MARK):
            return self._identities.find(name)
        if not 0 <= layer < len(self._stack):
            raise DamagedState(f"state: it refers to layer {layer} of {len(self._stack)}")
        found = self._stack[layer]
        if not name:
            return found
        if "=" in name:
            return self._constants.find(layer, name)
        found = vars(found).get(name)
        kind: Any = type(found)
        return found if _is_named(kind) else None

    def _shared(self) -> dict[int, Name]:
        """Return where layers that other parts capture, or code, hold what may change in place."""
        if not self._others:
            return self._identities.shared
        return self._identities.shared | {
            id(value): (i, name)
            for i in self._others
            for name, value in vars(self._stack[i]).items()
            if _may_be_shared(value)
        }

    def _held(self, layer: int, name: str) -> Any:
        if name.startswith(MARK):
            return self._identities.held(name)
        found = vars(self._stack[layer]).get(name) if layer in self._others else None
        return found if _may_be_shared(found) else None

    # As a pickle ------------------------------------------------------------------

    def _pickled(self, reason: str) -> bytes:
        # Imported here: few envs need it, and whatever it brings along costs every worker's start.
        from plangym_ext.states import attribute_pickle

        try:
            states = [layer.state() for layer in self._layers]
            if reason:  # the first one
                attribute_pickle.check_sets(states)
            data = attribute_pickle.dumps(states, self._names(), self._constants.arrays)
        except Exception as error:  # whatever an attribute's own reduction raises
            names = ", ".join(layer.name for layer in self._layers)
            raise IncompleteState(
                f"attributes of {names}: {reason or 'they hold more than data'}, and a pickle "
                f"of them fails: {error}"
            ) from error
        return trust.digest(data) + data

    def _unpickled(self, data: bytes) -> Any:
        claimed, data = data[1:_HEAD], data[_HEAD:]
        if not self._trusted and not trust.is_ours(data, claimed):
            raise UntrustedState(
                "state: it holds a pickle that was not made in this session, and opening a pickle "
                "can run any code. If you trust where it comes from, make the env with trust=True."
            )
        from plangym_ext.states import attribute_pickle

        return attribute_pickle.loads(data, self._named)
