"""Construction of the native MuJoCo backend for an env, or the reason why not."""

from __future__ import annotations

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import BackendUnavailable


def make_native(
    env: GymEnv, threads: int | None, *, check: bool | float, required: bool
) -> tuple[PlanEnv | None, str]:
    """Return an env on the MuJoCo backend, or None and why not; then it is as it was.

    Args:
        env: it is closed if this raises.
        threads: threads; None for as many as there are processors.
        check: as for `make`.
        required: raise rather than return None.

    Raises:
        BackendUnavailable: the backend cannot run this env.
    """
    from plangym_ext.native.mujoco.env import MujocoEnv

    try:
        return MujocoEnv(env, threads=threads, check=bool(check)), ""
    except BackendUnavailable as error:
        if required:
            env.close()
            raise
        return None, str(error)
    except BaseException:
        env.close()
        raise
