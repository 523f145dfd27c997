"""Whether an env is made on the MuJoCo backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import BackendUnavailable


def make_native(
    build: Callable[[], Any],
    threads: int | None,
    settings: dict[str, Any],
    *,
    required: bool,
) -> tuple[PlanEnv | None, str]:
    """Return the env on the MuJoCo backend, or None and why not.

    Args:
        build: makes the gymnasium env.
        threads: threads; None for as many as there are processors.
        settings: further arguments of `GymEnv`.
        required: raise rather than return None.

    Raises:
        BackendUnavailable: the backend cannot run this env.
    """
    from plangym_ext.native.mujoco.env import MujocoEnv

    env = GymEnv(build, **settings)
    try:
        return MujocoEnv(env, threads=threads, check=settings["check"]), ""
    except BackendUnavailable as error:
        env.close()
        if required:
            raise
        return None, str(error)
    except BaseException:
        env.close()
        raise
