"""Settings sections chosen by name: agent, algorithm, planner."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self, final

from plangym_ext.core.inherited_options import load_own_class
from plangym_ext.errors import InvalidOption, UnknownName, suggestion
from plangym_ext.learn.algorithms import plan_config
from plangym_ext.learn.algorithms.off_policy import config
from plangym_ext.learn.algorithms.rollouts import config as rollout_config
from plangym_ext.learn.networks.config import (
    AgentConfig,
    AgentsConfig,
    AgentsQConfig,
    ContextConfig,
    DeterministicPolicyConfig,
    EnsembleConfig,
    LatentConfig,
    NetworkConfig,
    QAgentConfig,
    SoftPolicyConfig,
)
from plangym_ext.learn.schedule import Number, OwnSchedule, Schedule, schedules_of
from plangym_ext.learn.several.config import TeamsConfig, TeamsLearningConfig
from plangym_ext.run.settings import teams
from plangym_ext.run.settings.settings import (
    Setting,
    build,
    check_names,
    dotted,
    listed,
    plain,
    read,
)


class AgentKind(NamedTuple):
    """The classes of an agent, its network and its configuration.

    Attributes:
        agent: its class in `plangym_ext.learn`, made with the network and `device`.
        config: the settings of its network.
        network: the function there that makes the network of two spaces, config and `seed`.
        draws: whether its actions are drawn from a policy, and not chosen, with noise added.
    """

    agent: str
    config: type[Any]
    network: str = "make_agent_network"
    draws: bool = True


#: Name -> agent and network.
AGENTS: Mapping[str, AgentKind] = {
    "actor_critic": AgentKind("ActorCriticAgent", AgentConfig),
    "agents": AgentKind("AgentsAgent", AgentsConfig, "make_agents_network"),
    "q": AgentKind("QAgent", QAgentConfig, draws=False),
    "agents_q": AgentKind("AgentsQAgent", AgentsQConfig, "make_agents_network", draws=False),
    "soft_policy": AgentKind("PolicyAgent", SoftPolicyConfig),
    "deterministic_policy": AgentKind("PolicyAgent", DeterministicPolicyConfig, draws=False),
    "teams": AgentKind("TeamsAgent", TeamsConfig, "TeamsNetwork"),
    "context": AgentKind("ContextAgent", ContextConfig, "make_context_network"),
    "network": AgentKind("EvaluatorAgent", NetworkConfig, "make_network", draws=False),
    "latent": AgentKind("EvaluatorAgent", LatentConfig, "make_latent_network", draws=False),
    "ensemble": AgentKind("EvaluatorAgent", EnsembleConfig, "make_ensemble_network", draws=False),
}
_OWN_AGENT = AgentKind("module:Class", AgentConfig)
#: Name -> the algorithm's class in `plangym_ext.learn`, and its settings.
ALGORITHMS: Mapping[str, tuple[str, type[Any]]] = {
    "ppo": ("PPO", rollout_config.PPOConfig),
    "a2c": ("A2C", rollout_config.A2CConfig),
    "reinforce": ("REINFORCE", rollout_config.ReinforceConfig),
    "vtrace": ("VTrace", rollout_config.VTraceConfig),
    "teams": ("TeamsLearning", TeamsLearningConfig),
    "pqn": ("PQN", rollout_config.PQNConfig),
    "dqn": ("DQN", config.DQNConfig),
    "c51": ("C51", config.C51Config),
    "qr_dqn": ("QRDQN", config.QRDQNConfig),
    "rainbow": ("Rainbow", config.RainbowConfig),
    "r2d1": ("R2D1", config.R2D1Config),
    "vdn": ("VDN", config.VDNConfig),
    "qmix": ("QMIX", config.QMIXConfig),
    "sac": ("SAC", config.SACConfig),
    "td3": ("TD3", config.TD3Config),
    "ddpg": ("DDPG", config.DDPGConfig),
    "tqc": ("TQC", config.TQCConfig),
    "pearl": ("PEARL", config.PEARLConfig),
    "mbpo": ("MBPO", config.MBPOConfig),
    "crossq": ("CrossQ", config.CrossQConfig),
    "expert": ("ExpertIteration", plan_config.ExpertConfig),
    "alphazero": ("SupervisedLearning", plan_config.AlphaZeroConfig),
    "value": ("SupervisedLearning", plan_config.ValueConfig),
    "q": ("SupervisedLearning", plan_config.QConfig),
    "histogram": ("SupervisedLearning", plan_config.HistogramConfig),
    "supervised": ("SupervisedLearning", plan_config.SupervisedConfig),
    "td": ("TDLearning", plan_config.TDConfig),
    "muzero": ("MuZero", plan_config.MuZeroConfig),
    "ensemble": ("EnsembleLearning", plan_config.EnsembleLearningConfig),
}


@dataclass(frozen=True)
class NamedSettings:
    """Abstract; the name of a class and its settings, side by side: `{name = "value", l2 = 0.0}`.

    Args:
        name: one that is known, or "module:Class" of your own.
        config: of that class.
    """

    name: str
    config: Any

    #: Name -> the class in `plangym_ext.learn`, its settings, and more.
    known: ClassVar[Mapping[str, tuple[Any, ...]]]
    #: What a section without a name is.
    unnamed: ClassVar[str]
    section: ClassVar[str]

    @classmethod
    def from_settings(cls, values: Mapping[str, Any], where: str) -> Self:
        """Make it from one flat mapping; see `settings.build`."""
        name = str(values.get("name", cls.unnamed))
        rest = {key: value for key, value in values.items() if key != "name"}
        return cls(name, build(cls._config_class(name, dotted(where, "name")), rest, where))

    @classmethod
    def _base(cls) -> type[Any]:
        """Return the library's base class of a user's class."""
        raise NotImplementedError

    @classmethod
    def _config_class(cls, name: str, where: str) -> type[Any]:
        if is_own(name):
            own: Any = load_own_class(name, f"settings: {where}", cls._base())
            found: Any = getattr(own, "config_class", None)
            if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
                raise InvalidOption(
                    f"settings: {where}: {name} must say with the attribute config_class which "
                    f"dataclass holds its settings; got {found!r}."
                )
            return found
        if name not in cls.known:
            raise UnknownName(
                f"settings: {where} must be one of {', '.join(cls.known)}, or module:Class; got "
                f"{name!r}{suggestion(name, cls.known)}"
            )
        config: type[Any] = cls.known[name][1]
        return config

    def _class(self) -> Any:
        import plangym_ext.learn

        if is_own(self.name):
            return load_own_class(self.name, f"settings: {self.section}.name", self._base())
        return getattr(plangym_ext.learn, self.known[self.name][0])

    def to_settings(self) -> dict[str, Any]:
        """Return it as one flat mapping."""
        return {"name": self.name, **plain(self.config)}

    def listed(self, where: str) -> list[Setting]:
        """List its settings; see `settings.listed`."""
        known = f"one of: {', '.join(self.known)}; or module:Class"
        name = Setting(dotted(where, "name"), self.name, known)
        return [name, *listed(self.config, where)]


@final
@dataclass(frozen=True)
class AgentSettings(NamedSettings):
    """An agent, and the configuration of its network.

    Args:
        name: one of `AGENTS`; or "module:Class" of a `NetworkAgent` (network, `device`).
        config: of its network.
    """

    name: str = "network"
    config: Any = field(default_factory=NetworkConfig)

    # Without annotations here and in the class below: a dataclass would make fields of them.
    known = AGENTS
    unnamed = "actor_critic"
    section = "agent"

    @classmethod
    def _base(cls) -> type[Any]:
        from plangym_ext.learn.agents.network_agent import NetworkAgent

        return NetworkAgent

    @classmethod
    def _config_class(cls, name: str, where: str) -> type[Any]:
        if name == "planner":
            raise InvalidOption(
                f"settings: {where} must name an agent with a network; a planner has none. Name "
                f"'network' there, and the planner in the section planner, as the preset "
                f"'cartpole' does. In Python, a `PlannerAgent` plays a planner in a sampler."
            )
        # An own agent plays a network that the library makes.
        return cls._own_kind(name).config if is_own(name) else super()._config_class(name, where)

    @classmethod
    def _own_kind(cls, name: str) -> AgentKind:
        """Return the kind of the library's agent from which a user's agent derives."""
        import plangym_ext.learn

        own = load_own_class(name, f"settings: {cls.section}.name", cls._base())
        for kind in AGENTS.values():
            if issubclass(own, getattr(plangym_ext.learn, kind.agent)):
                return kind
        return _OWN_AGENT

    @property
    def kind(self) -> AgentKind:
        """Classes of the agent's parts."""
        return self._own_kind(self.name) if is_own(self.name) else AGENTS[self.name]

    def make_network(self, observation_space: Any, action_space: Any, seed: int) -> Any:
        """Make the network that the agent plays."""
        import plangym_ext.learn

        if self.name == "teams":
            spaces = observation_space, action_space
            return teams.make_network(type(self), self.config.teams, *spaces, seed)
        make = getattr(plangym_ext.learn, self.kind.network)
        return make(observation_space, action_space, self.config, seed=seed)

    def make(self, network: Any, device: str) -> Any:
        """Make the agent that plays a network."""
        if self.name == "teams":
            return teams.make_agent(type(self), self.config.teams, network, device)
        if self.kind.agent == "EvaluatorAgent":
            from plangym_ext.learn import EvaluatorAgent, NetworkEvaluator
            from plangym_ext.learn.networks.quick_forward import of_observations

            return EvaluatorAgent(NetworkEvaluator(of_observations(network), device=device))
        return self._class()(network, device=device)


@final
@dataclass(frozen=True)
class AlgorithmSettings(NamedSettings):
    """An algorithm and its configuration.

    Args:
        name: one of `ALGORITHMS`; or "module:Class" of an `AgentAlgorithm` of your own.
        config: of that algorithm.
    """

    name: str = "alphazero"
    config: Any = field(default_factory=plan_config.AlphaZeroConfig)

    known = ALGORITHMS
    unnamed = "alphazero"
    section = "algorithm"

    @classmethod
    def _base(cls) -> type[Any]:
        from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm

        return AgentAlgorithm

    @classmethod
    def _config_class(cls, name: str, where: str) -> type[Any]:
        found = super()._config_class(name, where)
        if "discount" not in {one.name for one in dataclasses.fields(found)}:
            raise InvalidOption(
                f"settings: {where}: {found.__name__}, the config_class of {name}, must have a "
                f"field discount, a number in [0, 1], by which samplers discount rewards."
            )
        return found

    def make(self, network: Any, seed: int) -> Any:
        """Make the algorithm that teaches a network."""
        if self.name == "teams":
            return teams.make_learning(type(self), self.config, network, seed)
        return self._class()(network, self.config, seed=seed)


@dataclass(frozen=True)
class PlannerSettings:
    """A planner and its options, side by side in a file: `{name = "mcts", c_puct = 1.0}`.

    Args:
        name: as in `plangym_ext.planners.PLANNERS`.
        options: keywords of its constructor; numbers may follow a schedule over the updates.
    """

    name: str = "mcts"
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, values: Mapping[str, Any], where: str) -> Self:
        """Make it from one flat mapping; see `settings.build`."""
        name = str(values.get("name", cls.name))
        known = planner_kinds(name)
        rest = {key: value for key, value in values.items() if key != "name"}
        check_names(rest, list(known), where)
        return cls(name, {k: read(known[k], v, dotted(where, k)) for k, v in rest.items()})

    def to_settings(self) -> dict[str, Any]:
        """Return it as one flat mapping."""
        return {"name": self.name, **self.options}

    def listed(self, where: str) -> list[Setting]:
        """List its options; see `settings.listed`."""
        from plangym_ext.planners import PLANNERS, load_planner, options_of

        found = [Setting(dotted(where, "name"), self.name, f"one of: {', '.join(PLANNERS)}")]
        for option in options_of(load_planner(self.name)):
            if option.kind is not None:
                value = self.options.get(option.name, option.default)
                found.append(Setting(dotted(where, option.name), value, option.help))
        return found

    def evaluated(self, options: Mapping[str, Any], where: str) -> PlannerSettings:
        """Return the same planner without noise, and with some options changed."""
        from plangym_ext.planners import load_planner

        quiet = dict.fromkeys(load_planner(self.name).noise_options, 0.0)
        # All are read again, which changes none: a value of the right type is read as it is.
        values = {"name": self.name, **self.options, **quiet, **options}
        return self.from_settings(values, where)

    @property
    def discount(self) -> Number | None:
        """The planner's discount per step; None without such an option."""
        from plangym_ext.planners import load_planner, options_of

        known = {option.name: option.default for option in options_of(load_planner(self.name))}
        return typing.cast("Number | None", (known | dict(self.options)).get("discount"))

    def make(self, evaluator: Any = None, policy: Any = None) -> Any:
        """Make the planner, or raise `InvalidOption` for a wrong option; see `make_planner`."""
        from plangym_ext.planners import load_planner

        return make_planner(load_planner(self.name), evaluator, self.options, policy)


def make_planner(
    cls: Any, evaluator: Any, options: Mapping[str, Any] | None = None, policy: Any = None
) -> Any:
    """Make a planner of a class.

    Args:
        cls: of the planner.
        evaluator: which it gets if it asks any.
        options: of the planner.
        policy: which it plays if its class says that it plays one.
    """
    from plangym_ext.planners import options_of

    schedules = schedules_of(cls, options or {}, "settings: planner.")
    given = dict(options or {}) | {name: number(0) for name, number in schedules.items()}
    if evaluator and any(option.name == "evaluator" for option in options_of(cls)):
        given["evaluator"] = evaluator
    if policy and cls.plays_policy:
        given["rollout_policy"] = policy
    planner = cls(**given)
    planner.schedules = schedules
    return planner


def is_own(name: str) -> bool:
    """Return whether a name is a user's "module:Class"."""
    return ":" in name


def planner_kinds(name: str) -> dict[str, Any]:
    """Return the options of a planner that can be typed in, with their types."""
    from plangym_ext.planners import load_planner, options_of

    more: Any = dict.fromkeys((int, float), (Schedule, OwnSchedule))
    return {
        one.name: typing.Union[one.kind, *more.get(one.kind, ()), *[None] * one.optional]
        for one in options_of(load_planner(name))
        if one.kind is not None
    }
