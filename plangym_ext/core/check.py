"""The round trip: does a restored state really lead to the same future?

Save, play, restore, play the same again, compare bytes; then the same in a second
instance of the env. It names the first field and step that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.results import StateTransition


@dataclass(frozen=True)
class RoundTrip:
    """Outcome of `check_round_trip`.

    Attributes:
        exact: whether every transition came out the same.
        transitions: how many were compared.
        difference: first field, step, save point and instance that differ; "" if none.
    """

    exact: bool
    transitions: int
    difference: str = ""


@dataclass(frozen=True)
class _Moment:
    """One transition as bytes, field by field."""

    fields: dict[str, Any]

    @classmethod
    def of(cls, env: GymEnv, action: Any) -> _Moment:
        result = env.step(action, return_state=True)
        assert isinstance(result, StateTransition)
        state, obs, reward, terminated, truncated, info = result
        fields: dict[str, Any] = {
            f"observation{leaf.name}": np.asarray(part).tobytes()
            for leaf, part in zip(env.layout.obs.leaves, env.layout.obs.split(obs), strict=True)
        }
        fields |= {"reward": reward, "terminated": terminated, "truncated": truncated}
        fields |= {
            f"info[{column.key!r}]": np.asarray(info.get(column.key, 0)).tobytes()
            for column in env.layout.info
        }
        fields["next state"] = state.tobytes()
        return cls(fields)

    def first_difference(self, other: _Moment) -> str:
        return next((key for key in self.fields if self.fields[key] != other.fields[key]), "")


def check_round_trip(
    env: GymEnv,
    *,
    seed: int = 0,
    save_points: tuple[int, ...] = (0, 1, 17),
    num_steps: int = 40,
) -> RoundTrip:
    """Compare futures from restored states with the ones that really happened.

    The env is reset and moved. Actions are random; an episode that ends goes on with
    the next one, so the random state is part of what is compared.

    Args:
        env: to check; a second instance is made with `clone`.
        seed: of the reset and the actions.
        save_points: steps after the reset at which states are saved.
        num_steps: steps that are compared behind each save point.
    """
    actions = _random_actions(env, max(save_points) + num_steps, seed)
    env.reset(seed=seed)
    saved: dict[int, np.ndarray] = {}
    played: list[_Moment] = []
    for step, action in enumerate(actions):
        if step in save_points:
            saved[step] = env.get_state()
        played.append(_Moment.of(env, action))
    compared = 0
    with env.clone() as other:
        for which, instance in (("the same instance", env), ("a second instance", other)):
            for point, state in saved.items():
                instance.set_state(state)
                for step in range(point, point + num_steps):
                    again = _Moment.of(instance, actions[step])
                    compared += 1
                    field = played[step].first_difference(again)
                    if field:
                        return RoundTrip(
                            False,
                            compared,
                            f"{field} differs at step {step + 1}, {step + 1 - point} after the "
                            f"state of step {point} was restored in {which}",
                        )
    return RoundTrip(True, compared)


def _random_actions(env: GymEnv, count: int, seed: int) -> list[Any]:
    env.action_space.seed(seed)
    return [env.sample_action() for _ in range(count)]
