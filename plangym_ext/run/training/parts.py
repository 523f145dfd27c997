"""Parts: factory of a run's env, network, agent and algorithm; PlainEnv for inexact states."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import plangym_ext
from plangym_ext.arrays.closing import Closing
from plangym_ext.core.drawing import Film
from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.core.numbers import check_flags
from plangym_ext.errors import IncompleteState, InvalidOption, UnknownName, WrongKind
from plangym_ext.learn.group import learner_seed
from plangym_ext.learn.sampling.collected import Algorithm
from plangym_ext.planners.players import check_one_player, num_players
from plangym_ext.registry import constructor_of
from plangym_ext.run.settings.config import (
    EnvSettings,
    EvaluationSettings,
    RunConfig,
    StartsSettings,
)
from plangym_ext.run.settings.sections import is_own, make_planner
from plangym_ext.run.settings.settings import check_no_trust

#: keyword arguments of `EnvSettings.kwargs` -> a gymnasium env
MakeEnv = Callable[..., Any]
#: (observation space, action space) -> a torch module
MakeNetwork = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Parts:
    """Factory of a run's parts, from its settings.

    Args:
        config: the settings.
        make_env: makes the env, if it is your own: called with the arguments in
            `config.env.kwargs`. It returns a gymnasium env.
        make_network: makes the network, if it is your own: called with the observation and
            the action space. Of algorithms that learn from plans it may be any module that returns
            a `NetworkOutput` for `[B, *obs]`.
        learner: number of the learner that the parts are of.
        trust: open pickles in states that another session made; see `make`.
        folder: that the files lie in which the settings name: the current one, which envs may
            change (`os.chdir`).
        capture: how states are captured, if the settings do not say: "auto", or the way that this
            run has taken; see `of_run`.
    """

    config: RunConfig
    make_env: MakeEnv | None = None
    make_network: MakeNetwork | None = None
    learner: int = 0
    trust: bool = False
    folder: str = dataclasses.field(default_factory=os.getcwd)
    capture: str = "auto"

    def __post_init__(self) -> None:
        check_flags("Runner", trust=self.trust)

    @property
    def starts(self) -> StartsSettings:
        """Settings of the start states, with the absolute path of the file."""
        named = self.config.starts
        file = os.path.join(self.folder, named.file) if named.file else ""
        return dataclasses.replace(named, file=file)

    @property
    def own(self) -> dict[str, str]:
        """The user's `make_env` and `make_network` functions that are in use, by name."""
        made_by = {"make_env": self.make_env, "make_network": self.make_network}
        return {
            argument: f"{getattr(one, '__module__', '')}.{getattr(one, '__qualname__', repr(one))}"
            for argument, one in made_by.items()
            if one is not None
        }

    def of_run(self, env: Any) -> Parts:
        """Return the parts for all further envs of a run, in any process.

        Where several ways are exact, the cheapest by measure is taken, which may be another one
        in each process; states of one way fit no env that takes another.
        """
        found = None if isinstance(env, PlainEnv) else env.exactness
        if found is None or found.proved not in ("fork", "worker"):
            return self
        return dataclasses.replace(self, capture=found.method)

    def env(self, changed: Mapping[str, Any] | None = None) -> Any:
        """Make the env, with some arguments changed.

        Returns:
            A `PlanEnv`; a `PlainEnv` if its states are not exact and no planner needs them.

        Raises:
            IncompleteState: its states are not exact; nothing can be planned with them.
            WrongKind: it has several players, of whom the algorithm knows nothing, or `make_env`
                returned no gymnasium env.
        """
        env = self._made_env({**self.config.env.kwargs, **(changed or {})})
        # A planner's whole games teach what positions are worth to the player who moves there; in
        # a league the learner plays one side.
        if num_players(env) == 2 and (self.config.learns_episodes or self.config.league.every):
            return env
        try:
            check_one_player(env, "training")
        except WrongKind:
            env.close()
            raise
        return env

    def _made_env(self, kwargs: Mapping[str, Any]) -> Any:
        check_no_trust(kwargs, "env.kwargs")
        settings = self.config.env
        try:
            if self.make_env is None:
                env = self._registered(kwargs)
            else:
                env = plangym_ext.make(
                    self._factory(kwargs),
                    n_workers=settings.n_workers,
                    timeout=self.config.collector.timeout,
                    capture=self.capture,
                )
        except IncompleteState:
            if self.config.planner is not None:
                raise
            return self._plain_env(kwargs)
        if env.exact is not False:
            return env
        name = env.name
        env.close()
        if self.config.planner is not None:
            raise IncompleteState(
                f"{name}: a run with a planner needs exact states; this env's are "
                f"approximate. `plangym-ext doctor {settings.id}` says what can be captured."
            )
        return self._plain_env(kwargs)

    def _registered(self, kwargs: Mapping[str, Any]) -> Any:
        settings = self.config.env
        return plangym_ext.make(
            settings.id,
            frameskip=settings.frameskip,
            n_workers=settings.n_workers,
            trust=self.trust,
            # An env's own argument of that name goes before, as in `vector_env`.
            **{"timeout": self.config.collector.timeout, "capture": self.capture, **kwargs},
        )

    def _plain_env(self, kwargs: Mapping[str, Any]) -> PlainEnv:
        if self.make_env is not None:
            build = self._factory(kwargs)
            return PlainEnv(build, getattr(self.make_env, "__name__", "make_env"))
        # How states are captured is an argument of `make`, not of the env.
        own = {key: value for key, value in kwargs.items() if key != "capture"}
        settings = self.config.env
        build, _, left = constructor_of(
            plangym_ext.make, settings.id, "off", settings.frameskip, own
        )
        if left != 1:
            raise _no_frameskip(settings)
        return PlainEnv(build, settings.id)

    def vector_env(self, count: int | None = None, *, exact: bool = True) -> Any:
        """Make the vector env for training.

        Args:
            count: how many; None: all.
            exact: whether their states are; if not, none are captured.
        """
        settings = self.config.env
        own = self.make_env is not None
        timeout = self.config.collector.timeout
        arguments: dict[str, Any] = {"timeout": timeout, "capture": self.capture}
        if not own:
            arguments |= settings.kwargs
        if settings.frameskip is not None:
            arguments["frameskip"] = settings.frameskip
        if not exact:
            arguments["capture"] = "off"
        make: Any = self._factory(settings.kwargs) if own else settings.id
        try:
            return plangym_ext.make_vec(
                make,
                self.config.collector.num_envs if count is None else count,
                n_workers=settings.n_workers,
                autoreset_mode="same_step",
                trust=self.trust,
                **arguments,
            )
        except (TypeError, UnknownName) as error:
            if settings.frameskip is None:
                raise
            raise _no_frameskip(settings) from error

    def _factory(self, kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """Return the constructor of the user's env."""
        assert self.make_env is not None
        return functools.partial(self.make_env, **kwargs)

    def network(self, env: Any) -> Any:
        """Make a network with the run's initial weights."""
        from plangym_ext.learn.repeatable import seeded

        spaces = (env.observation_space, env.action_space)
        if self.make_network is None:
            assert self.config.agent is not None
            return self.config.agent.make_network(*spaces, self.config.seed)
        with seeded(self.config.seed):
            return self.make_network(*spaces)

    def agent(self, network: Any) -> Any:
        """Make the agent that plays a network."""
        assert self.config.agent is not None
        return self.config.agent.make(network, self.config.device)

    def evaluator(self, network: Any) -> Any:
        """Make the planner's evaluator."""
        from plangym_ext.learn import NetworkEvaluator
        from plangym_ext.learn.networks.quick_forward import of_observations

        return NetworkEvaluator(of_observations(network), device=self.config.device)

    def algorithm(self, network: Any) -> Algorithm:
        """Make the learning algorithm."""
        assert self.config.algorithm is not None
        # Networks begin alike in all learners; what is drawn while they learn differs.
        seed = learner_seed(self.config.seed, self.learner)
        found: Algorithm = self.config.algorithm.make(network, seed)
        if hasattr(found, "search_with"):
            found.search_with(self.planner(network)[0])
        return found

    def planner(self, network: Any) -> Any:
        """Make the planner for training, and its evaluator."""
        assert self.config.planner is not None
        if not getattr(self.config.learner, "guided", True):
            return self.config.planner.make(), None
        evaluator = self.evaluator(network)
        return self._searching(self.config.planner.make, evaluator), evaluator

    def planner_agent(self, network: Any, env: Any) -> Any:
        """Make the agent that plays the planner; copies in other processes rebuild it."""
        from plangym_ext.learn import PlannerAgent

        planner, evaluator = self.planner(network)
        make = functools.partial(_planner_agent_of, self.alone())
        return PlannerAgent(planner, env, network=network, evaluator=evaluator, make=make)

    def opponents(self, network: Any, env: Any) -> Any:
        """Make what plays the other side of games by old versions of `network`; None: nothing."""
        from plangym_ext.learn.agents.agent_planner import AgentPlanner
        from plangym_ext.learn.sampling.league import League, Opponents

        config = self.config
        if not config.league.every:
            return None
        copy = self.network(env)
        assert config.agent is not None
        if config.learns_episodes:
            planner, _ = self.planner(copy)
        else:
            draws = config.agent.kind.draws
            planner = AgentPlanner(agent=self.agent(copy), mode="sample" if draws else "eval")
        return Opponents(League(network, config.league), copy, planner, env)

    def player(self, agent: Any, evaluation: EvaluationSettings | None = None) -> Any:
        """Make the planner for an evaluation, None: the first: of the agent, or with search."""
        from plangym_ext.learn.agents.agent_planner import AgentPlanner
        from plangym_ext.planners.base import Planner

        settings = evaluation or self.config.evaluation
        if settings.sample:
            return AgentPlanner(agent=agent, mode="sample")
        if settings.player == "network":
            return agent.as_planner()
        evaluator = getattr(agent, "evaluator", None) or self.evaluator(agent.network)
        if is_own(settings.player):
            cls = load_own_class(settings.player, "settings: evaluation.player", Planner)
            return make_planner(cls, evaluator, policy=self._policy(evaluator))
        assert self.config.planner is not None
        changed = self.config.planner.evaluated(settings.planner, "evaluation.planner")
        return self._searching(changed.make, evaluator)

    def _searching(self, make: Callable[[Any, Any], Any], evaluator: Any) -> Any:
        """Return a planner of the network: it searches in the model, if the network is one."""
        from plangym_ext.learn import EnsembleNetwork, LatentNetwork, model_planner

        def made(asked: Any) -> Any:
            return make(asked, None if asked is None else self._policy(asked))

        if isinstance(evaluator.network, EnsembleNetwork | LatentNetwork):
            return model_planner(evaluator.network, made, device=self.config.device)
        return made(evaluator)

    def _policy(self, evaluator: Any) -> Any:
        """Return the policy that is taught, as planners play one; None for none."""
        learner = self.config.learner
        taught = getattr(learner, "policy_target", None) if self.config.learns_episodes else True
        return evaluator.policy if taught is not None and evaluator.has_prior else None

    def alone(self) -> Parts:
        """Return the parts for a worker: an env without workers of its own."""
        # The games are shared out already: workers of workers would share the same processors
        # again.
        env = dataclasses.replace(self.config.env, n_workers=0)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, env=env))


def _no_frameskip(settings: EnvSettings) -> InvalidOption:
    return InvalidOption(
        f"settings: env.frameskip of an agent needs an env with a native backend in this process, "
        f"or with an argument of that name, which {settings.id} is not; got "
        f"{settings.frameskip}. Repeat actions in a wrapper of the env."
    )


def _planner_agent_of(parts: Parts) -> Any:
    """Return the agent that plays a planner in a worker, with an env of its own."""
    env = parts.env()
    return parts.planner_agent(parts.network(env), env)


#: A byte, as states have at least one.
_NO_STATE = np.zeros(1, np.uint8)


class PlainEnv(Closing):
    """Plays one episode at a time, for players that only read observations.

    It stands where `play` expects an env with states; the states that it returns mean nothing.

    Attributes:
        exact: False: nothing can be restored.
    """

    exact = False
    #: See `GymEnv.film`.
    film: Film | None = None

    def __init__(self, build: Callable[[], Any], name: str) -> None:
        self.gym_env, self.name = build(), name
        self.observation_space = self.gym_env.observation_space
        self.action_space = self.gym_env.action_space
        self.metadata = self.gym_env.metadata

    def reset(self, *, seed: int | None = None) -> tuple[npt.NDArray[np.uint8], Any, Any]:
        """Begin an episode: a state that means nothing, obs, info."""
        obs, info = self.gym_env.reset(seed=seed)
        return _NO_STATE, obs, info

    def step(self, action: Any, state: Any = None) -> tuple[Any, ...]:  # noqa: ARG002
        """Step the episode; the state argument has no meaning."""
        film = self.film
        if film is None:
            return (_NO_STATE, *self.gym_env.step(action))
        film.on = True
        found = self.gym_env.step(action)
        film.after_step()
        film.on = False
        return (_NO_STATE, *found)

    def step_batch(self, actions: Any, **_: Any) -> Any:
        """Refuse to restore states.

        Raises:
            IncompleteState: always.
        """
        raise IncompleteState(
            f"{self.name}: step_batch needs exact states, which this env lacks; got "
            f"{len(actions)} actions. Play one episode after the other, by an agent."
        )

    def render(self) -> Any:
        """Return the env's picture."""
        return self.gym_env.render()

    def close(self) -> None:
        self.gym_env.close()
