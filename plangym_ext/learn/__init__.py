"""Learning: networks, agents and samplers, and what learns from plans and is asked by planners.

Names are loaded when they are first used: torch, and numba, only by those that need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plangym_ext.learn.agents.actor_critic import ActorCriticAgent as ActorCriticAgent
    from plangym_ext.learn.agents.agent import Acted as Acted
    from plangym_ext.learn.agents.agent import Agent as Agent
    from plangym_ext.learn.agents.agent_planner import AgentPlanner as AgentPlanner
    from plangym_ext.learn.agents.check import check_agent as check_agent
    from plangym_ext.learn.agents.evaluator_agent import EvaluatorAgent as EvaluatorAgent
    from plangym_ext.learn.agents.expert_agent import ExpertAgent as ExpertAgent
    from plangym_ext.learn.agents.inputs import Inputs as Inputs
    from plangym_ext.learn.agents.network_agent import NetworkAgent as NetworkAgent
    from plangym_ext.learn.agents.planner_agent import PlannerAgent as PlannerAgent
    from plangym_ext.learn.agents.policy_agent import PolicyAgent as PolicyAgent
    from plangym_ext.learn.agents.q_agent import QAgent as QAgent
    from plangym_ext.learn.agents.q_agent import log_spaced as log_spaced
    from plangym_ext.learn.agents.random_agent import RandomAgent as RandomAgent
    from plangym_ext.learn.agents.teacher import Teacher as Teacher
    from plangym_ext.learn.algorithms.expert_config import ExpertConfig as ExpertConfig
    from plangym_ext.learn.algorithms.expert_iteration import ExpertIteration as ExpertIteration
    from plangym_ext.learn.algorithms.off_policy.actor_critic_config import (
        CrossQConfig as CrossQConfig,
    )
    from plangym_ext.learn.algorithms.off_policy.actor_critic_config import DDPGConfig as DDPGConfig
    from plangym_ext.learn.algorithms.off_policy.actor_critic_config import SACConfig as SACConfig
    from plangym_ext.learn.algorithms.off_policy.actor_critic_config import TD3Config as TD3Config
    from plangym_ext.learn.algorithms.off_policy.actor_critic_config import TQCConfig as TQCConfig
    from plangym_ext.learn.algorithms.off_policy.config import C51Config as C51Config
    from plangym_ext.learn.algorithms.off_policy.config import DQNConfig as DQNConfig
    from plangym_ext.learn.algorithms.off_policy.config import QRDQNConfig as QRDQNConfig
    from plangym_ext.learn.algorithms.off_policy.config import R2D1Config as R2D1Config
    from plangym_ext.learn.algorithms.off_policy.config import RainbowConfig as RainbowConfig
    from plangym_ext.learn.algorithms.off_policy.crossq import CrossQ as CrossQ
    from plangym_ext.learn.algorithms.off_policy.distributional import C51 as C51
    from plangym_ext.learn.algorithms.off_policy.distributional import QRDQN as QRDQN
    from plangym_ext.learn.algorithms.off_policy.distributional import Rainbow as Rainbow
    from plangym_ext.learn.algorithms.off_policy.dqn import DQN as DQN
    from plangym_ext.learn.algorithms.off_policy.r2d1 import R2D1 as R2D1
    from plangym_ext.learn.algorithms.off_policy.sac import SAC as SAC
    from plangym_ext.learn.algorithms.off_policy.td3 import DDPG as DDPG
    from plangym_ext.learn.algorithms.off_policy.td3 import TD3 as TD3
    from plangym_ext.learn.algorithms.off_policy.tqc import TQC as TQC
    from plangym_ext.learn.algorithms.plan_config import AlphaZeroConfig as AlphaZeroConfig
    from plangym_ext.learn.algorithms.plan_config import HistogramConfig as HistogramConfig
    from plangym_ext.learn.algorithms.plan_config import PlanLearningConfig as PlanLearningConfig
    from plangym_ext.learn.algorithms.plan_config import QConfig as QConfig
    from plangym_ext.learn.algorithms.plan_config import SupervisedConfig as SupervisedConfig
    from plangym_ext.learn.algorithms.plan_config import TDConfig as TDConfig
    from plangym_ext.learn.algorithms.plan_config import ValueConfig as ValueConfig
    from plangym_ext.learn.algorithms.plan_learning import PlanLearning as PlanLearning
    from plangym_ext.learn.algorithms.rollouts.a2c import A2C as A2C
    from plangym_ext.learn.algorithms.rollouts.advantage_config import (
        AdvantageConfig as AdvantageConfig,
    )
    from plangym_ext.learn.algorithms.rollouts.config import A2CConfig as A2CConfig
    from plangym_ext.learn.algorithms.rollouts.config import PPOConfig as PPOConfig
    from plangym_ext.learn.algorithms.rollouts.config import PQNConfig as PQNConfig
    from plangym_ext.learn.algorithms.rollouts.config import ReinforceConfig as ReinforceConfig
    from plangym_ext.learn.algorithms.rollouts.config import VTraceConfig as VTraceConfig
    from plangym_ext.learn.algorithms.rollouts.ppo import PPO as PPO
    from plangym_ext.learn.algorithms.rollouts.pqn import PQN as PQN
    from plangym_ext.learn.algorithms.rollouts.reinforce import REINFORCE as REINFORCE
    from plangym_ext.learn.algorithms.rollouts.vtrace import VTrace as VTrace
    from plangym_ext.learn.algorithms.supervised import SupervisedLearning as SupervisedLearning
    from plangym_ext.learn.algorithms.temporal_differences import TDLearning as TDLearning
    from plangym_ext.learn.distributions.make import distribution_of as distribution_of
    from plangym_ext.learn.distributions.noise import GeneratorNoise as GeneratorNoise
    from plangym_ext.learn.distributions.torch_noise import TorchNoise as TorchNoise
    from plangym_ext.learn.evaluator import NetworkEvaluator as NetworkEvaluator
    from plangym_ext.learn.network_policy import NetworkPolicy as NetworkPolicy
    from plangym_ext.learn.networks.agent_config import AgentConfig as AgentConfig
    from plangym_ext.learn.networks.agent_config import (
        DeterministicPolicyConfig as DeterministicPolicyConfig,
    )
    from plangym_ext.learn.networks.agent_config import QAgentConfig as QAgentConfig
    from plangym_ext.learn.networks.agent_config import SoftPolicyConfig as SoftPolicyConfig
    from plangym_ext.learn.networks.agent_network import AgentNetwork as AgentNetwork
    from plangym_ext.learn.networks.agent_network import make_agent_network as make_agent_network
    from plangym_ext.learn.networks.config import NetworkConfig as NetworkConfig
    from plangym_ext.learn.networks.network import Network as Network
    from plangym_ext.learn.networks.network import NetworkOutput as NetworkOutput
    from plangym_ext.learn.networks.network import make_network as make_network
    from plangym_ext.learn.networks.state import load_network_state as load_network_state
    from plangym_ext.learn.records import EpisodeRecord as EpisodeRecord
    from plangym_ext.learn.records import EpisodeRecorder as EpisodeRecorder
    from plangym_ext.learn.replay.balanced import BalancedReplay as BalancedReplay
    from plangym_ext.learn.replay.base import Replay as Replay
    from plangym_ext.learn.replay.prioritized import PrioritizedReplay as PrioritizedReplay
    from plangym_ext.learn.replay.sequences import SequenceReplay as SequenceReplay
    from plangym_ext.learn.replay.steps import StepReplay as StepReplay
    from plangym_ext.learn.replay.uniform import ReplayBuffer as ReplayBuffer
    from plangym_ext.learn.sampling.alternating import AlternatingSampler as AlternatingSampler
    from plangym_ext.learn.sampling.evaluation import EvaluationSampler as EvaluationSampler
    from plangym_ext.learn.sampling.expert import ExpertSampler as ExpertSampler
    from plangym_ext.learn.sampling.forking import ForkingSampler as ForkingSampler
    from plangym_ext.learn.sampling.noise import RowNoise as RowNoise
    from plangym_ext.learn.sampling.options import SamplerOptions as SamplerOptions
    from plangym_ext.learn.sampling.serial import SerialSampler as SerialSampler
    from plangym_ext.learn.sampling.starts import BackwardStarts as BackwardStarts
    from plangym_ext.learn.sampling.starts import Starts as Starts
    from plangym_ext.learn.sampling.starts import StoredStarts as StoredStarts
    from plangym_ext.learn.sampling.starts import UnsureStarts as UnsureStarts
    from plangym_ext.learn.sampling.tree import build_sample_tree as build_sample_tree
    from plangym_ext.learn.sampling.worker import WorkerSampler as WorkerSampler
    from plangym_ext.learn.schedule import OwnSchedule as OwnSchedule
    from plangym_ext.learn.schedule import Schedule as Schedule
    from plangym_ext.learn.targets import POLICY_TARGETS as POLICY_TARGETS
    from plangym_ext.learn.targets import VALUE_TARGETS as VALUE_TARGETS
    from plangym_ext.learn.transforms.moments import Moments as Moments
    from plangym_ext.learn.transforms.observations import (
        ObservationNormalizer as ObservationNormalizer,
    )
    from plangym_ext.learn.transforms.rewards import RewardNormalizer as RewardNormalizer

#: Public name -> module that defines it, below this package.
_HOME = {
    "A2C": "algorithms.rollouts.a2c",
    "A2CConfig": "algorithms.rollouts.config",
    "Acted": "agents.agent",
    "ActorCriticAgent": "agents.actor_critic",
    "Agent": "agents.agent",
    "AdvantageConfig": "algorithms.rollouts.advantage_config",
    "AgentConfig": "networks.agent_config",
    "AgentNetwork": "networks.agent_network",
    "AgentPlanner": "agents.agent_planner",
    "AlternatingSampler": "sampling.alternating",
    "BalancedReplay": "replay.balanced",
    "C51": "algorithms.off_policy.distributional",
    "C51Config": "algorithms.off_policy.config",
    "CrossQ": "algorithms.off_policy.crossq",
    "CrossQConfig": "algorithms.off_policy.actor_critic_config",
    "DDPG": "algorithms.off_policy.td3",
    "DDPGConfig": "algorithms.off_policy.actor_critic_config",
    "DQN": "algorithms.off_policy.dqn",
    "DQNConfig": "algorithms.off_policy.config",
    "DeterministicPolicyConfig": "networks.agent_config",
    "EpisodeRecord": "records",
    "EpisodeRecorder": "records",
    "EvaluationSampler": "sampling.evaluation",
    "EvaluatorAgent": "agents.evaluator_agent",
    "ExpertAgent": "agents.expert_agent",
    "ExpertConfig": "algorithms.expert_config",
    "ExpertIteration": "algorithms.expert_iteration",
    "ExpertSampler": "sampling.expert",
    "ForkingSampler": "sampling.forking",
    "GeneratorNoise": "distributions.noise",
    "Inputs": "agents.inputs",
    "Moments": "transforms.moments",
    "Network": "networks.network",
    "NetworkAgent": "agents.network_agent",
    "NetworkConfig": "networks.config",
    "NetworkEvaluator": "evaluator",
    "NetworkOutput": "networks.network",
    "NetworkPolicy": "network_policy",
    "ObservationNormalizer": "transforms.observations",
    "OwnSchedule": "schedule",
    "POLICY_TARGETS": "targets",
    "PPO": "algorithms.rollouts.ppo",
    "PPOConfig": "algorithms.rollouts.config",
    "PQN": "algorithms.rollouts.pqn",
    "PQNConfig": "algorithms.rollouts.config",
    "PlannerAgent": "agents.planner_agent",
    "PolicyAgent": "agents.policy_agent",
    "PrioritizedReplay": "replay.prioritized",
    "QAgent": "agents.q_agent",
    "QAgentConfig": "networks.agent_config",
    "QRDQN": "algorithms.off_policy.distributional",
    "QRDQNConfig": "algorithms.off_policy.config",
    "R2D1": "algorithms.off_policy.r2d1",
    "R2D1Config": "algorithms.off_policy.config",
    "REINFORCE": "algorithms.rollouts.reinforce",
    "Rainbow": "algorithms.off_policy.distributional",
    "RainbowConfig": "algorithms.off_policy.config",
    "RandomAgent": "agents.random_agent",
    "ReinforceConfig": "algorithms.rollouts.config",
    "Replay": "replay.base",
    "ReplayBuffer": "replay.uniform",
    "RewardNormalizer": "transforms.rewards",
    "RowNoise": "sampling.noise",
    "SAC": "algorithms.off_policy.sac",
    "SACConfig": "algorithms.off_policy.actor_critic_config",
    "SamplerOptions": "sampling.options",
    "Schedule": "schedule",
    "SequenceReplay": "replay.sequences",
    "BackwardStarts": "sampling.starts",
    "SerialSampler": "sampling.serial",
    "Starts": "sampling.starts",
    "StoredStarts": "sampling.starts",
    "Teacher": "agents.teacher",
    "UnsureStarts": "sampling.starts",
    "SoftPolicyConfig": "networks.agent_config",
    "StepReplay": "replay.steps",
    "TD3": "algorithms.off_policy.td3",
    "TD3Config": "algorithms.off_policy.actor_critic_config",
    "TQC": "algorithms.off_policy.tqc",
    "TQCConfig": "algorithms.off_policy.actor_critic_config",
    "TorchNoise": "distributions.torch_noise",
    "VALUE_TARGETS": "targets",
    "VTrace": "algorithms.rollouts.vtrace",
    "VTraceConfig": "algorithms.rollouts.config",
    "WorkerSampler": "sampling.worker",
    "build_sample_tree": "sampling.tree",
    "check_agent": "agents.check",
    "distribution_of": "distributions.make",
    "load_network_state": "networks.state",
    "log_spaced": "agents.q_agent",
    "make_agent_network": "networks.agent_network",
    "make_network": "networks.network",
    "PlanLearning": "algorithms.plan_learning",
    "SupervisedLearning": "algorithms.supervised",
    "TDLearning": "algorithms.temporal_differences",
    "PlanLearningConfig": "algorithms.plan_config",
    "AlphaZeroConfig": "algorithms.plan_config",
    "HistogramConfig": "algorithms.plan_config",
    "QConfig": "algorithms.plan_config",
    "SupervisedConfig": "algorithms.plan_config",
    "TDConfig": "algorithms.plan_config",
    "ValueConfig": "algorithms.plan_config",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
