"""Emulators under plangym's class names: Atari, Montezuma's Revenge, consoles, Super Mario."""

from __future__ import annotations

import dataclasses
import importlib
import math
from typing import Any

import ale_py  # noqa: F401 - registers its ids with gymnasium, as plangym's module does
import numpy as np

from plangym_ext.compat.plangym.core import PlangymEnv
from plangym_ext.compat.plangym.utils import ActionDiscretizer as ActionDiscretizer
from plangym_ext.errors import InvalidOption

#: Montezuma's Revenge: room, level, position, whether the player is dying, and what is carried.
_ROOM, _LEVEL, _X, _Y, _DYING, _CARRIED = 3, 57, 42, 43, 55, 65
_KEYS = 0b1110
#: Super Mario: numbers of "coords"; what they pay; lists of combinations of buttons.
_COORDS = ("x_pos", "y_pos", "world", "stage", "life", "flag_get", "coins")
_PAID = {"world": 25_000, "stage": 5_000, "x_pos": 1, "in_pipe": 10, "flag_get": 100}
_MOVEMENTS = {"complex": "COMPLEX_MOVEMENT", "simple": "SIMPLE_MOVEMENT", "right": "RIGHT_ONLY"}


def ale_to_ram(ale: Any) -> np.ndarray:
    """Return the RAM of an Atari emulator, `[128]` uint8, fresh."""
    return np.array(ale.getRAM())


class VideogameEnv(PlangymEnv):
    """A game on an emulator: its infos have `lifes` and `lost_life`, within the whole step."""

    AVAILABLE_OBS_TYPES = frozenset({"rgb", "grayscale", "ram"})
    DEFAULT_OBS_TYPE = "rgb"

    def __init__(self, name: str, frameskip: int = 5, **kwargs: Any) -> None:
        super().__init__(name, frameskip, **kwargs)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.action_space.n)

    def get_ram(self) -> np.ndarray:
        """Return the emulator's memory, uint8."""
        raise NotImplementedError

    def get_ram_obs(self, obs: Any, **kwargs: Any) -> np.ndarray:  # noqa: ARG002
        """Return the observation for obs_type "ram"."""
        return self.get_ram()

    def get_lifes(self) -> int:
        """Return the lives that are left; -1 if unknown."""
        return -1

    def begin_step(self, *args: Any, **kwargs: Any) -> None:
        """Forget the lives lost in the step before."""
        self._lost_life = False
        super().begin_step(*args, **kwargs)

    def apply_action(self, action: Any) -> tuple[Any, ...]:
        """Step the game, and watch its lives."""
        before = self.get_lifes()
        obs, reward, terminal, truncated, info = super().apply_action(action)
        info["lifes"] = self.get_lifes()
        self._lost_life = info["lost_life"] = self._lost_life or info["lifes"] < before
        return obs, reward, terminal or (self.episodic_life and self._lost_life), truncated, info


class AtariEnv(VideogameEnv):
    """An Atari game; the emulator itself repeats an action for `frameskip` frames.

    Args:
        name: an id such as "ALE/MsPacman-v5".
        frameskip: frames of one `dt`.
        obs_type: "rgb", "grayscale" or "ram".
        mode: of the game.
        difficulty: of the game.
        repeat_action_probability: with which a frame takes the last action again.
        full_action_space: all 18 actions.
        possible_to_win: accepted, and without effect in plangym too.
        array_state: states are arrays; there is no other kind here.
        kwargs: as of `PlangymEnv`.
    """

    def __init__(
        self,
        name: str,
        frameskip: int = 5,
        obs_type: str | None = "rgb",
        mode: int | None = None,
        difficulty: int | None = None,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        possible_to_win: bool = False,  # noqa: ARG002
        array_state: bool = True,
        **kwargs: Any,
    ) -> None:
        if not array_state:
            raise InvalidOption("AtariEnv: states are [S] uint8 arrays; got array_state=False")
        self.mode, self.difficulty = mode, difficulty
        self.repeat_action_probability = repeat_action_probability
        self.full_action_space = full_action_space
        if obs_type in ("ram", "grayscale"):
            self.DEFAULT_OBS_TYPE = obs_type
        super().__init__(name, frameskip, obs_type=obs_type, **kwargs)

    def init_gym_env(self) -> Any:
        chosen = {"mode": self.mode, "difficulty": self.difficulty}
        return self._made(
            self._id(),
            obs_type=self.DEFAULT_OBS_TYPE,
            frameskip=self.frameskip,
            repeat_action_probability=self.repeat_action_probability,
            full_action_space=self.full_action_space,
            **{name: value for name, value in chosen.items() if value is not None},
        )

    def _id(self) -> str:
        return self.name

    def _repeats(self, dt: int) -> int:
        return dt  # each of `frameskip` frames, within the emulator

    @property
    def ale(self) -> Any:
        """The emulator."""
        return self.gym_env.unwrapped.ale

    def get_image(self) -> np.ndarray:
        """Return the screen, `[210, 160, 3]` uint8, whatever the render mode and the wrappers."""
        return np.array(self.ale.getScreenRGB())

    def get_ram(self) -> np.ndarray:
        """Return the console's RAM, `[128]` uint8."""
        return ale_to_ram(self.ale)

    def get_lifes(self) -> int:
        return int(self.ale.lives())


class MontezumaEnv(AtariEnv):
    """Montezuma's Revenge, which ends with a death, and tells where its player is.

    With obs_type "coords" an observation is `[4]` float32: x, y and room from the RAM, and the
    score, or with `score_objects` the bits of what is carried. Infos name all of them.

    Args:
        name: ignored.
        frameskip: frames of one `dt`.
        obs_type: "coords", "rgb", "grayscale" or "ram".
        check_death: end the episode with a lost life.
        death_room_8: end it in room 8, from which there is no way back.
        score_objects: see above.
        only_keys: of what is carried, tell keys alone.
        objects_from_pixels: accepted; the RAM holds what the pixels show.
        kwargs: as of `AtariEnv`.
    """

    AVAILABLE_OBS_TYPES = frozenset({"coords", "rgb", "grayscale", "ram"})

    def __init__(
        self,
        name: str = "PlanMontezuma-v0",
        frameskip: int = 1,
        *,
        check_death: bool = True,
        death_room_8: bool = True,
        score_objects: bool = False,
        only_keys: bool = False,
        objects_from_pixels: bool = False,  # noqa: ARG002
        **kwargs: Any,
    ) -> None:
        self._ends_by_death, self._ends_in_room_8 = check_death, death_room_8
        self._objects, self._mask = score_objects, _KEYS if only_keys else 0xFF
        super().__init__(name or "PlanMontezuma-v0", frameskip, **kwargs)

    def _id(self) -> str:
        return "ALE/MontezumaRevenge-v5"

    def apply_action(self, action: Any) -> tuple[Any, ...]:
        """Step the game, which ends as the options say."""
        obs, reward, terminal, truncated, info = super().apply_action(action)
        ram = self.get_ram()
        died = self._ends_by_death and (info["lost_life"] or ram[_DYING] != 0)
        left = self._ends_in_room_8 and ram[_ROOM] == 8
        return obs, reward, bool(terminal or died or left), truncated, info

    def get_coords_obs(self, obs: Any, **kwargs: Any) -> np.ndarray:  # noqa: ARG002
        """Return x, y, room, and the score or what is carried."""
        ram = self.get_ram()
        last = ram[_CARRIED] & self._mask if self._objects else _score(ram)
        return np.array([ram[_X], ram[_Y], ram[_ROOM], last], np.float32)


@dataclasses.dataclass(unsafe_hash=True)
class MontezumaPosLevel:
    """Position of Montezuma's player; `score` is the score, or what is carried."""

    level: Any
    score: Any
    room: Any
    x: Any
    y: Any

    def __getstate__(self) -> Any:
        return dataclasses.astuple(self)

    def __setstate__(self, values: Any) -> None:
        self.level, self.score, self.room, self.x, self.y = values

    tuple = property(__getstate__)


class CustomMontezuma(MontezumaEnv):
    """Montezuma's Revenge with gymnasium's `reset` and `step`, whose pictures can be read.

    Args:
        obs_type: as of `MontezumaEnv`.
        objects_remember_rooms: objects are told as pairs of pixels and room.
        kwargs: as of `MontezumaEnv`.
    """

    #: Pixels of a mallet, three keys, two swords and a torch, of which each has a bit.
    _PIXELS = (50, 40, 40, 40, 37, 37, 42)

    def __init__(
        self, *, obs_type: str = "rgb", objects_remember_rooms: bool = False, **kwargs: Any
    ) -> None:
        self._remembers = objects_remember_rooms
        super().__init__(obs_type=obs_type, **{"autoreset": False, **kwargs})

    def reset(self, return_state: bool = False, seed: int | None = None) -> tuple[Any, ...]:
        """Begin a game; `(obs, info)` unless `return_state` is set."""
        return super().reset(return_state, seed)

    @staticmethod
    def get_room_xy(room: int) -> tuple[int, int] | None:
        """Return column and row of a room in the pyramid of rows of 3, 5, 7 and 9; else None."""
        if not 0 <= room < 24:
            return None
        row = math.isqrt(room + 1) - 1
        return room - (row + 1) ** 2 + 4 - row, row

    def get_face_pixels(self, obs: np.ndarray) -> set[tuple[int, int]]:
        """Return row and column of each pixel of the face in a picture, below its 50th row."""
        return set(zip(*(np.nonzero(obs[50:, :, 0] == 228)), strict=True))

    def pos_from_obs(self, face_pixels: Any, obs: np.ndarray) -> MontezumaPosLevel:  # noqa: ARG002
        """Return the middle of the face, and from the RAM what is asked of it and no picture tells.

        Without a face, as between rooms, the position is from the RAM too: within 6 pixels.
        """
        ram = self.get_ram()
        _, _, room, carried = MontezumaEnv.get_coords_obs(self, None).tolist()
        there = np.array([[265.0 - ram[_Y], ram[_X] + 3.0]])
        y, x = np.mean(list(face_pixels) or there, axis=0).tolist()
        return MontezumaPosLevel(int(ram[_LEVEL]), int(carried), int(room), x, y)

    def get_objects_from_pixels(self, obs: np.ndarray, room: int, old_objects: Any) -> Any:
        """Return what a picture shows as carried: bits, or pairs of its pixels and a room.

        Args:
            obs: `[210, 160, 3]` uint8.
            room: of what was not carried before.
            old_objects: the pairs before.
        """
        shown = np.zeros((20, 56), bool)
        shown[:, :55] = obs[25:45, 55:110, 0] != 0
        places = shown.reshape(20, 7, 8).sum(axis=(0, 2)).tolist()
        old, pairs, bits = list(old_objects), [], 0
        for bit, pixels in enumerate(self._PIXELS):
            if pixels in places and (1 << bit) & self._mask:
                places.remove(pixels)
                pair = next((one for one in old if one[0] == pixels), (pixels, room))
                old = [one for one in old if one is not pair]
                pairs.append(pair)
                bits |= 1 << bit
        return tuple(pairs) if self._remembers else bits


def _score(ram: np.ndarray) -> int:
    """Return the score: binary-coded decimals, highest first."""
    return int("".join(f"{value:02x}" for value in ram[19:22]))


class RetroEnv(VideogameEnv):
    """A console game of stable-retro, one in each process.

    Args:
        name: such as "Airstriker-Genesis".
        frameskip: frames of one `dt`.
        state: where the game starts, as of `stable_retro.make`.
        kwargs: as of `PlangymEnv`, and for `stable_retro.make`.
    """

    SINGLETON = True

    def __init__(
        self, name: str, frameskip: int = 5, *, state: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(name, frameskip, **({} if state is None else {"state": state}), **kwargs)

    def init_gym_env(self) -> Any:
        name = self.name.removeprefix("retro/")
        return self._made(f"retro/{name if name.endswith('-v0') else name + '-v0'}")

    @property
    def em(self) -> Any:
        """The emulator."""
        return self.gym_env.unwrapped.em

    def get_ram(self) -> np.ndarray:
        """Return the console's RAM, uint8."""
        return np.array(self.gym_env.unwrapped.get_ram(), np.uint8)

    def get_lifes(self) -> int:
        """Return the lives that are left, where the game's data tell them."""
        return int(self.gym_env.unwrapped.data.lookup_all().get("lives", -1))


class MarioEnv(VideogameEnv):
    """Super Mario Bros. of gym-super-mario-bros; a state is a replayed episode.

    With obs_type "coords" an observation is `[7]` float32: x, y, world, stage, lives, whether the
    flag is reached, and coins.

    Args:
        name: such as "SuperMarioBros-v0".
        frameskip: frames of one `dt`.
        movement_type: how many combinations of buttons are actions: "complex" 12, as always in
            plangym, "simple" 7, "right" 5.
        original_reward: the game's; else a step pays 25,000 a world, 5,000 a stage, x, 10 within a
            pipe and 100 at the flag.
        kwargs: as of `PlangymEnv`.
    """

    AVAILABLE_OBS_TYPES = frozenset({"coords", "rgb", "grayscale", "ram"})

    def __init__(
        self,
        name: str,
        frameskip: int = 5,
        *,
        movement_type: str = "complex",
        original_reward: bool = False,
        **kwargs: Any,
    ) -> None:
        if movement_type not in _MOVEMENTS:
            names = ", ".join(_MOVEMENTS)
            raise InvalidOption(
                f"MarioEnv: movement_type must be one of {names}; got {movement_type!r}."
            )
        self._movement, self._original_reward = _MOVEMENTS[movement_type], original_reward
        super().__init__(name, frameskip, **kwargs)

    def init_gym_env(self) -> Any:
        """Return a new game with combinations of buttons as actions."""
        game = super().init_gym_env()
        names = "gym_super_mario_bros.actions", "nes_py.wrappers"
        actions, wrappers = map(importlib.import_module, names)
        return wrappers.JoypadSpace(game, getattr(actions, self._movement))

    def get_ram(self) -> np.ndarray:
        """Return the console's RAM, `[2048]` uint8."""
        return np.array(self.gym_env.unwrapped.ram, np.uint8)

    def get_coords_obs(self, obs: Any, **kwargs: Any) -> np.ndarray:  # noqa: ARG002
        """Return the numbers of an info, or of the game as it is."""
        info = kwargs.get("info") or self.gym_env.unwrapped._get_info()
        return np.array([info.get(name, 0) for name in _COORDS], np.float32)

    def get_lifes(self) -> int:
        """Return the lives that are left; -1 when the game is over."""
        # Where the emulator's package reads them: its 0xff is the end of the game.
        return int(self.get_ram()[0x075A].view(np.int8))

    def apply_action(self, action: Any) -> tuple[Any, ...]:
        """Step the game, which ends with a death."""
        obs, reward, terminal, truncated, info = super().apply_action(action)
        info["in_pipe"] = info.get("player_state") in (2, 3)
        dead = info.get("is_dying") or info.get("is_dead")
        return obs, reward, bool(terminal or dead), truncated, info

    def process_reward(self, reward: Any, **kwargs: Any) -> Any:
        """Return the game's reward, or how far the player has come."""
        if self._original_reward:
            return reward
        return float(sum(n * int(kwargs["info"].get(name, 0)) for name, n in _PAID.items()))
