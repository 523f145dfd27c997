"""plangym's `make`: a class by name, with worker processes or actors around it."""

from __future__ import annotations

from typing import Any

from plangym_ext.compat.plangym import control, environment_names, videogames
from plangym_ext.compat.plangym.core import PlangymEnv
from plangym_ext.errors import UnknownName
from plangym_ext.registry import find_spec
from plangym_ext.states.families import family_of_entry_point

#: Families of gymnasium ids, and their classes; other ids are `PlangymEnv`.
_CLASSES: dict[str, type[PlangymEnv]] = {
    "classic_control": control.ClassicControl,
    "box2d": control.Box2DEnv,
    "mujoco": control.MujocoEnv,
    "atari": videogames.AtariEnv,
}


def get_planenv_class(
    name: str | None, domain_name: str | None = None, state: str | None = None
) -> type[PlangymEnv]:
    """Return the class for the arguments of `make`."""
    name = name or ""
    special: tuple[tuple[bool, type[PlangymEnv]], ...] = (
        (name == "PlanMontezuma-v0", videogames.MontezumaEnv),
        (name == "FastLunarLander-v0", control.LunarLander),
        (domain_name is not None or name.startswith("dm_control/"), control.DMControlEnv),
        (state is not None or name.startswith("retro/"), videogames.RetroEnv),
        (name.startswith("SuperMarioBros"), videogames.MarioEnv),
        (name.startswith("BalloonLearningEnvironment"), control.BalloonEnv),
    )
    for is_it, found in special:
        if is_it:
            return found
    try:
        family = family_of_entry_point(find_spec(name).entry_point)
    except UnknownName:
        # Simulators that take long to import, for names that gymnasium does not know.
        if name.partition("-")[0] in {domain for domain, _ in environment_names.DM_CONTROL}:
            return control.DMControlEnv
        return videogames.RetroEnv if name in environment_names.RETRO else PlangymEnv
    return PlangymEnv if family is None else _CLASSES.get(family.name, PlangymEnv)


def make(
    name: str | None = None,
    n_workers: int | None = None,
    ray: bool = False,
    domain_name: str | None = None,
    state: str | None = None,
    **kwargs: Any,
) -> Any:
    """Make an env with plangym's interface.

    Args:
        name: a gymnasium id, "PlanMontezuma-v0", "FastLunarLander-v0", a dm_control task such as
            "cheetah-run", or a game of stable-retro.
        n_workers: worker processes for batches; None for none.
        ray: whether they are actors on a Ray cluster.
        domain_name: of a dm_control task, with `task_name`.
        state: where a console game starts.
        kwargs: of the class.

    Returns:
        A `PlangymEnv`, or a `VectorizedEnv` of it.
    """
    env_class = get_planenv_class(name, domain_name, state)
    given = {"name": name, "domain_name": domain_name, "state": state}
    kwargs |= {key: value for key, value in given.items() if value is not None}
    if ray:
        from plangym_ext.compat.plangym.vectorization.ray import RayEnv

        return RayEnv(env_class, n_workers=n_workers, **kwargs)
    if n_workers is not None:
        from plangym_ext.compat.plangym.vectorization.parallel import ParallelEnv

        return ParallelEnv(env_class, n_workers=n_workers, **kwargs)
    return env_class(**kwargs)
