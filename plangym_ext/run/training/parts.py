"""What a run is made of, made from its settings. Only this knows how."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plangym_ext.core.own_modules import load_own_class
from plangym_ext.errors import IncompleteState
from plangym_ext.learn.algorithm import Algorithm
from plangym_ext.run.settings.config import EnvSettings, RunConfig
from plangym_ext.run.settings.sections import is_own, make_planner
from plangym_ext.run.training.collector import Collector

#: keyword arguments of `EnvSettings.kwargs` -> a `PlanEnv`
MakeEnv = Callable[..., Any]
#: (observation space, action space) -> a torch module
MakeNetwork = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Parts:
    """How the parts of a run are made.

    Args:
        config: the settings.
        make_env: makes the env, if it is your own: called with the arguments in
            `config.env.kwargs`.
        make_network: makes the network, if it is your own: called with the observation and
            the action space.
    """

    config: RunConfig
    make_env: MakeEnv | None = None
    make_network: MakeNetwork | None = None

    def env(self, changed: Mapping[str, Any] | None = None) -> Any:
        """Make the env, with some arguments changed.

        Raises:
            IncompleteState: its states are not exact; nothing can be planned with them.
        """
        settings = self.config.env
        kwargs = {**settings.kwargs, **(changed or {})}
        env = self.make_env(**kwargs) if self.make_env else _registered(settings, kwargs)
        if env.exact is False:
            name = env.name
            env.close()
            raise IncompleteState(
                f"{name}: training plans from exact states, and resumes from them; this env's are "
                f"approximate. `plangym-ext doctor {settings.id}` says what can be captured."
            )
        return env

    def network(self, env: Any) -> Any:
        """Make a network with the weights that a run begins with."""
        from plangym_ext.learn import make_network
        from plangym_ext.learn.repeatable import seeded

        spaces = (env.observation_space, env.action_space)
        if self.make_network is None:
            return make_network(*spaces, self.config.network, seed=self.config.seed)
        with seeded(self.config.seed):
            return self.make_network(*spaces)

    def evaluator(self, network: Any) -> Any:
        """Make what planners ask."""
        from plangym_ext.learn import NetworkEvaluator

        return NetworkEvaluator(network, device=self.config.device)

    def trainer(self, network: Any) -> Any:
        """Make the trainer."""
        return self.config.trainer.make(network)

    def algorithm(self, network: Any) -> Algorithm:
        """Make what learns: a trainer and a replay, empty."""
        from plangym_ext.learn.algorithms.replay_algorithm import ReplayAlgorithm

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
            self.config.planner.make(evaluator),
            slots,
            seed=self.config.seed,
            max_steps=self.config.env.max_steps,
            value=functools.partial(_state_values, evaluator),
            attributes=settings.attributes,
        )

    def player(self, evaluator: Any) -> Any:
        """Make the planner that is evaluated."""
        from plangym_ext.learn import NetworkPolicy
        from plangym_ext.planners.base import Planner

        settings = self.config.evaluation
        if settings.player == "network":
            return NetworkPolicy(evaluator=evaluator)
        if is_own(settings.player):
            cls = load_own_class(settings.player, "settings: evaluation.player", Planner)
            return make_planner(cls, evaluator)
        changed = self.config.planner.changed(settings.planner, "evaluation.planner")
        return changed.make(evaluator)

    def alone(self) -> Parts:
        """Return the parts for a worker: an env without workers of its own."""
        env = dataclasses.replace(self.config.env, n_workers=0)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, env=env))


def _registered(settings: EnvSettings, kwargs: Mapping[str, Any]) -> Any:
    import plangym_ext

    return plangym_ext.make(
        settings.id,
        frameskip=settings.frameskip,
        n_workers=settings.n_workers,
        trust=settings.trust,
        **kwargs,
    )


def _state_values(evaluator: Any, obs: Any) -> Any:
    """Return `[n]` what the network says that states are worth; None if it does not."""
    out = evaluator.ask(obs)
    if out.value is not None:
        return out.value
    return None if out.q is None else out.q.max(axis=1)
