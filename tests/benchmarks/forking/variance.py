"""How far estimates of advantages lie from the truth, for the same states and actions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forking.learning import KINDS, Learner, Task
from plangym_ext import make_vec
from plangym_ext.arrays.nested import mapped
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.returns import branch_returns, forked_advantages, gae
from plangym_ext.learn.sampling.forking import distinct, play_branches
from plangym_ext.learn.sampling.noise import RowNoise

_ENVS, _FRAGMENT = 16, 256


class Visited(NamedTuple):
    """N states that a policy came through, and what it did there."""

    states: Any  # [N, S]
    obs: Any  # [N, *obs]
    action: Any  # [N, *act] as played


class Estimates(NamedTuple):
    """R estimates of the advantages of N actions, and what they cost."""

    found: Any  # [R, N]
    steps: float  # of an env for each estimate


class Ruler:
    """Estimates advantages of what a trained policy did in some states.

    Args:
        learner: trained; its network is asked, and no longer changed.
        task: what it has learned.
        count: N.
    """

    def __init__(self, learner: Learner, task: Task, count: int) -> None:
        self._env, self._agent, self._task = learner.env, learner.agent, task
        self._discount = learner.algorithm.config.discount
        normalizer = learner.algorithm._rewards
        self._unit = 1.0 if normalizer is None else float(normalizer.deviation)
        self._seed = 100
        self._agent.set_mode("sample")
        self.visited = self._visited(count)

    def _numbers(self, count: int) -> RowNoise:
        """Return random numbers that were not used before."""
        self._seed += 1
        return RowNoise(self._seed, range(count))

    def _acted(self, obs: Any, noise: RowNoise) -> Any:
        inputs = first_inputs(obs, self._env.action_space, len(noise), noise=noise)
        return self._agent.step(inputs, None)

    def _value(self, obs: Any, count: int) -> Any:
        return self._agent.value(first_inputs(obs, self._env.action_space, count), None)

    def _visited(self, count: int) -> Visited:
        """Play on, and keep states of different times and envs."""
        parts = []
        noise = self._numbers(_ENVS)
        with make_vec(
            self._task.env_id, _ENVS, autoreset_mode="same_step", **self._task.kwargs
        ) as venv:
            obs, _ = venv.reset(seed=1)
            for step in range(23 * -(-count // _ENVS)):
                noise.advance()
                action = self._acted(obs, noise).action
                if step % 23 == 22:
                    parts.append((venv.get_states(), np.array(obs), np.array(action)))
                obs, *_ = venv.step(action)
        states, shown, played = (np.concatenate(part)[:count] for part in zip(*parts, strict=True))
        return Visited(states, shown, played)

    # Estimates --------------------------------------------------------------------------

    def forked(self, branches: int, horizon: int, common: bool, repeats: int) -> Estimates:
        """Estimate by branches, the first of which begin with what was played."""
        found, steps = [], 0
        for _ in range(repeats):
            returned, taken = self._returned(branches, horizon, common=common)
            found.append(forked_advantages(returned)[:, 0])
            steps += taken
        return Estimates(np.array(found), steps / (repeats * len(found[0]) * branches))

    def _returned(self, branches: int, horizon: int, *, common: bool) -> tuple[Any, int]:
        """Return `[N, k]` returns of branches, and the steps that they took."""
        visited = self.visited
        origin = np.repeat(np.arange(len(visited.states)), branches)
        noise = self._numbers(len(origin))
        action = self._acted(visited.obs[origin], noise).action
        action[::branches] = visited.action
        one, again = np.arange(len(origin)), np.arange(len(origin))
        if common:
            one, again = distinct(origin, action)
            noise = noise.of(origin * branches)
        states, first = visited.states[origin[one]], mapped(lambda leaf: leaf[one], action)
        played = play_branches(self._env, self._agent, states, first, noise.of(one), horizon)
        reward, length, rest = played
        returned = branch_returns(reward / self._unit, length, rest, discount=self._discount)
        return returned[again].reshape(-1, branches), int(length.sum())

    def truth(self, branches: int, horizon: int) -> tuple[Any, Any]:
        """Return `[N]` advantages by many long branches, and their squared standard errors."""
        found = []
        for _ in range(branches // 2):
            pair, _ = self._returned(2, horizon, common=True)
            found.append(pair[:, 0] - pair[:, 1])
        return np.mean(found, axis=0), np.var(found, axis=0, ddof=1) / len(found)

    def played(self, lams: tuple[float, ...], repeats: int) -> list[Estimates]:
        """Estimate by GAE of what follows in a fragment, for several λ."""
        found: list[list[Any]] = [[] for _ in lams]
        count = len(self.visited.states)
        with make_vec(
            self._task.env_id, count, autoreset_mode="same_step", **self._task.kwargs
        ) as venv:
            venv.reset(seed=0)
            for _ in range(repeats):
                rows = self._fragment(venv, count)
                for one, lam in zip(found, lams, strict=True):
                    one.append(gae(*rows[:3], discount=self._discount, lam=lam, **rows[3])[0])
        return [Estimates(np.array(one), 1.0) for one in found]

    def _fragment(self, venv: Any, count: int) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Play on from the states, with the actions that were played first."""
        venv.set_states(self.visited.states)
        noise, obs, action = self._numbers(count), self.visited.obs, self.visited.action
        rows: list[tuple[Any, ...]] = []
        for _ in range(_FRAGMENT):
            value = self._value(obs, count)
            obs, reward, terminated, truncated, infos = venv.step(action)
            final = np.zeros(count)
            if truncated.any():
                ended = np.stack(infos["final_obs"][truncated])
                final[truncated] = self._value(ended, len(ended))
            rows.append((reward / self._unit, value, terminated, truncated, final))
            noise.advance()
            action = self._acted(obs, noise).action
        reward, value, terminated, truncated, final = (
            np.stack(column) for column in zip(*rows, strict=True)
        )
        ends = {"truncated": truncated, "final_value": final, "bootstrap": self._value(obs, count)}
        return reward, value, terminated, ends


def measured(task: Task, *, quick: bool) -> dict[str, dict[str, float]]:
    """Train with GAE, then compare estimates for the same states and actions."""
    steps, until = task.looked_at
    learner = Learner(task, KINDS["GAE"], 0, until)
    learner.learn(1 if quick else steps)
    count, repeats = (16, 2) if quick else (256, 16)
    ruler = Ruler(learner, task, count)
    truth, error = ruler.truth(4 if quick else 64, 10 if quick else 200)
    found = {}
    names = ["GAE 0.95", "Monte Carlo"]
    estimates = dict(zip(names, ruler.played((0.95, 1.0), repeats), strict=True))
    for horizon in (8, 32):
        for branches in (2, 4):
            for common in (False, True):
                name = f"{branches} branches of {horizon}, {'common' if common else 'apart'}"
                estimates[name] = ruler.forked(branches, horizon, common, repeats)
    for name, one in estimates.items():
        found[name] = _summary(one, truth, error)
    found["truth"] = {"deviation": float(truth.std()), "error": float(np.sqrt(error.mean()))}
    learner.close()
    return found


def _summary(one: Estimates, truth: Any, error: Any) -> dict[str, float]:
    """Return variance, mean squared error, and how alike single estimates and the truth are."""
    every = np.broadcast_to(truth, one.found.shape)
    return {
        "steps": one.steps,
        "variance": float(one.found.var(axis=0, ddof=1).mean()),
        # The noise of the truth is no error of the estimates.
        "error": float(((one.found - every) ** 2).mean() - error.mean()),
        "correlation": float(np.corrcoef(one.found.ravel(), every.ravel())[0, 1]),
    }
