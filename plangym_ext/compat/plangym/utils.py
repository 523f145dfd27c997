"""plangym's helpers: removal of time limits, resizing of pictures, combinations of buttons."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core.make_words import luma
from plangym_ext.errors import MissingExtra

#: What plangym has in the place of a limit.
_ENDLESS = int(1e100)


def remove_time_limit(gym_env: Any) -> Any:
    """Return the env without its `TimeLimit` wrappers, wherever they are among the others."""
    spec = getattr(gym_env, "spec", None)
    if spec is not None:
        spec.max_episode_steps = _ENDLESS
    while isinstance(gym_env, gym.wrappers.TimeLimit):
        gym_env = gym_env.env
    layer = gym_env
    while isinstance(layer, gym.Wrapper):
        while isinstance(layer.env, gym.wrappers.TimeLimit):
            layer.env = layer.env.env
        layer = layer.env
    return gym_env


def process_frame(
    frame: np.ndarray, width: int | None = None, height: int | None = None, mode: str = "RGB"
) -> np.ndarray:
    """Return a picture in another size or in grey.

    Args:
        frame: `[H, W, 3]` uint8.
        width: of the result; needs Pillow if it is another one.
        height: of the result; needs Pillow if it is another one.
        mode: "RGB"; "BGR" for the other order; or "L" or "GRAY" for `[H, W]`: the luma of ITU-R
            601, as Pillow has it.

    Returns:
        `[height, width, 3]` or `[height, width]` uint8, fresh; `frame` itself if it is as asked.

    Raises:
        MissingExtra: Pillow is not installed.
    """
    if mode in ("L", "GRAY"):
        frame = luma(frame)
    elif mode == "BGR":
        frame = np.ascontiguousarray(frame[..., ::-1])
    size = (height or frame.shape[0], width or frame.shape[1])
    if size == frame.shape[:2]:
        return frame
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtra(
            "process_frame: another size needs Pillow: pip install pillow"
        ) from error
    return np.array(Image.fromarray(frame).resize(size[::-1]))


#: The same without OpenCV.
process_frame_opencv = process_frame


class ActionDiscretizer(gym.ActionWrapper[Any, Any, Any]):
    """Gives a console game a few combinations of buttons as discrete actions.

    Args:
        env: a game of stable-retro, with actions of 12 buttons.
        actions: names of the buttons of each; None for those of Sonic.
    """

    _BUTTONS = ("B", "A", "MODE", "START", "UP", "DOWN", "LEFT", "RIGHT", "C", "Y", "X", "Z")
    _SONIC = ("LEFT", "RIGHT", "LEFT DOWN", "RIGHT DOWN", "DOWN", "DOWN B", "B")

    def __init__(self, env: gym.Env[Any, Any], actions: Any = None) -> None:
        super().__init__(env)
        named = [names.split() for names in self._SONIC] if actions is None else actions
        self._combinations = tuple(
            tuple(button in names for button in self._BUTTONS) for names in named
        )
        self.action_space = gym.spaces.Discrete(len(self._combinations))

    def action(self, action: Any) -> np.ndarray:
        """Return the buttons of an action."""
        return np.array(self._combinations[int(action)])
