"""ForkingSampler: sampler that also plays branches from visited states; branch rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.nested import leaves, mapped, rows_of
from plangym_ext.core.masks import mask_width
from plangym_ext.core.numbers import at_least
from plangym_ext.core.slot_stepper import SlotStepper
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.learn.agents.agent import Agent
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.sampling.actors.actor import Actor
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.local import LocalSampler
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.learn.sampling.options import SamplerOptions, check_vector_env
from plangym_ext.planners.masks import action_masks, has_masks
from plangym_ext.planners.plans import Budget
from plangym_ext.states.envelope import stacked_rows
from plangym_ext.vector.vector_env import PlanVectorEnv


class Branches(NamedTuple):
    """The results of N branches of at most H steps; arrays belong to the caller."""

    reward: npt.NDArray[np.float32]  # [H, N] of the env; 0 once a branch has ended
    length: npt.NDArray[np.int64]  # [N] steps that were taken
    rest: npt.NDArray[np.float32]  # [N] the critic's value of where it was cut; 0 if terminated

    def of(self, rows: Ndarray) -> Branches:
        """Return some branches, which may repeat; `rows` are `[n]` int."""
        return Branches(self.reward[:, rows], self.length[rows], self.rest[rows])


def play_branches(
    env: SlotStepper, agent: Agent, states: Ndarray, actions: Any, noise: RowNoise, horizon: int
) -> Branches:
    """Play N branches side by side: a given first action from a state, then the agent's.

    All branches that go on are one batch of the env, from slot to slot, and one call of the
    agent. One that terminates, or that the env truncates, is stepped no further. What the env
    itself draws is the same in all branches from one state, as its generator is a part of it.

    Args:
        env: that the states belong to.
        agent: carries nothing, and has values; acts in its mode.
        states: `[N, S]` uint8, of episodes that go on.
        actions: `[N, *act]`, nested as the space: what each branch begins with.
        noise: of N rows, at the step before the first one that the agent chooses.
        horizon: H, steps after which a branch is cut and worth what the critic says.
    """
    count = len(states)
    reward = np.zeros((horizon, count), np.float32)
    length, rest = np.zeros(count, np.int64), np.zeros(count, np.float32)
    slots = env.states.allocate(count)
    try:
        env.states[slots] = states
        going, steps = np.arange(count), noise.steps
        for h in range(horizon):
            # From a slot into itself: the states before are not needed any more.
            found = env.step_slots(actions, slots[going], slots[going])
            reward[h, going], length[going] = found.rewards, h + 1
            shown = _shown(env, found, actions)
            over = found.terminateds | found.truncateds | (h + 1 == horizon)
            cut = np.flatnonzero(over & ~found.terminateds)
            if len(cut):
                # Also where the env truncated; what terminated is worth nothing more.
                rest[going[cut]] = agent.value(some_inputs(shown, cut), None)
            on = np.flatnonzero(~over)
            if not len(on):
                break
            going, drawn = going[on], noise.of(going[on])
            # Each branch at its own step h, however many of the others have ended.
            drawn.move_to(steps[going] + np.uint64(h + 1))
            shown = some_inputs(shown, on)._replace(noise=drawn)
            actions = agent.step(shown, None).action
    finally:
        env.states.free(slots)
    return Branches(reward, length, rest)


def some_inputs(inputs: Inputs, rows: Ndarray) -> Inputs:
    """Return the inputs of some rows, without random numbers; `rows` are `[n]` int."""
    shown = (None if part is None else rows_of(part, rows) for part in inputs._replace(noise=None))
    return Inputs(*shown)


def _shown(env: SlotStepper, found: Any, actions: Any) -> Inputs:
    """Return the agent's inputs after a step of some branches."""
    ended, legal = found.terminateds | found.truncateds, None
    width = mask_width(env.action_space)
    if width is not None and has_masks(found.infos):
        legal = action_masks(found.infos, ended, width)
    reward = found.rewards.astype(np.float32)
    return Inputs(found.obs, actions, reward, np.zeros(len(ended), np.bool_), legal=legal)


Ndarray = npt.NDArray[Any]

#: Stream of the random numbers of branches.
STREAM = 3


class Forks(NamedTuple):
    """The results of k branches from each of N visited states; the arrays are fresh.

    Entry i k + j of what is `[N k]` belongs to branch j of state i.
    """

    step: npt.NDArray[np.int64]  # [N] where in the fragment the state was visited
    row: npt.NDArray[np.int64]  # [N] in which env
    num_branches: int  # k
    action: Any  # [N k, *act] what branches began with, as drawn, nested as the space
    log_prob: npt.NDArray[np.float32]  # [N k] of these actions
    branches: Branches  # N k of them
    cost: Budget  # of all branches: their steps, the rows that the agent was asked for


@final
class ForkingSampler(LocalSampler):
    """Play an agent, and k branches from every n-th visited state of each env.

    The first branch of a state begins with the played action, the others with further draws of the
    agent: so all first actions are drawn from the policy, and `PPO` and `A2C` learn from all of
    them: `AdvantageConfig(name="forked")`. The envs' own steps do not depend on the branches, which
    begin from the captured states in slots of another env.

    With common random numbers the branches of a state draw the same after their first actions.
    Those that also begin with the same action are one and the same: they are stepped once, and
    charged once.

    `Collected.forks` has the branches, and `Collected.cost` their steps beside those of the
    envs. Random numbers depend only on the seed, the env and the step, so a saved sampler continues
    bit for bit.

    Args:
        venv: as of `SerialSampler`, whose states can be captured.
        agent: an actor-critic that carries nothing.
        num_steps: T.
        env: steps the branches: made as the sub-envs, of any backend. It remains the caller's.
        branches: k >= 2.
        horizon: steps after which a branch is cut and worth what the critic says.
        every: n, steps of an env from one such state to the next.
        common_random_numbers: whether branches of a state draw alike.
        **options: of `SamplerOptions`.

    Raises:
        IncompleteState: states of the env are not exact.
        InvalidOption: the agent is recurrent or has no policy that it draws from, or an option has
            a value that it cannot have.
        WrongKind, InvalidAnswer: as of `SerialSampler`.
    """

    def __init__(
        self,
        venv: PlanVectorEnv,
        agent: Agent,
        num_steps: int,
        env: Any,
        *,
        branches: int = 4,
        horizon: int = 32,
        every: int = 8,
        common_random_numbers: bool = True,
        **options: Any,
    ) -> None:
        check_vector_env(venv, "ForkingSampler")
        _check(env, agent)
        self._env: SlotStepper = env
        self._count = at_least("ForkingSampler: branches", branches, 2)
        self._horizon = at_least("ForkingSampler: horizon", horizon, 1)
        self._every = at_least("ForkingSampler: every", every, 1)
        self._common = common_random_numbers
        chosen = SamplerOptions(**options)
        super().__init__(venv, agent, num_steps, chosen, [range(venv.num_envs)])
        if "log_prob" not in self.tree.get("agent_info", {}):
            raise InvalidOption(
                f"ForkingSampler: the agent must return the log_prob of its actions; "
                f"{type(agent).__name__} does not. Use an ActorCriticAgent."
            )
        self._numbers = np.array(chosen.numbers(range(venv.num_envs)))
        numbers = self._numbers[:, None] * self._count + np.arange(self._count)
        self._noise = RowNoise(chosen.seed, numbers.ravel(), STREAM)
        #: States `[B, S]` of the envs before some steps of the fragment that is being played.
        self._visited: dict[int, Ndarray] = {}
        self._forks: Forks | None = None

    def collect(
        self, n: int | None = None, version: int = 0, progress: Progress | None = None
    ) -> Collected:
        """Play T steps in every env, and the branches; see `SerialSampler.collect`."""
        found = super().collect(n, version, progress)
        forks, self._forks = self._forks, None
        assert forks is not None
        return found._replace(forks=forks, cost=found.cost + forks.cost)

    def _play(self, progress: Progress | None) -> None:
        self._visited = {}
        super()._play(progress)
        # Here, so that a fragment whose branches failed has not happened.
        self._forks, self._visited = self._forked(), {}

    def _visit(self, actor: Actor, t: int) -> None:
        if t % self._every == 0:
            self._visited[t] = actor.env_states()

    def _forked(self) -> Forks:
        """Play the branches of a fragment."""
        (actor,), valid = self._actors, self.tree["valid"].to_ndarray(copy=False)
        # A row that waits for the next fragment is nowhere in an episode.
        at = [(t, np.flatnonzero(valid[t])) for t in self._visited]
        step = np.concatenate([np.full(len(rows), t) for t, rows in at])
        row = np.concatenate([rows for _, rows in at])
        states = stacked_rows([self._visited[t][i] for t, rows in at for i in rows])
        shown = _joined([some_inputs(actor.inputs(t), rows) for t, rows in at])
        before = np.concatenate([actor.steps_before(t)[rows] for t, rows in at])
        noise, origin = self._noise_of(row, before), np.repeat(np.arange(len(row)), self._count)
        first = self._first_actions(step, row, some_inputs(shown, origin)._replace(noise=noise))
        played = np.arange(len(origin))
        again, drawn = played, noise
        if self._common:
            played, again = distinct(origin, first.action)
            drawn = noise.of(origin * self._count)  # as the first branch of its state draws
        branches = play_branches(
            self._env,
            self._agent,
            states[origin[played]],
            mapped(lambda leaf: leaf[played], first.action),
            drawn.of(played),
            self._horizon,
        )
        taken = int(branches.length.sum())
        asked = len(origin) + taken
        cost = Budget(model_steps=taken, evaluator_rows=asked, restores=len(played))
        return Forks(step, row, self._count, first.drawn, first.log_prob, branches.of(again), cost)

    def _noise_of(self, row: Ndarray, before: Ndarray) -> RowNoise:
        """Return the random numbers of all branches `[N k]`, at their first actions."""
        index = row[:, None] * self._count + np.arange(self._count)
        noise = self._noise.of(index.ravel())
        # Each of the steps of a branch has numbers of its own.
        noise.move_to(np.repeat(before * np.uint64(self._horizon + 1), self._count))
        noise.rows = np.repeat(self._numbers[row], self._count)  # as agents know them
        return noise

    def _first_actions(self, step: Ndarray, row: Ndarray, inputs: Inputs) -> _First:
        """Return the first actions of `[N k]` branches; of each state, first the played one."""
        acted = self._agent.step(inputs, None)
        drawn = acted.info.get("raw_action", acted.action)
        found = _First(acted.action, drawn, np.array(acted.info["log_prob"]))
        info = self.tree["agent_info"]
        kept = info["raw_action"] if "raw_action" in info else self.tree["action"]
        sources = self.tree["action"], kept, info["log_prob"]
        for mine, source in zip(found, sources, strict=True):
            for target, array in zip(leaves(mine), _arrays(source), strict=True):
                target[:: self._count] = array[step, row]
        return found


class _First(NamedTuple):
    """First actions and start states of M branches."""

    action: Any  # [M, *act] within the bounds of the space
    drawn: Any  # [M, *act] before it was clipped
    log_prob: npt.NDArray[np.float32]  # [M] of what was drawn


def _check(env: Any, agent: Any) -> None:
    """Refuse an env whose states are not exact, and an agent that carries something."""
    if env.exact is False:
        raise IncompleteState(
            f"ForkingSampler: branches begin from exact states, and those of {env.name} are not. "
            f"`plangym-ext doctor` says why. Use advantages by GAE."
        )
    if agent.initial_carry(1) is not None:
        raise InvalidOption(
            f"ForkingSampler: the agent must not be recurrent, as a branch begins in the middle of "
            f"an episode; {type(agent).__name__} is. Use advantages by GAE, or make its network "
            f"with recurrent='none'."
        )


def _joined(parts: list[Inputs]) -> Inputs:
    """Return the inputs of several steps, concatenated, `[N, ...]`."""
    return Inputs(
        *(
            None if some[0] is None else mapped(lambda *leaf: np.concatenate(leaf), *some)
            for some in zip(*parts, strict=True)
        )
    )


def _arrays(source: Any) -> Iterator[Ndarray]:
    """Yield the arrays `[T, B, ...]` of a part of a tree."""
    found: list[Any] = [source]
    if isinstance(source, ArrayDict):
        found = [leaf for _, leaf in source.leaves()]
    return (array.to_ndarray(copy=False) for array in found)


def distinct(origin: Ndarray, action: Any) -> tuple[Ndarray, Ndarray]:
    """Return the distinct ones of M branches, and for each branch its equal among them.

    Args:
        origin: `[M]` the state of each.
        action: `[M, *act]`, nested, what each begins with.
    """
    columns = [origin.astype(np.int64), *leaves(action)]
    rows = [np.ascontiguousarray(one).reshape(len(origin), -1).view(np.uint8) for one in columns]
    known = np.concatenate(rows, axis=1)
    _, first, again = np.unique(known, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order of the branches
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[again.ravel()]
