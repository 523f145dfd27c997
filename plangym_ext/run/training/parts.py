"""What a run is made of, made from its settings. Only this knows how."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plangym_ext
from plangym_ext.core.own_modules import load_own_class
from plangym_ext.errors import IncompleteState, InvalidOption, UnknownName, WrongKind
from plangym_ext.learn.algorithm import Algorithm
from plangym_ext.learn.parallel.group import learner_seed
from plangym_ext.learn.sampling.collected import Sampler
from plangym_ext.learn.sampling.starts import Starts
from plangym_ext.planners.players import check_one_player
from plangym_ext.registry import constructor_of
from plangym_ext.run.settings.config import EnvSettings, RunConfig
from plangym_ext.run.settings.sections import is_own, make_planner
from plangym_ext.run.training.actors import Actors
from plangym_ext.run.training.collector import Collector
from plangym_ext.run.training.plain_env import PlainEnv
from plangym_ext.run.training.solver import Solver

#: keyword arguments of `EnvSettings.kwargs` -> a `PlanEnv`; for an agent, a gymnasium env
MakeEnv = Callable[..., Any]
#: (observation space, action space) -> a torch module
MakeNetwork = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Parts:
    """How the parts of a run are made.

    Args:
        config: the settings.
        make_env: makes the env, if it is your own: called with the arguments in
            `config.env.kwargs`. It returns a `PlanEnv`; for an agent, a gymnasium env.
        make_network: makes the network, if it is your own: called with the observation and
            the action space.
        learner: number of the learner that the parts are of.
    """

    config: RunConfig
    make_env: MakeEnv | None = None
    make_network: MakeNetwork | None = None
    learner: int = 0

    def env(self, changed: Mapping[str, Any] | None = None) -> Any:
        """Make the env, with some arguments changed.

        Returns:
            A `PlanEnv`; for an agent, a `PlainEnv` if its states are not exact.

        Raises:
            IncompleteState: its states are not exact; nothing can be planned with them.
            WrongKind: it has several players.
        """
        env = self._made_env(changed)
        try:
            check_one_player(env, "training")
        except WrongKind:
            env.close()
            raise
        return env

    def _made_env(self, changed: Mapping[str, Any] | None) -> Any:
        settings = self.config.env
        kwargs = {**settings.kwargs, **(changed or {})}
        if self.config.agent is not None:
            return self._played_env(kwargs)
        env = self._registered(kwargs) if self.make_env is None else self.make_env(**kwargs)
        if env.exact is False:
            name = env.name
            env.close()
            raise IncompleteState(
                f"{name}: training plans from exact states, and resumes from them; this env's are "
                f"approximate. `plangym-ext doctor {settings.id}` says what can be captured."
            )
        return env

    def _played_env(self, kwargs: Mapping[str, Any]) -> Any:
        """Make the env that an agent is judged in."""
        settings = self.config.env
        try:
            if self.make_env is None:
                env = self._registered(kwargs)
            else:
                env = plangym_ext.make(
                    self._factory(kwargs),
                    n_workers=settings.n_workers,
                    timeout=self.config.collector.timeout,
                )
        except IncompleteState:
            return self._plain_env(kwargs)
        if env.exact is False:
            env.close()
            return self._plain_env(kwargs)
        return env

    def _registered(self, kwargs: Mapping[str, Any]) -> Any:
        settings = self.config.env
        return plangym_ext.make(
            settings.id,
            frameskip=settings.frameskip,
            n_workers=settings.n_workers,
            trust=settings.trust,
            # An env's own argument of that name goes before, as in `vector_env`.
            **{"timeout": self.config.collector.timeout, **kwargs},
        )

    def _plain_env(self, kwargs: Mapping[str, Any]) -> PlainEnv:
        if self.make_env is not None:
            build = self._factory(kwargs)
            return PlainEnv(build, getattr(self.make_env, "__name__", "make_env"))
        # How states are captured is an argument of `make`, not of the env.
        own = {key: value for key, value in kwargs.items() if key != "state"}
        settings = self.config.env
        build, _, left = constructor_of(
            plangym_ext.make, settings.id, "off", settings.frameskip, own
        )
        if left != 1:
            raise _no_frameskip(settings)
        return PlainEnv(build, settings.id)

    def vector_env(self, count: int | None = None, *, exact: bool = True) -> Any:
        """Make the envs that an agent learns in, side by side.

        Args:
            count: how many; None: all.
            exact: whether their states are; if not, none are captured.
        """
        settings = self.config.env
        own = self.make_env is not None
        arguments: dict[str, Any] = {"timeout": self.config.collector.timeout}
        if not own:
            arguments |= settings.kwargs
        if settings.frameskip is not None:
            arguments["frameskip"] = settings.frameskip
        if not exact:
            arguments["state"] = "off"
        make: Any = self._factory(settings.kwargs) if own else settings.id
        try:
            return plangym_ext.make_vec(
                make,
                self.config.collector.num_envs if count is None else count,
                n_workers=settings.n_workers,
                autoreset_mode="same_step",
                trust=settings.trust,
                **arguments,
            )
        except (TypeError, UnknownName) as error:
            if settings.frameskip is None:
                raise
            raise _no_frameskip(settings) from error

    def _factory(self, kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """Return what makes one env of the user's."""
        assert self.make_env is not None
        return functools.partial(self.make_env, **kwargs)

    def network(self, env: Any) -> Any:
        """Make a network with the weights that a run begins with."""
        from plangym_ext.learn import make_network
        from plangym_ext.learn.repeatable import seeded

        config, agent = self.config, self.config.agent
        spaces = (env.observation_space, env.action_space)
        if self.make_network is None and agent is not None:
            return agent.make_network(*spaces, config.seed)
        if self.make_network is None:
            return make_network(*spaces, config.network, seed=config.seed)
        with seeded(self.config.seed):
            return self.make_network(*spaces)

    def asked(self, network: Any) -> Any:
        """Make what asks the network: the agent, or the evaluator that planners ask."""
        if self.config.agent is not None:
            return self.config.agent.make(network, self.config.device)
        return self.evaluator(network)

    def evaluator(self, network: Any) -> Any:
        """Make what planners ask."""
        from plangym_ext.learn import NetworkEvaluator

        return NetworkEvaluator(network, device=self.config.device)

    def trainer(self, network: Any) -> Any:
        """Make the trainer."""
        return self.config.trainer.make(network)

    def algorithm(self, network: Any) -> Algorithm:
        """Make what learns: that of an agent, or a trainer and a replay, empty."""
        from plangym_ext.learn.trainers.base import ReplayAlgorithm

        if self.config.algorithm is not None:
            # Networks begin alike in all learners; what is drawn while they learn differs.
            seed = learner_seed(self.config.seed, self.learner)
            found: Algorithm = self.config.algorithm.make(network, seed)
            return found
        settings = self.config.replay
        return ReplayAlgorithm(
            self.trainer(network),
            self.replay(),
            updates=self.config.updates,
            min_rows=settings.min_rows,
            group_by=settings.grouped_by,
            seed=self.config.seed,
        )

    def replay(self) -> Any:
        """Make the replay, empty."""
        from plangym_ext.learn import BalancedReplay, PrioritizedReplay, ReplayBuffer
        from plangym_ext.learn.replay.base import Replay

        settings, seed = self.config.replay, self.config.seed
        if is_own(settings.kind):
            kind = load_own_class(settings.kind, "settings: replay.kind", Replay)
            return kind(settings.capacity, seed=seed, **settings.options)
        if settings.kind == "prioritized":
            return PrioritizedReplay(
                settings.capacity, seed=seed, alpha=settings.alpha, beta=settings.beta
            )
        kinds = {"uniform": ReplayBuffer, "balanced": BalancedReplay}
        return kinds[settings.kind](settings.capacity, seed=seed)

    def collector(self, env: Any, evaluator: Any, slots: Sequence[int]) -> Collector:
        """Make a collector of some of the games."""
        settings = self.config.collector
        return Collector(
            env,
            self.config.planner.make(evaluator, self._policy(evaluator)),
            slots,
            seed=self.config.seed,
            max_steps=self.config.env.max_steps,
            value=functools.partial(_state_values, evaluator),
            attributes=settings.attributes,
        )

    def solver(self, env: Any, evaluator: Any) -> Solver:
        """Make the sampler of solutions."""
        settings = self.config.collector
        return Solver(
            env,
            self.config.planner.make(evaluator, self._policy(evaluator)),
            settings.num_envs,
            seed=self.config.seed,
            max_steps=self.config.env.max_steps,
        )

    def agent_sampler(
        self,
        agent: Any,
        *,
        exact: bool = True,
        starts: Starts | None = None,
        env: Any = None,
        actors: Actors | None = None,
    ) -> Sampler:
        """Make the sampler that plays an agent; it owns its envs; see `vector_env`.

        Args:
            agent: that plays.
            exact: whether states of the envs are.
            starts: stored states that episodes begin from.
            env: steps branches, where the algorithm learns from forked advantages, and searches,
                where it learns from a planner.
            actors: that play, if not this process.
        """
        from plangym_ext.learn import ForkingSampler, SerialSampler, WorkerSampler

        assert self.config.algorithm is not None
        settings, learner = self.config.collector, self.config.algorithm.config
        options: dict[str, Any] = {
            "seed": self.config.seed,
            "discount": learner.discount,
            "episode_fields": settings.attributes,
            "starts": starts,
            # Rows are numbered over all learners: each plays, and draws, as a part of one large
            # run.
            "first_row": self.learner * settings.num_envs,
        }
        if actors is not None or self.config.mode == "async":
            make = functools.partial(_venv_of_rows, self.alone(), exact)
            return WorkerSampler(
                make,
                agent,
                settings.moves,
                settings.num_envs,
                n_workers=actors.number(settings) if actors else max(1, settings.n_workers),
                timeout=settings.timeout,
                threads=self.config.threads if actors else 1,
                ahead=self.config.mode == "async",
                lead=settings.lead,
                workplace=actors.workplace if actors else None,
                **options,
            )
        how = getattr(learner, "advantages", None)
        venv = self.vector_env(exact=exact)
        try:
            if self.config.teacher is not None:
                return self._expert_sampler(venv, agent, env, options)
            if how is None or not how.forked:
                return SerialSampler(venv, agent, settings.moves, **options)
            return ForkingSampler(venv, agent, settings.moves, env, **how.branching, **options)
        except BaseException:
            venv.close()
            raise

    def _expert_sampler(
        self, venv: Any, agent: Any, env: Any, options: Mapping[str, Any]
    ) -> Sampler:
        """Make the sampler in which a planner teaches the agent."""
        from plangym_ext.learn import ExpertSampler, NetworkEvaluator, Teacher
        from plangym_ext.learn.networks.of_observations import OfObservations

        assert self.config.algorithm is not None
        assert self.config.teacher is not None
        learner, evaluator = self.config.algorithm.config, None
        if learner.guided:
            asked = OfObservations(agent.network)
            evaluator = NetworkEvaluator(asked, device=self.config.device)
        policy = None if evaluator is None or not evaluator.has_prior else evaluator.policy
        planner = self.config.teacher.make(evaluator, policy)
        teacher = Teacher(planner, env, agent.distribution)
        moves = self.config.collector.moves
        return ExpertSampler(venv, agent, moves, teacher, **learner.searching, **options)

    def player(self, asked: Any) -> Any:
        """Make the planner that is evaluated, of what `asked` returned."""
        if self.config.agent is None:
            return self._planner(asked)
        if self.config.evaluation.sample:
            from plangym_ext.learn.agents.agent_planner import AgentPlanner

            return AgentPlanner(agent=asked, mode="sample")
        return asked.as_planner()

    def _planner(self, evaluator: Any) -> Any:
        """Make the planner that is evaluated, where planners play."""
        from plangym_ext.learn import NetworkPolicy
        from plangym_ext.planners.base import Planner

        settings = self.config.evaluation
        if settings.player == "network":
            return NetworkPolicy(evaluator=evaluator)
        if is_own(settings.player):
            cls = load_own_class(settings.player, "settings: evaluation.player", Planner)
            return make_planner(cls, evaluator, policy=self._policy(evaluator))
        changed = self.config.planner.changed(settings.planner, "evaluation.planner")
        return changed.make(evaluator, self._policy(evaluator))

    def _policy(self, evaluator: Any) -> Any:
        """Return the policy that the trainer teaches, as planners play one; None for none."""
        taught = getattr(self.config.trainer.config, "policy_target", None)
        return None if taught is None else evaluator.policy

    def alone(self) -> Parts:
        """Return the parts for a worker: an env without workers of its own."""
        # The games are shared out already: workers of workers would share the same processors
        # again.
        env = dataclasses.replace(self.config.env, n_workers=0)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, env=env))


def _no_frameskip(settings: EnvSettings) -> InvalidOption:
    return InvalidOption(
        f"settings: env.frameskip of an agent is for envs with a native backend, in this process, "
        f"or with an argument of that name; {settings.id} is none; got {settings.frameskip}. "
        f"Repeat actions in a wrapper of the env."
    )


def _venv_of_rows(parts: Parts, exact: bool, rows: range) -> Any:
    return parts.vector_env(len(rows), exact=exact)


def _state_values(evaluator: Any, obs: Any) -> Any:
    """Return `[n]` what the network says that states are worth; None if it does not."""
    out = evaluator.ask(obs)
    if out.value is not None:
        return out.value
    return None if out.q is None else out.q.max(axis=1)
