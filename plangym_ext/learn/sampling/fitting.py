"""Check that a vector env is suitable for sampling."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners.players import PLAYER, TO_PLAY, check_one_player
from plangym_ext.vector.vector_env import PlanVectorEnv


class RowSpaces:
    """The spaces of one row of a vector env, or of an env.

    Attributes:
        single_observation_space, single_action_space: as vector envs call them.
        obs, action: layouts of their arrays.

    Raises:
        TypeError: a space has no fixed-size array form.
    """

    def __init__(self, env: Any) -> None:
        vector = hasattr(env, "single_action_space")
        self.single_observation_space: spaces.Space[Any] = (
            env.single_observation_space if vector else env.observation_space
        )
        self.single_action_space: spaces.Space[Any] = (
            env.single_action_space if vector else env.action_space
        )
        self.obs = SpaceLayout(self.single_observation_space)
        self.action = SpaceLayout(self.single_action_space)


def check_vector_env(venv: Any, where: str, told: Container[str] = ()) -> None:
    """Refuse a vector env that cannot be sampled from.

    Args:
        venv: the vector env.
        where: for messages.
        told: infos that are kept. With those of who moved and who moves next, targets are of the
            player who moved.

    Raises:
        WrongKind: it is none, or its envs have several players, of whom nothing is told.
        InvalidOption: it does not reset in the step that ends an episode, or its envs have
            spaces of their own.
    """
    if not isinstance(venv, PlanVectorEnv):
        raise WrongKind(f"{where}: must be a vector env, as make_vec makes them; got {venv!r}.")
    if not (PLAYER in told and TO_PLAY in told):
        check_one_player(venv, where)
    mode = venv.autoreset_mode
    if mode is not AutoresetMode.SAME_STEP:
        raise InvalidOption(
            f"{where}: the vector env must reset in the step that ends an episode, or a reset "
            f"would count as a step; its autoreset mode is {mode.value}. "
            "Make it with autoreset_mode='same_step'."
        )
    for kind in ("observation", "action"):
        single, every = getattr(venv, f"single_{kind}_space"), getattr(venv, f"{kind}_space")
        if every != batch_space(single, venv.num_envs):
            raise InvalidOption(
                f"{where}: all envs must have one {kind} space, {single}; those of this vector "
                f"env differ: {every}. Bring them together in wrappers."
            )
