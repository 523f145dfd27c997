"""All settings of a training run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plangym_ext.core.numbers import finite_between, seconds_or_none
from plangym_ext.errors import InvalidOption, suggestion
from plangym_ext.learn.algorithms.expert_config import ExpertConfig
from plangym_ext.learn.algorithms.off_policy.config import OffPolicyConfig
from plangym_ext.learn.networks.config import NetworkConfig
from plangym_ext.run.settings.sections import (
    AgentSettings,
    AlgorithmSettings,
    PlannerSettings,
    TrainerSettings,
    checked_choice,
    checked_least,
)
from plangym_ext.run.settings.starts import StartsSettings

COLLECTORS = ("games", "solutions")
REPLAYS = ("uniform", "prioritized", "balanced")
#: Whether an agent plays and an algorithm learns in turn, or at once.
MODES = ("sync", "async")
PLAYERS = ("network", "planner")
_MOST_THREADS = 1024
#: What a run with a planner has and one with an agent has not, and the other way round.
OF_PLANNERS = frozenset({"planner", "network", "trainer", "replay", "updates"})
OF_AGENTS = frozenset({"agent", "algorithm", "teacher", "starts", "learners", "mode"})


@dataclass(frozen=True, kw_only=True)
class EnvSettings:
    """Where is played.

    Args:
        id: a gymnasium id; "module:Id-v0" imports the module first.
        kwargs: for the env's constructor.
        frameskip: env steps per move; None: the env's own. Of an agent: in envs that have a native
            backend, or an argument of this name.
        n_workers: worker processes that step the env; 0: none; None: the fastest backend.
        max_steps: moves after which an episode is cut; of an agent, in evaluations alone:
            while it learns, the env's own limit counts.
        trust: open pickles in the states of a checkpoint, for envs that have any.
    """

    id: str = "CartPole-v1"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    frameskip: int | None = None
    n_workers: int | None = None
    max_steps: int = 1000
    trust: bool = False

    def __post_init__(self) -> None:
        """Check the settings."""
        checked_least("env.max_steps", self.max_steps, 1)
        checked_least("env.frameskip", self.frameskip, 1)
        checked_least("env.n_workers", self.n_workers, 0)


@dataclass(frozen=True, kw_only=True)
class CollectorSettings:
    """How episodes are collected.

    Args:
        kind: "games" that a planner plays move by move; or "solutions": of every game the planner
            plans once, and the way that it found is learned from if it leads to a termination.
            These are for planners that find whole ways, such as `phs`.
        num_envs: games that are played side by side; of "solutions" the games of a round.
        moves: of every game, per round; of "solutions" it means nothing.
        n_workers: processes that share the games of a planner, each with its own network; 0: all
            are played here, in one batch. For an agent, `env.n_workers` step the envs, but in
            `mode` "async".
        timeout: seconds that a worker of `n_workers` may take over one move of its games before it
            counts as hung, and is stopped; one of `env.n_workers`, over one step of one env;
            None: no limit.
        lead: in `mode` "async", the largest share of the steps since learning began that may be
            played and not yet be learned from: workers play ahead from the round on in which a
            round is no more than that. 1: always; 0: never.
        attributes: fields of the last step's info to keep with an episode, such as "solved".
    """

    kind: str = "games"
    num_envs: int = 32
    moves: int = 16
    n_workers: int = 0
    timeout: float | None = 300.0
    lead: float = 0.01
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.kind not in COLLECTORS:
            raise InvalidOption(
                f"settings: collector.kind must be one of {', '.join(COLLECTORS)}; got "
                f"{self.kind!r}{suggestion(self.kind, COLLECTORS)}."
            )
        if self.kind == "solutions" and self.n_workers:
            raise InvalidOption(
                f"settings: collector.n_workers must be 0 with kind 'solutions', whose searches "
                f"are one batch; got {self.n_workers}. env.n_workers step the env."
            )
        checked_least("collector.num_envs", self.num_envs, 1)
        checked_least("collector.moves", self.moves, 1)
        checked_least("collector.n_workers", self.n_workers, 0)
        seconds_or_none("settings: collector.timeout", self.timeout)
        finite_between("settings: collector.lead", self.lead, 0.0, 1.0)
        if self.n_workers > self.num_envs:
            raise InvalidOption(
                f"settings: collector.n_workers must be at most num_envs, {self.num_envs}: a "
                f"worker plays at least one game; got {self.n_workers}."
            )


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """What is remembered, and how batches are drawn.

    Args:
        kind: "uniform", "prioritized" or "balanced"; or "module:Class" of a `Replay` of your own.
        capacity: rows; per group if balanced.
        min_rows: rows that must be there before learning begins.
        balance_by: attribute of episodes whose values are the groups of "balanced".
        alpha: how much priorities matter, for "prioritized".
        beta: how far weights undo it, for "prioritized".
        options: further arguments of a replay of your own, after `capacity` and `seed`.
    """

    kind: str = "uniform"
    capacity: int = 50_000
    min_rows: int = 500
    balance_by: str = "solved"
    alpha: float = 0.6
    beta: float = 0.4
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the settings."""
        checked_choice("replay.kind", self.kind, REPLAYS)
        checked_least("replay.capacity", self.capacity, 1)
        checked_least("replay.min_rows", self.min_rows, 1)
        # A balanced one holds so many of each group, and one of your own what it likes.
        if self.kind in ("uniform", "prioritized") and self.min_rows > self.capacity:
            raise InvalidOption(
                f"replay.min_rows must be at most replay.capacity, {self.capacity}, or learning "
                f"would never begin; got {self.min_rows}."
            )

    @property
    def grouped_by(self) -> str | None:
        """The attribute of episodes whose values are the groups; None: there are no groups."""
        return self.balance_by if self.kind == "balanced" else None


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """How the network is judged, apart from training.

    Args:
        every: rounds between evaluations, the last round included; 0: never.
        episodes: played side by side.
        player: "network" plays without search, "planner" searches; or "module:Class" of a
            `Planner` of your own, which gets the `evaluator` if it has a field of that name.
        sample: whether an agent with a policy draws its actions from it, as while it learns. What
            PPO learned of Atari often scores more so than by its likeliest actions.
        planner: options of the planner that differ from training.
        env: arguments of the env that differ from training, such as held-out levels.
        seed: of the first episode; the others follow.
        record: evaluations from one film of an episode to the next, in RUN/episodes; 0: none.
        stop_at: mean return at which the run ends early; None: never.
    """

    every: int = 0
    episodes: int = 20
    player: str = "network"
    sample: bool = False
    planner: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1_000_000
    record: int = 0
    stop_at: float | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        checked_choice("evaluation.player", self.player, PLAYERS)
        checked_least("evaluation.every", self.every, 0)
        checked_least("evaluation.episodes", self.episodes, 1)
        checked_least("evaluation.seed", self.seed, 0)
        checked_least("evaluation.record", self.record, 0)
        if self.stop_at is not None and not math.isfinite(self.stop_at):
            raise InvalidOption(
                f"settings: evaluation.stop_at must be finite or none; got {self.stop_at}."
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All settings of a training run.

    Either a planner plays, and a trainer learns from a replay; or an agent plays, and an
    algorithm learns. The sections of the other kind of run are left out of its settings.

    Args:
        env: where is played.
        planner: who plays while it is learned.
        network: what learns.
        trainer: how it learns.
        replay: from what.
        agent: who plays, in a run without a planner.
        algorithm: how it learns.
        teacher: the planner that algorithm "expert" learns from.
        starts: stored states that an agent's episodes begin from.
        collector: how episodes are collected.
        evaluation: how the network is judged.
        seed: of everything; the same gives the same, bit for bit.
        rounds: of collecting and learning.
        updates: of the network, per round.
        checkpoint_every: rounds between checkpoints, of which the newest two are kept; 0: only
            one at the end.
        weights_every: rounds between files of what plays, in RUN/weights, which are all kept and
            which `eval`, `audit` and `plan --network` take; 0: none.
        recent_episodes: of how many episodes, the last ones of the run, `recent/...` is logged.
        wandb: project on Weights & Biases that gets the log too (extra `wandb`); empty: none.
        device: where the network runs.
        threads: of torch; results can differ in the last bits with their number.
        learners: processes that an agent's run learns in, each with `num_envs` envs and batches of
            `batch_size` of its own: as one that has so many times of both.
        mode: "sync": an agent plays, then the algorithm learns from it; "async": the next round is
            played while this one is learned from, by `collector.n_workers` processes, at least
            one; for algorithms with a replay.
    """

    env: EnvSettings = field(default_factory=EnvSettings)
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    agent: AgentSettings | None = None
    algorithm: AlgorithmSettings | None = None
    teacher: PlannerSettings | None = None
    starts: StartsSettings = field(default_factory=StartsSettings)
    collector: CollectorSettings = field(default_factory=CollectorSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    seed: int = 0
    rounds: int = 100
    updates: int = 16
    checkpoint_every: int = 10
    weights_every: int = 0
    recent_episodes: int = 100
    wandb: str = ""
    device: str = "cpu"
    # One, as sums over threads round by their number: a run is to end alike on all machines.
    threads: int = 1
    learners: int = 1
    mode: str = "sync"

    def __post_init__(self) -> None:
        """Check the settings, and those of the evaluation's planner."""
        checked_least("seed", self.seed, 0)
        if self.seed >= 2**63:  # torch takes no larger one
            raise InvalidOption(f"settings: seed must be less than 2**63; got {self.seed}.")
        checked_least("rounds", self.rounds, 1)
        checked_least("updates", self.updates, 0)
        checked_least("checkpoint_every", self.checkpoint_every, 0)
        checked_least("weights_every", self.weights_every, 0)
        checked_least("recent_episodes", self.recent_episodes, 1)
        checked_least("threads", self.threads, 1)
        if self.threads > _MOST_THREADS:  # of very many torch makes a segmentation fault
            raise InvalidOption(
                f"settings: threads must be at most {_MOST_THREADS}; got {self.threads}."
            )
        checked_least("learners", self.learners, 1)
        if self.mode not in MODES:
            raise InvalidOption(
                f"settings: mode must be one of {', '.join(MODES)}; got {self.mode!r}."
            )
        # One of them is enough for a run with an agent, so that what it lacks is told by name.
        if any(part is not None for part in (self.agent, self.algorithm, self.teacher)):
            self._check_agent()
            return
        if self.mode != "sync":
            raise InvalidOption(
                f"settings: mode must be 'sync' in a run with a planner; got {self.mode!r}."
            )
        if self.learners != 1:
            raise InvalidOption(
                f"settings: learners must be 1 in a run with a planner; got {self.learners}. "
                f"collector.n_workers shares its games out among processes."
            )
        if self.evaluation.sample:
            raise InvalidOption(
                "settings: evaluation.sample is of runs with an agent; a planner's options say how "
                "it chooses. Leave it out."
            )
        # As the evaluation's planner reads them, so that a mistake is found at the start.
        changed = self.planner.changed(self.evaluation.planner, "evaluation.planner")
        # As they were read, and alone: what training has is not repeated.
        given = {key: changed.options[key] for key in self.evaluation.planner}
        # The class is frozen for its users. None of them has seen this object yet.
        object.__setattr__(self, "evaluation", dataclasses.replace(self.evaluation, planner=given))

    def _check_agent(self) -> None:
        """Refuse what a run with an agent lacks, and what means nothing to it."""
        for name in ("agent", "algorithm"):
            if getattr(self, name) is None:
                raise InvalidOption(
                    f"settings: a run has an agent and an algorithm, or neither; it has no {name}. "
                    f"Give {name}.name."
                )
        # In mode "async" they are the processes that play.
        n_workers = 0 if self.mode == "async" else self.collector.n_workers
        meant_for_planners: dict[str, tuple[Any, Any, str]] = {
            "collector.n_workers": (n_workers, 0, "env.n_workers"),
            "evaluation.player": (self.evaluation.player, "network", "agent.name"),
            "evaluation.planner": (dict(self.evaluation.planner), {}, "agent.name"),
        }
        for key, (value, default, instead) in meant_for_planners.items():
            if value != default:
                raise InvalidOption(
                    f"settings: {key} is of runs with a planner; in one with an agent it must be "
                    f"{default!r}; got {value!r}. See {instead}."
                )
        assert self.agent is not None
        if self.evaluation.sample and not self.agent.kind.draws:
            raise InvalidOption(
                f"settings: evaluation.sample is for agents that draw from a policy; "
                f"{self.agent.name!r} chooses its actions. Leave it out."
            )
        self._check_teacher()
        if self.mode == "async":
            self._check_async()

    def _check_teacher(self) -> None:
        """Refuse an algorithm without the teacher that it needs, and one that needs none with."""
        assert self.algorithm is not None
        needed = isinstance(self.algorithm.config, ExpertConfig)
        if needed and self.teacher is None:
            raise InvalidOption(
                f"settings: algorithm {self.algorithm.name!r} learns from a planner; teacher.name "
                f"must name one, such as mcts or icem."
            )
        if self.teacher is not None and not needed:
            raise InvalidOption(
                f"settings: teacher is of algorithm 'expert'; {self.algorithm.name!r} learns from "
                f"none. Leave it out."
            )

    def _check_async(self) -> None:
        """Refuse to play and learn at once, where what older weights played is not learned from."""
        assert self.algorithm is not None
        config = self.algorithm.config
        if not isinstance(config, OffPolicyConfig):
            raise InvalidOption(
                f"settings: mode 'async' is for algorithms with a replay, such as dqn, sac or td3; "
                f"{self.algorithm.name} learns from what its own weights have played. Leave mode "
                f"at 'sync'."
            )
        # None passes: the processes that play make envs without workers in any case.
        if self.env.n_workers:
            raise InvalidOption(
                f"settings: env.n_workers must be 0 or None in mode 'async'; got "
                f"{self.env.n_workers}. collector.n_workers is the number of processes that play."
            )
        if getattr(config, "exploration_least", None) is not None:
            raise InvalidOption(
                "settings: algorithm.exploration_least must be None in mode 'async': all envs "
                "explore alike there."
            )

    @property
    def left_out(self) -> frozenset[str]:
        """The sections that are of the other kind of run."""
        # Left out of `config.json` too, which `check_one_kind` would refuse on resuming if it named
        # both kinds.
        if self.agent is None:
            return OF_AGENTS
        return OF_PLANNERS if self.teacher is not None else OF_PLANNERS | {"teacher"}

    @property
    def steps_per_round(self) -> int:
        """Moves of all games in a round."""
        return self.learners * self.collector.num_envs * self.collector.moves


def check_one_kind(values: Mapping[str, Any]) -> None:
    """Refuse nested settings that name both who plans and who acts without planning.

    Raises:
        InvalidOption: they do.
    """
    # None is the default of some of them, and says nothing.
    given = {key for key, value in values.items() if value is not None}
    plans, acts = sorted(given & OF_PLANNERS), sorted(given & OF_AGENTS)
    if plans and acts:
        raise InvalidOption(
            f"settings: a run has a planner and a trainer, or an agent and an algorithm; got "
            f"{', '.join(plans)} and {', '.join(acts)}. Leave out the ones or the others, or begin "
            f"with another preset."
        )
