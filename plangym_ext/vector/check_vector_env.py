"""`check_vector_env`: test of a vector env against gymnasium's contract."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from plangym_ext.core.typed_arguments import checking_arguments

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: what is promised.
        problem: how it is broken; "" if it is kept.
        skipped: why it was not checked; "" if it was.
    """

    name: str
    problem: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class VectorEnvReport:
    """Report of `check_vector_env`; `str` gives a readable text."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The promises that are broken."""
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def ok(self) -> bool:
        """Whether no promise is broken."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{self.subject}: {len(self.problems)} of {len(self.findings)} promises broken"]
        for finding in self.findings:
            mark = "BROKEN " if finding.problem else "skipped" if finding.skipped else "kept   "
            note = finding.problem or finding.skipped
            lines.append(f"  {mark} {finding.name}{': ' if note else ''}{note}")
        return "\n".join(lines)


class _Broken(Exception):
    """A violated promise; the message says how."""


class _Skipped(Exception):
    """A promise that cannot be checked; the message says why."""


@checking_arguments
def check_vector_env(venv: VectorEnv, *, max_steps: int = 2000, seed: int = 0) -> VectorEnvReport:
    """Check any vector env against gymnasium's contract.

    It is reset and stepped, and must be deterministic for what compares two plays. It is
    left open, somewhere in an episode; reset it before you go on.

    Args:
        venv: any `gymnasium.vector.VectorEnv`.
        max_steps: random steps after which an episode is held never to end.
        seed: of the resets and actions.
    """
    findings = []
    for name, check in _CHECKS.items():
        player = _Player(venv, max_steps, seed)
        try:
            check(player)
            findings.append(Finding(name))
        except _Broken as broken:
            findings.append(Finding(name, problem=str(broken)))
        except _Skipped as skipped:
            findings.append(Finding(name, skipped=str(skipped)))
        except Exception as error:  # whatever a foreign vector env raises is a finding
            findings.append(Finding(name, problem=f"raised {type(error).__name__}: {error}"))
    return VectorEnvReport(repr(venv), tuple(findings))


class _Player:
    """Plays a vector env with the same actions each time."""

    def __init__(self, venv: VectorEnv, max_steps: int, seed: int) -> None:
        self.venv, self.max_steps, self.seed = venv, max_steps, seed
        self.num_envs = venv.num_envs
        self.mode = venv.metadata.get("autoreset_mode")
        # A copy: to seed the vector env's own would change what its user samples.
        self._space = copy.deepcopy(venv.action_space)
        self._space.seed(seed)
        #: `[n]` bool, which have ended in the last step.
        self._ended = np.zeros(self.num_envs, bool)

    def actions(self) -> Any:
        return self._space.sample()

    def reset(self, **kwargs: Any) -> Any:
        self._ended[:] = False
        return self.venv.reset(seed=self.seed, **kwargs)

    def step(self, actions: Any) -> Any:
        """Step on; where nothing is reset by itself, what has ended is reset before."""
        if self.mode == AutoresetMode.DISABLED and self._ended.any():
            self.venv.reset(options={"reset_mask": self._ended})
        result = self.venv.step(actions)
        self._ended = np.asarray(result[2]) | np.asarray(result[3])
        return result

    def until_ended(self) -> np.ndarray:
        """Play until a sub-env ends; `[n]` bool which have, in this step."""
        self.reset()
        for _ in range(self.max_steps):
            _, _, terminations, truncations, _ = self.venv.step(self.actions())
            ended = np.asarray(terminations) | np.asarray(truncations)
            if ended.any():
                return ended
        raise _Skipped(f"no episode ended within {self.max_steps} steps")


def _want(kept: Any, message: str) -> None:
    if not kept:
        raise _Broken(message)


def _spaces_are_batched(player: _Player) -> None:
    venv = player.venv
    batched = gym.vector.utils.batch_space(venv.single_action_space, venv.num_envs)
    _want(
        venv.action_space == batched,
        f"action_space is {venv.action_space}; single_action_space batched is {batched}",
    )
    for name in ("single_observation_space", "observation_space"):
        _want(isinstance(getattr(venv, name, None), gym.Space), f"{name} is no gymnasium Space")


def _metadata_is_its_own(player: _Player) -> None:
    venv = player.venv.unwrapped
    for owner in type(venv).__mro__:
        shared = vars(owner).get("metadata")
        if isinstance(shared, dict):
            _want(
                shared is not venv.metadata,
                f"metadata, autoreset_mode among them, are those of the class {owner.__name__}: "
                "one vector env changes what another one reports",
            )


def _autoreset_mode_is_told(player: _Player) -> None:
    _want(
        isinstance(player.mode, AutoresetMode),
        f"metadata['autoreset_mode'] is {player.mode!r}, no gymnasium.vector.AutoresetMode",
    )
    told = getattr(player.venv, "autoreset_mode", None)
    _want(told == player.mode, f"the attribute autoreset_mode is {told!r}, not {player.mode!r}")


def _results_are_as_declared(player: _Player) -> None:
    obs, infos = player.reset()
    space = player.venv.observation_space
    _want(obs in space, "the observation of reset does not lie in observation_space")
    _want(isinstance(infos, dict), f"the infos of reset are a {type(infos).__name__}, no dict")
    obs, rewards, terminations, truncations, infos = player.venv.step(player.actions())
    _want(obs in space, "the observation of step does not lie in observation_space")
    shape = (player.num_envs,)
    for name, array, dtype in (
        ("rewards", rewards, np.float64),
        ("terminations", terminations, np.bool_),
        ("truncations", truncations, np.bool_),
    ):
        _want(
            isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype,
            f"{name} must be {shape} {np.dtype(dtype)}; got "
            f"{getattr(array, 'shape', type(array).__name__)} {getattr(array, 'dtype', '')}",
        )


def _arrays_are_the_callers(player: _Player) -> None:
    if not getattr(player.venv.unwrapped, "copy", True):
        raise _Skipped("the vector env was made with copy=False")
    player.reset()
    first = player.step(player.actions())
    before = copy.deepcopy(first)
    player.step(player.actions())
    _want(_same(first, before), "a later step changed arrays that an earlier one returned")


def _infos_have_masks(player: _Player) -> None:
    player.reset()
    for _ in range(min(player.max_steps, 200)):
        *_, infos = player.venv.step(player.actions())
        _check_masks(infos, player.num_envs, "infos")
        if player.mode == AutoresetMode.DISABLED:
            return


def _check_masks(infos: dict[str, Any], num_envs: int, where: str) -> None:
    for key, value in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        mask = infos.get(f"_{key}")
        _want(
            isinstance(mask, np.ndarray) and mask.shape == (num_envs,) and mask.dtype == np.bool_,
            f"{where}[{key!r}] has no bool mask {where}['_{key}'] of shape ({num_envs},)",
        )
        if isinstance(value, dict):
            _check_masks(value, num_envs, f"{where}[{key!r}]")


def _seeds_reproduce(player: _Player) -> None:
    actions = [player.actions() for _ in range(5)]
    plays = []
    for _ in range(2):
        play = [player.reset()]
        play += [player.step(action) for action in actions]
        plays.append([result[:-1] for result in play])
    _want(_same(*plays), "two resets with the same seed and the same actions differ")


def _mask_resets_some(player: _Player) -> None:
    player.reset()
    mask = np.arange(player.num_envs) == 0
    options = {"reset_mask": mask, "other": 1}
    given = dict(options)
    try:
        player.venv.reset(options=options)
    except TypeError as error:
        raise _Skipped(f"these envs take no other option ({error})") from None
    _want(
        options.keys() == given.keys(),
        f"reset took {sorted(given.keys() - options.keys())} out of the caller's options: a "
        "wrapper that looks at them afterwards takes it for a reset of all",
    )


def _reset_clears_pending_resets(player: _Player) -> None:
    if player.mode != AutoresetMode.NEXT_STEP:
        raise _Skipped("sub-envs are not reset in the next step")
    action = player.actions()
    player.reset()
    # What such a step gives where no reset is pending.
    expected = player.venv.step(action)[:-1]
    player.until_ended()
    player.reset()
    got = player.venv.step(action)[:-1]
    _want(
        _same(expected, got),
        "after an episode had ended and all was reset, the first step gave rewards "
        f"{got[1]} instead of {expected[1]}: it reset a sub-env once more",
    )


def _ended_envs_are_refused(player: _Player) -> None:
    if player.mode != AutoresetMode.DISABLED:
        raise _Skipped("sub-envs are reset by themselves")
    player.until_ended()
    try:
        player.venv.step(player.actions())
    except Exception:  # any refusal will do
        player.reset()
        return
    player.reset()
    raise _Broken("a sub-env that had ended was stepped on without an error")


def _final_observations_are_given(player: _Player) -> None:
    if player.mode != AutoresetMode.SAME_STEP:
        raise _Skipped("sub-envs are not reset in the step that ends them")
    player.reset()
    for _ in range(player.max_steps):
        _, _, terminations, truncations, infos = player.venv.step(player.actions())
        ended = terminations | truncations
        if ended.any():
            _want(
                "final_obs" in infos and np.array_equal(infos["_final_obs"], ended),
                f"sub-envs {np.flatnonzero(ended).tolist()} ended; infos have no final_obs with "
                "a mask that says so",
            )
            return
    raise _Skipped(f"no episode ended within {player.max_steps} steps")


def _next_step_resets(player: _Player) -> None:
    if player.mode != AutoresetMode.NEXT_STEP:
        raise _Skipped("sub-envs are not reset in the next step")
    ended = player.until_ended()
    _, rewards, terminations, truncations, _ = player.venv.step(player.actions())
    quiet = (rewards[ended] == 0) & ~terminations[ended] & ~truncations[ended]
    _want(quiet.all(), "the step after an ending is no reset with reward 0 and no flags")


def _sub_envs_can_be_reached(player: _Player) -> None:
    venv = player.venv.unwrapped
    missing = [name for name in ("call", "get_attr", "set_attr") if not hasattr(venv, name)]
    _want(not missing, f"there is no {', '.join(missing)}")
    found: Any = venv.get_attr("spec")  # type: ignore[attr-defined]
    _want(
        isinstance(found, tuple) and len(found) == player.num_envs,
        f"get_attr must return a tuple of {player.num_envs}; got {type(found).__name__}",
    )


def _wrong_numbers_are_refused(player: _Player) -> None:
    player.reset()
    more = gym.vector.utils.batch_space(player.venv.single_action_space, player.num_envs + 1)
    try:
        player.venv.step(more.sample())
    except (ValueError, TypeError, AssertionError, gym.error.Error):
        return
    raise _Broken(f"a step took {player.num_envs + 1} actions for {player.num_envs} sub-envs")


_CHECKS: dict[str, Callable[[_Player], None]] = {
    "spaces are those of one sub-env, batched": _spaces_are_batched,
    "metadata belong to the instance": _metadata_is_its_own,
    "autoreset_mode is told, as an enum and as an attribute": _autoreset_mode_is_told,
    "results have the declared shapes and dtypes": _results_are_as_declared,
    "returned arrays belong to the caller": _arrays_are_the_callers,
    "infos have masks": _infos_have_masks,
    "the same seed gives the same play": _seeds_reproduce,
    "reset by mask leaves the caller's options alone": _mask_resets_some,
    "a reset clears pending resets": _reset_clears_pending_resets,
    "an ended sub-env is refused when autoreset is disabled": _ended_envs_are_refused,
    "an ending is followed by a reset in the next step": _next_step_resets,
    "an ending comes with its last observation": _final_observations_are_given,
    "sub-envs can be called and their attributes read": _sub_envs_can_be_reached,
    "a wrong number of actions is refused": _wrong_numbers_are_refused,
}


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, np.ndarray) and first.dtype == object:
        return _same(list(first), list(second))
    kinds = [np.asarray(value).dtype.kind for value in (first, second)]
    # Asked of floats alone: numpy cannot look for nan among texts and objects.
    return bool(np.array_equal(first, second, equal_nan=kinds == ["f", "f"]))
