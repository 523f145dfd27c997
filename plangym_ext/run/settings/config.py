"""RunConfig: the complete, checked settings of a training run."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from plangym_ext.core.options import CheckedOptions, Count, Finite, OneOf, Range, Share, Whole
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.config import OffPolicyConfig
from plangym_ext.learn.algorithms.plan_config import ExpertConfig, MuZeroConfig, PlanLearningConfig
from plangym_ext.learn.sampling.league import LeagueConfig
from plangym_ext.run.settings.sections import AgentSettings, AlgorithmSettings, PlannerSettings

COLLECTORS = ("games", "solutions")
#: Whether an agent plays and an algorithm learns in turn, or at once.
MODES = ("sync", "async")
PLAYERS = ("network", "planner")
STARTS = ("stored", "backward", "unsure")
_Seconds = Annotated[
    float | None, Range(0.0, above=True, advice="It counts seconds; None: there is no limit.")
]


@dataclass(frozen=True, kw_only=True)
class EnvSettings(CheckedOptions):
    """The environment of a run.

    Args:
        id: a gymnasium id; "module:Id-v0" imports the module first.
        kwargs: for the env's constructor.
        frameskip: env steps per move; None: the env's own. It is for envs that have a native
            backend, or an argument of this name.
        n_workers: worker processes that step the env; 0: none; None: the fastest backend.
        max_steps: maximum moves of an evaluation's episodes. It also limits training episodes in
            runs that learn from whole episodes, such as "alphazero"; other training uses the
            env's own limit.
    """

    id: str = "CartPole-v1"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    frameskip: Count | None = None
    n_workers: Whole | None = None
    max_steps: Count = 1000

    _called = "settings: env."


@dataclass(frozen=True, kw_only=True)
class StartsSettings(CheckedOptions):
    """Start-state distribution of the training episodes.

    Args:
        file: of a `StateSet`, as `plangym-ext states` writes it; empty: there is none, and
            episodes begin by a reset.
        kind: "stored" draws them all alike; "backward" goes from the end of a demonstration to
            its beginning; "unsure" draws those where the agent's values were wrong.
        share: in [0, 1], how likely an episode begins there instead of by a reset.
        options: further arguments of that kind, such as `window` of "backward".
    """

    file: str = ""
    kind: Annotated[str, OneOf(STARTS)] = "stored"
    share: Share = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)

    _called = "settings: starts."


@dataclass(frozen=True, kw_only=True)
class CollectorSettings(CheckedOptions):
    """Settings of collection: kind, number of envs, moves per round, workers.

    Args:
        kind: "games" are played move by move; with "solutions" the planner plans once in
            every game, and the run learns from solutions that end in a termination.
            This is for planners that find complete solutions, such as `phs`.
        num_envs: number of games side by side; with "solutions", games per round.
        moves: of every game, per round; without effect for "solutions".
        n_workers: processes that share the games, each with its own network, planner and envs; 0:
            this process plays all games in one batch, and `env.n_workers` step the envs.
        timeout: seconds that a worker of `n_workers` may take over one move of its games before it
            counts as hung, and is stopped; one of `env.n_workers`, over one step of one env;
            None: no limit.
        lead: in `mode` "async", the largest share of played steps that may not yet be learned
            from: workers play ahead once a round is at most this share of the steps since
            learning began. 1: always; 0: never.
        attributes: fields of the last step's info to keep with an episode, such as "solved".
        sums: fields of the info that are added up over the steps of an episode.
    """

    kind: Annotated[str, OneOf(COLLECTORS)] = "games"
    num_envs: Count = 32
    moves: Count = 16
    n_workers: Whole = 0
    timeout: _Seconds = 300.0
    lead: Share = 0.01
    attributes: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()

    _called = "settings: collector."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_workers > self.num_envs:
            raise InvalidOption(
                f"settings: collector.n_workers must be at most num_envs, {self.num_envs}: a "
                f"worker plays at least one game; got {self.n_workers}."
            )


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(CheckedOptions):
    """Settings of the evaluation, apart from training.

    Args:
        every: rounds between evaluations, the last round included; 0: never.
        episodes: number of episodes, played side by side.
        player: "network" plays the agent, without search, "planner" searches; or "module:Class"
            of a `Planner` of your own, which gets the `evaluator` if it has a field of that name.
        sample: whether an agent with a policy samples its actions, as in training. On Atari a PPO
            agent often scores more with sampled actions than with the most likely ones.
        planner: options of the planner that differ from training, beside its noise, which is 0.
        env: arguments of the env that differ from training, such as held-out levels.
        seed: of the first episode; the others follow.
        record: number of evaluations per film of an episode, in RUN/episodes; 0: no films.
        tiles: first episodes that a film shows, side by side.
        stop_at: mean return at which the run ends early; None: never.
        name: of its columns in the log, such as `eval/return`.
    """

    every: Whole = 0
    episodes: Count = 20
    player: Annotated[str, OneOf(PLAYERS, own=True)] = "network"
    sample: bool = False
    planner: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    seed: Whole = 1_000_000
    record: Whole = 0
    tiles: Count = 1
    stop_at: Finite | None = None
    name: str = "eval"

    _called = "settings: evaluation."


@dataclass(frozen=True, kw_only=True)
class RunConfig(CheckedOptions):
    """All settings of a training run.

    Args:
        env: the environment.
        agent: the agent with its network; None: "network", for algorithms that learn only from
            plans.
        algorithm: the loss, the optimiser and the replay; None: "alphazero", if the agent is
            "network" or not given.
        planner: the planner, for algorithms that learn from plans. It searches in every visited
            state, with the agent's network if it uses one. It plays, or, with "expert", takes
            turns with the agent. None: "mcts" for those algorithms, none for others.
        starts: stored states from which episodes begin.
        league: old versions that play the other side of games of two players.
        collector: the collection of episodes.
        evaluation: the evaluation of the network. Of a list of several, each with a `name` of
            its own, it is the first.
        evaluations: the others, which end no run and are not filmed.
        seed: of everything; equal seeds give equal runs, bit for bit.
        rounds: number of rounds of collection and learning; None: no end, until Ctrl-C or
            `max_seconds`.
        max_seconds: seconds after which no round begins; the run goes on when it is resumed.
            None: no limit.
        checkpoint_every: rounds between checkpoints, of which the newest two are kept; 0: only
            one at the end.
        weights_every: rounds between files of the playing weights, in RUN/weights, which are all
            kept; `eval`, `audit` and `plan --network` accept them; 0: none.
        recent_episodes: number of last episodes in the log's `recent/...`.
        wandb: project on Weights & Biases that also gets the log (extra `wandb`); empty: none.
        loggers: "text", which also writes the log to `progress.txt`, and classes of your own
            that get it, each a "module:Class" that derives from `LogService`.
        callbacks: classes of your own that are called at the joints of the run, each a
            "module:Class" that derives from `Callback` and is made without arguments.
        device: torch device of the network.
        threads: of torch; results can differ in the last bits with their number.
        learners: number of data-parallel processes, each with its own `num_envs` envs and batches
            of `batch_size`; equal to one process with that many times both.
        mode: "sync": a round is played, then learned from; "async": `collector.n_workers`
            processes, at least one, play the next round during the updates of this one; for
            algorithms with a replay.
    """

    env: EnvSettings = field(default_factory=EnvSettings)
    agent: AgentSettings | None = None
    algorithm: AlgorithmSettings | None = None
    planner: PlannerSettings | None = None
    starts: StartsSettings = field(default_factory=StartsSettings)
    league: LeagueConfig = field(default_factory=LeagueConfig)
    collector: CollectorSettings = field(default_factory=CollectorSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    evaluations: tuple[EvaluationSettings, ...] = ()
    # Torch takes no larger seed.
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    rounds: Count | None = 100
    max_seconds: _Seconds = None
    checkpoint_every: Whole = 10
    weights_every: Whole = 0
    recent_episodes: Count = 100
    wandb: str = ""
    loggers: tuple[str, ...] = ()
    callbacks: tuple[str, ...] = ()
    device: str = "cpu"
    # One, as sums over threads round by their number: a run is to end alike on all machines.
    # Of very many torch makes a segmentation fault.
    threads: Annotated[int, Range(1, 1024)] = 1
    learners: Count = 1
    mode: Annotated[str, OneOf(MODES)] = "sync"

    _called = "settings: "

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose_parts()
        self._check_planner()
        if self.played_here and self.collector.n_workers:
            raise InvalidOption(
                f"settings: collector.n_workers must be 0 with {self.played_here}, which plays in "
                f"the run's own process; got {self.collector.n_workers}. Set env.n_workers, the "
                f"processes that step the env."
            )
        first, *others = (self._checked_evaluation(one) for one in self.all_evaluations)
        object.__setattr__(self, "evaluation", first)
        object.__setattr__(self, "evaluations", tuple(others))
        if self.mode == "async":
            self._check_async()
        if self.league.every:
            self._check_league()

    def _choose_parts(self) -> None:
        """Choose what is not given of agent, algorithm and planner."""
        # The class is frozen for its users. None of them has seen this object yet.
        if self.algorithm is None and (self.agent is None or self.agent.name == "network"):
            object.__setattr__(self, "algorithm", AlgorithmSettings())
        if self.agent is None and self.learns_episodes:
            object.__setattr__(self, "agent", AgentSettings())
        for name in ("agent", "algorithm"):
            if getattr(self, name) is None:
                raise InvalidOption(
                    f"settings: a run needs an agent and an algorithm; it has no {name}. Set "
                    f"{name}.name."
                )
        if self.planner is None and self.learns_episodes:
            object.__setattr__(self, "planner", PlannerSettings())

    @property
    def learner(self) -> Any:
        """Settings for the algorithm's class."""
        return None if self.algorithm is None else self.algorithm.config

    @property
    def learns_episodes(self) -> bool:
        """Whether the run learns from a planner's whole episodes."""
        return isinstance(self.learner, PlanLearningConfig)

    @property
    def played_here(self) -> str:
        """The setting for which the run's own process plays all games; "" if others may."""
        if self.collector.kind == "solutions":
            return "collector.kind 'solutions'"
        if self.planner is not None and not self.learns_episodes:
            return "algorithm 'expert'"
        how = getattr(self.learner, "advantages", None)
        if how is not None and how.forked:
            return "algorithm.advantages 'forked'"
        return "league.every" if self.league.every else ""

    def _check_planner(self) -> None:
        """Refuse an algorithm without the planner that it needs, and one that needs none with."""
        assert self.algorithm is not None
        needed = self.learns_episodes or isinstance(self.learner, ExpertConfig)
        if needed and self.planner is None:
            raise InvalidOption(
                f"settings: algorithm {self.algorithm.name!r} learns from a planner; planner.name "
                f"must name one, such as mcts or icem."
            )
        if self.planner is not None and not needed:
            raise InvalidOption(
                f"settings: planner is for algorithms that learn from plans, such as alphazero and "
                f"expert; {self.algorithm.name!r} does not. Leave it out, or name another "
                f"algorithm."
            )
        if self.collector.kind == "solutions" and not self.learns_episodes:
            raise InvalidOption(
                f"settings: collector.kind 'solutions' is for algorithms that learn from whole "
                f"episodes, such as supervised; {self.algorithm.name!r} does not."
            )

    @property
    def all_evaluations(self) -> tuple[EvaluationSettings, ...]:
        """The first evaluation and the others."""
        return self.evaluation, *self.evaluations

    @property
    def last_round(self) -> float:
        """Number of the last round; infinite where there is none."""
        return math.inf if self.rounds is None else self.rounds

    def _checked_evaluation(self, one: EvaluationSettings) -> EvaluationSettings:
        """Refuse a player that there is not; return the settings with its planner's options."""
        assert self.agent is not None
        if [other.name for other in self.all_evaluations].count(one.name) > 1:
            raise InvalidOption(
                f"settings: evaluations must have different names, for their columns in the log; "
                f"several are called {one.name!r}. Give each a name."
            )
        if one is not self.evaluation and (one.record or one.stop_at is not None):
            raise InvalidOption(
                f"settings: only the first evaluation takes record and stop_at; got them in "
                f"{one.name!r}. Leave them out, or put it first."
            )
        if one.sample and not self.agent.kind.draws:
            raise InvalidOption(
                f"settings: evaluation.sample is for agents that draw from a policy; "
                f"{self.agent.name!r} chooses its actions. Leave it out."
            )
        if self.planner is None:
            for key, default in (("player", "network"), ("planner", {})):
                if getattr(one, key) != default:
                    raise InvalidOption(
                        f"settings: evaluation.{key} must be {default!r} in a run without a "
                        f"planner; got {getattr(one, key)!r}."
                    )
            return one
        # As the evaluation's planner reads them, so that a mistake is found at the start.
        changed = self.planner.evaluated(one.planner, "evaluation.planner")
        given = {key: changed.options[key] for key in one.planner}
        return dataclasses.replace(one, planner=given)

    def _check_async(self) -> None:
        """Refuse to play and learn at once, where what older weights played is not learned from."""
        assert self.algorithm is not None
        config = self.algorithm.config
        if not isinstance(config, OffPolicyConfig | PlanLearningConfig):
            raise InvalidOption(
                f"settings: mode 'async' is for algorithms with a replay, such as dqn, sac or "
                f"alphazero; {self.algorithm.name} learns from what its own weights have played. "
                f"Leave mode at 'sync'."
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

    def _check_league(self) -> None:
        """Refuse what plays no games against opponents."""
        names = "mode", "learners", "starts.file", "collector.attributes", "collector.sums"
        of, plain, here = operator.attrgetter, RunConfig(), self.played_here
        wrong = [name for name in names if of(name)(self) != of(name)(plain)]
        wrong += ["algorithm 'muzero'"] * isinstance(self.learner, MuZeroConfig)
        if wrong or here != "league.every":
            raise InvalidOption(
                f"settings: league.every must be 0 with {', '.join(wrong) or here}, as games "
                f"against opponents are played in turn; got {self.league.every}. Leave one out."
            )

    def check_discounts(self) -> None:
        """Refuse a planner and a learner with different discounts, before the run begins.

        Runs that were learned so before can be read all the same.
        """
        if self.planner is None or not getattr(self.learner, "discounts", True):
            return
        mine, theirs = getattr(self.learner, "discount", None), self.planner.discount
        # The planner would add the learner's values to rewards of another discount.
        if None not in (mine, theirs) and mine != theirs:
            raise InvalidOption(
                f"settings: planner.discount and algorithm.discount must be equal, as the planner "
                f"adds learned values to rewards; got {theirs} and {mine}. Set both."
            )

    @property
    def left_out(self) -> frozenset[str]:
        """Sections that the run does not use and does not save."""
        used = {"planner": self.planner is not None, "league": self.league.every > 0}
        return frozenset(name for name, is_used in used.items() if not is_used)

    @property
    def steps_per_round(self) -> int | None:
        """Steps of all envs per round; None: it depends on the solutions found."""
        if self.collector.kind == "solutions":
            return None
        return self.learners * self.collector.num_envs * self.collector.moves
