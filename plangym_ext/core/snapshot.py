"""State of a layer that the library does not know: its attributes.

Attributes that are plain data are written without pickle. Where others are found
(the objects on a grid, the cars on a road) all layers that need it are written as
one pickle, so that objects they share stay shared. The envs themselves are never
pickled or copied: many of gymnasium's silently come back as fresh, unplayed ones.
"""

from __future__ import annotations

import io
import pickle
import types
from typing import Any

import gymnasium as gym

from plangym_ext.core import plain, trust
from plangym_ext.core.part import StatePart, get_block, put_block
from plangym_ext.errors import IncompleteState, UntrustedState

#: Room for growth: states of one env differ in size as objects come and go.
_SLACK = 2.0
# Set by gymnasium or the constructor and never changed by a step.
_CONSTANT_NAMES = {"env", "spec", "metadata", "render_mode", "_saved_kwargs", "_np_random_seed"}
_CONSTANT_TYPES = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    gym.Space,
    gym.envs.registration.EnvSpec,
)
# Windows, surfaces and clocks show the state; they are no part of it.
_DRAWING_MODULES = ("pygame", "pyglet", "OpenGL", "glfw", "matplotlib", "moviepy", "cv2")


# What a layer measures by the clock; a restored episode has its own time.
_CLOCKS = {gym.wrappers.RecordEpisodeStatistics: {"episode_start_time", "time_queue"}}


def _is_state(name: str, value: Any) -> bool:
    if name in _CONSTANT_NAMES or name.startswith(("_cached_", "_action_space", "_observation_")):
        return False
    if isinstance(value, _CONSTANT_TYPES):
        return False
    return type(value).__module__.partition(".")[0] not in _DRAWING_MODULES


def _attributes(layer: Any) -> dict[str, Any]:
    clocks = _CLOCKS.get(type(layer), ())
    return {
        name: value
        for name, value in vars(layer).items()
        if name not in clocks and _is_state(name, value)
    }


def _assign(layer: Any, attributes: dict[str, Any]) -> None:
    """Make the layer's state exactly `attributes`; what it has gained since is dropped."""
    for name in _attributes(layer):
        if name not in attributes:
            delattr(layer, name)
    vars(layer).update(attributes)


class _Pickler(pickle.Pickler):
    """Pickles attributes; the layers and their spaces are named, not written."""

    def __init__(self, file: io.BytesIO, named: dict[int, tuple[str, int, str]]) -> None:
        super().__init__(file, protocol=5)
        self._named = named

    def persistent_id(self, obj: Any) -> tuple[str, int, str] | None:
        return self._named.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, stack: list[Any]) -> None:
        super().__init__(file)
        self._stack = stack

    def persistent_load(self, pid: tuple[str, int, str]) -> Any:
        kind, layer, name = pid
        return self._stack[layer] if kind == "layer" else vars(self._stack[layer])[name]


class SnapshotPart(StatePart):
    """Attributes of some layers of an env.

    Args:
        layers: the layers whose attributes are the state.
        stack: all layers of the env; references to them are kept as references.
        trusted: open pickles that another session made.

    Raises:
        IncompleteState: an attribute can be neither written plainly nor pickled.
    """

    def __init__(self, layers: list[Any], stack: list[Any], *, trusted: bool = False) -> None:
        self._layers, self._stack, self._trusted = layers, stack, trusted
        self.method = "plain"
        try:
            data = self._data()
        except plain.NotPlain:
            self.method = "pickle"
            data = self._data()
            self.canonical = False  # equal objects may pickle to different bytes
        self.width = int(len(data) * _SLACK) + 256

    def _data(self) -> bytes:
        found = [_attributes(layer) for layer in self._layers]
        if self.method == "plain":
            return plain.encode(found, "attributes")
        named = {id(layer): ("layer", i, "") for i, layer in enumerate(self._stack)}
        for i, layer in enumerate(self._stack):
            for name, value in vars(layer).items():
                if isinstance(value, gym.Space):
                    named[id(value)] = ("space", i, name)
        file = io.BytesIO()
        try:
            _Pickler(file, named).dump(found)
        except Exception as error:  # whatever an attribute's own reduction raises
            names = ", ".join(type(layer).__qualname__ for layer in self._layers)
            raise IncompleteState(
                f"attributes of {names}: neither plain data nor picklable: {error}"
            ) from error
        data = file.getvalue()
        return trust.digest(data) + data

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the attributes."""
        return put_block(buffer, offset, end, self._data())

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the attributes, and drop those that came later."""
        data, offset = get_block(buffer, offset)
        found = plain.decode(data) if self.method == "plain" else self._unpickled(data)
        for layer, attributes in zip(self._layers, found, strict=True):
            _assign(layer, attributes)
        return offset

    def _unpickled(self, data: bytes) -> Any:
        claimed, data = data[: trust.DIGEST_BYTES], data[trust.DIGEST_BYTES :]
        if not self._trusted and not trust.is_ours(data, claimed):
            raise UntrustedState(
                "state: it holds a pickle that was not made in this session, and opening a pickle "
                "can run any code. If you trust where it comes from, make the env with trust=True."
            )
        return _Unpickler(io.BytesIO(data), self._stack).load()
