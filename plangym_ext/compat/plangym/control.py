"""Classic control, Box2D, MuJoCo and dm_control under plangym's class names."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from plangym_ext.compat.plangym.core import PlangymEnv
from plangym_ext.errors import InvalidOption, MissingExtra


class ClassicControl(PlangymEnv):
    """Gymnasium's classic control."""


class Box2DEnv(PlangymEnv):
    """Gymnasium's Box2D; a state is a replayed episode, see the page on Box2D."""


class MujocoEnv(PlangymEnv):
    """Gymnasium's MuJoCo tasks."""

    def __init__(self, name: str = "Ant-v4", frameskip: int = 1, **kwargs: Any) -> None:
        super().__init__(name, frameskip, **kwargs)


class LunarLander(PlangymEnv):
    """LunarLander without particles.

    Args:
        deterministic: flat ground, no push at the start, engines without dispersion.
        continuous: two throttles in the place of four actions.
        kwargs: as of `PlangymEnv`; a name is ignored.
    """

    def __init__(
        self, *, deterministic: bool = False, continuous: bool = False, **kwargs: Any
    ) -> None:
        self._deterministic, self._continuous = deterministic, continuous
        super().__init__(**{**kwargs, "name": "LunarLander-plangym"})

    @property
    def deterministic(self) -> bool:
        """Whether nothing is drawn at random."""
        return self._deterministic

    @property
    def continuous(self) -> bool:
        """Whether actions are throttles."""
        return self._continuous

    def init_gym_env(self) -> Any:
        spec = gym.envs.registration.EnvSpec(
            "FastLunarLander-v0", "plangym_ext.compat.plangym.lunar_lander:FastLander"
        )
        return self._made(spec, deterministic=self.deterministic, continuous=self.continuous)


#: plangym's id is FastLunarLander-v0, its class LunarLander.
FastLunarLander = LunarLander


class DMControlEnv(PlangymEnv):
    """Tasks of dm_control's suite.

    Args:
        name: "domain-task", or the domain with `task_name`.
        domain_name: in the place of `name`.
        task_name: of the domain.
        visualize_reward: accepted; the suite's colours do not change states.
        kwargs: as of `PlangymEnv`.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        domain_name: str | None = None,
        task_name: str | None = None,
        visualize_reward: bool = True,  # noqa: ARG002
        **kwargs: Any,
    ) -> None:
        domain, _, task = (name or "").removeprefix("dm_control/").partition("-")
        domain, task = domain_name or domain, task_name or task.removesuffix("-v0")
        if not (domain and task):
            raise InvalidOption(
                "DMControlEnv: expected 'domain-task', such as 'cartpole-balance', or domain_name "
                f"and task_name; got name={name!r}, domain_name={domain_name!r}, "
                f"task_name={task_name!r}"
            )
        super().__init__(f"{domain}-{task}", **kwargs)

    def init_gym_env(self) -> Any:
        return self._made(f"dm_control/{self.name}-v0")

    @property
    def physics(self) -> Any:
        """dm_control's physics."""
        return self.gym_env.unwrapped.environment.physics

    def action_spec(self) -> Any:
        """Return dm_control's specification of actions."""
        return self.gym_env.unwrapped.environment.action_spec()


class BalloonEnv(PlangymEnv):
    """Refused: the balloon simulator does not install beside gymnasium.

    Its last release needs `gym` and versions of JAX and TensorFlow for Python 3.9.
    """

    def __init__(self, name: str = "BalloonLearningEnvironment-v0", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)

    def init_gym_env(self) -> Any:
        """Raise the reason."""
        raise MissingExtra(
            f"{self.name}: balloon-learning-environment needs the old gym, and JAX and TensorFlow "
            "of Python 3.9; there is no release for this Python. Wrap a simulator of your own as a "
            "gymnasium env."
        )
