from plangym_ext.learn.agents.agent import Acted as Acted
from plangym_ext.learn.agents.agent import Agent as Agent
from plangym_ext.learn.agents.agent import RandomAgent as RandomAgent
from plangym_ext.learn.agents.agent import check_agent as check_agent
from plangym_ext.learn.agents.agent_planner import AgentPlanner as AgentPlanner
from plangym_ext.learn.agents.evaluator_agent import EvaluatorAgent as EvaluatorAgent
from plangym_ext.learn.agents.evaluator_agent import NetworkPolicy as NetworkPolicy
from plangym_ext.learn.agents.inputs import Inputs as Inputs
from plangym_ext.learn.agents.network_agent import ActorCriticAgent as ActorCriticAgent
from plangym_ext.learn.agents.network_agent import NetworkAgent as NetworkAgent
from plangym_ext.learn.agents.network_agent import PolicyAgent as PolicyAgent
from plangym_ext.learn.agents.planner_agent import PlannerAgent as PlannerAgent
from plangym_ext.learn.agents.q_agent import QAgent as QAgent
from plangym_ext.learn.agents.q_agent import log_spaced as log_spaced
from plangym_ext.learn.algorithms.expert_iteration import ExpertIteration as ExpertIteration
from plangym_ext.learn.algorithms.learned.ensemble_learning import (
    EnsembleLearning as EnsembleLearning,
)
from plangym_ext.learn.algorithms.learned.muzero import MuZero as MuZero
from plangym_ext.learn.algorithms.off_policy.config import C51Config as C51Config
from plangym_ext.learn.algorithms.off_policy.config import (
    CrossQConfig as CrossQConfig,
)
from plangym_ext.learn.algorithms.off_policy.config import DDPGConfig as DDPGConfig
from plangym_ext.learn.algorithms.off_policy.config import DQNConfig as DQNConfig
from plangym_ext.learn.algorithms.off_policy.config import MBPOConfig as MBPOConfig
from plangym_ext.learn.algorithms.off_policy.config import PEARLConfig as PEARLConfig
from plangym_ext.learn.algorithms.off_policy.config import QMIXConfig as QMIXConfig
from plangym_ext.learn.algorithms.off_policy.config import QRDQNConfig as QRDQNConfig
from plangym_ext.learn.algorithms.off_policy.config import R2D1Config as R2D1Config
from plangym_ext.learn.algorithms.off_policy.config import RainbowConfig as RainbowConfig
from plangym_ext.learn.algorithms.off_policy.config import SACConfig as SACConfig
from plangym_ext.learn.algorithms.off_policy.config import TD3Config as TD3Config
from plangym_ext.learn.algorithms.off_policy.config import TQCConfig as TQCConfig
from plangym_ext.learn.algorithms.off_policy.config import VDNConfig as VDNConfig
from plangym_ext.learn.algorithms.off_policy.mbpo import MBPO as MBPO
from plangym_ext.learn.algorithms.off_policy.pearl import PEARL as PEARL
from plangym_ext.learn.algorithms.off_policy.q_learning import C51 as C51
from plangym_ext.learn.algorithms.off_policy.q_learning import DQN as DQN
from plangym_ext.learn.algorithms.off_policy.q_learning import QRDQN as QRDQN
from plangym_ext.learn.algorithms.off_policy.q_learning import Rainbow as Rainbow
from plangym_ext.learn.algorithms.off_policy.r2d1 import R2D1 as R2D1
from plangym_ext.learn.algorithms.off_policy.sac import SAC as SAC
from plangym_ext.learn.algorithms.off_policy.sac import TQC as TQC
from plangym_ext.learn.algorithms.off_policy.sac import CrossQ as CrossQ
from plangym_ext.learn.algorithms.off_policy.td3 import DDPG as DDPG
from plangym_ext.learn.algorithms.off_policy.td3 import TD3 as TD3
from plangym_ext.learn.algorithms.off_policy.value_decomposition import QMIX as QMIX
from plangym_ext.learn.algorithms.off_policy.value_decomposition import VDN as VDN
from plangym_ext.learn.algorithms.plan_config import AlphaZeroConfig as AlphaZeroConfig
from plangym_ext.learn.algorithms.plan_config import (
    EnsembleLearningConfig as EnsembleLearningConfig,
)
from plangym_ext.learn.algorithms.plan_config import ExpertConfig as ExpertConfig
from plangym_ext.learn.algorithms.plan_config import HistogramConfig as HistogramConfig
from plangym_ext.learn.algorithms.plan_config import MuZeroConfig as MuZeroConfig
from plangym_ext.learn.algorithms.plan_config import PlanLearningConfig as PlanLearningConfig
from plangym_ext.learn.algorithms.plan_config import QConfig as QConfig
from plangym_ext.learn.algorithms.plan_config import SupervisedConfig as SupervisedConfig
from plangym_ext.learn.algorithms.plan_config import TDConfig as TDConfig
from plangym_ext.learn.algorithms.plan_config import ValueConfig as ValueConfig
from plangym_ext.learn.algorithms.plan_learning import PlanLearning as PlanLearning
from plangym_ext.learn.algorithms.plan_losses import SupervisedLearning as SupervisedLearning
from plangym_ext.learn.algorithms.plan_losses import TDLearning as TDLearning
from plangym_ext.learn.algorithms.rollouts.config import A2CConfig as A2CConfig
from plangym_ext.learn.algorithms.rollouts.config import (
    AdvantageConfig as AdvantageConfig,
)
from plangym_ext.learn.algorithms.rollouts.config import PPOConfig as PPOConfig
from plangym_ext.learn.algorithms.rollouts.config import PQNConfig as PQNConfig
from plangym_ext.learn.algorithms.rollouts.config import ReinforceConfig as ReinforceConfig
from plangym_ext.learn.algorithms.rollouts.config import VTraceConfig as VTraceConfig
from plangym_ext.learn.algorithms.rollouts.policy_gradient import A2C as A2C
from plangym_ext.learn.algorithms.rollouts.policy_gradient import REINFORCE as REINFORCE
from plangym_ext.learn.algorithms.rollouts.policy_gradient import VTrace as VTrace
from plangym_ext.learn.algorithms.rollouts.ppo import PPO as PPO
from plangym_ext.learn.algorithms.rollouts.pqn import PQN as PQN
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout as Rollout
from plangym_ext.learn.algorithms.rollouts.rollout import rollout_of as rollout_of
from plangym_ext.learn.curiosity import Curiosity as Curiosity
from plangym_ext.learn.curiosity import CuriosityConfig as CuriosityConfig
from plangym_ext.learn.distributions.make import distribution_of as distribution_of
from plangym_ext.learn.distributions.noise import GeneratorNoise as GeneratorNoise
from plangym_ext.learn.distributions.torch_noise import TorchNoise as TorchNoise
from plangym_ext.learn.evaluator import NetworkEvaluator as NetworkEvaluator
from plangym_ext.learn.fragment_batches import joined as joined
from plangym_ext.learn.fragment_batches import minibatches as minibatches
from plangym_ext.learn.meta.agent import ContextAgent as ContextAgent
from plangym_ext.learn.meta.agent import ContextNetwork as ContextNetwork
from plangym_ext.learn.meta.agent import make_context_network as make_context_network
from plangym_ext.learn.meta.task_replay import TaskReplay as TaskReplay
from plangym_ext.learn.models.ensemble import EnsembleModel as EnsembleModel
from plangym_ext.learn.models.ensemble import EnsembleNetwork as EnsembleNetwork
from plangym_ext.learn.models.ensemble import (
    make_ensemble_network as make_ensemble_network,
)
from plangym_ext.learn.models.latent import LatentModel as LatentModel
from plangym_ext.learn.models.latent import LatentNetwork as LatentNetwork
from plangym_ext.learn.models.latent import OfLatents as OfLatents
from plangym_ext.learn.models.latent import make_latent_network as make_latent_network
from plangym_ext.learn.models.model_env import ModelEnv as ModelEnv
from plangym_ext.learn.models.model_planner import ModelPlanner as ModelPlanner
from plangym_ext.learn.models.model_planner import model_planner as model_planner
from plangym_ext.learn.networks.agent_network import AgentNetwork as AgentNetwork
from plangym_ext.learn.networks.agent_network import make_agent_network as make_agent_network
from plangym_ext.learn.networks.auto_encoder import AutoEncoder as AutoEncoder
from plangym_ext.learn.networks.config import AgentConfig as AgentConfig
from plangym_ext.learn.networks.config import AgentsConfig as AgentsConfig
from plangym_ext.learn.networks.config import AgentsQConfig as AgentsQConfig
from plangym_ext.learn.networks.config import ContextConfig as ContextConfig
from plangym_ext.learn.networks.config import (
    DeterministicPolicyConfig as DeterministicPolicyConfig,
)
from plangym_ext.learn.networks.config import EnsembleConfig as EnsembleConfig
from plangym_ext.learn.networks.config import LatentConfig as LatentConfig
from plangym_ext.learn.networks.config import NetworkConfig as NetworkConfig
from plangym_ext.learn.networks.config import QAgentConfig as QAgentConfig
from plangym_ext.learn.networks.config import SoftPolicyConfig as SoftPolicyConfig
from plangym_ext.learn.networks.network import Network as Network
from plangym_ext.learn.networks.network import NetworkOutput as NetworkOutput
from plangym_ext.learn.networks.network import UnionNetwork as UnionNetwork
from plangym_ext.learn.networks.network import make_network as make_network
from plangym_ext.learn.networks.state import load_network_state as load_network_state
from plangym_ext.learn.records import EpisodeRecord as EpisodeRecord
from plangym_ext.learn.records import EpisodeRecorder as EpisodeRecorder
from plangym_ext.learn.replay.base import Replay as Replay
from plangym_ext.learn.replay.best import BestReplay as BestReplay
from plangym_ext.learn.replay.priorities import PrioritizedReplay as PrioritizedReplay
from plangym_ext.learn.replay.ring_replay import StepReplay as StepReplay
from plangym_ext.learn.replay.sequences import SequenceReplay as SequenceReplay
from plangym_ext.learn.replay.uniform import BalancedReplay as BalancedReplay
from plangym_ext.learn.replay.uniform import ReplayBuffer as ReplayBuffer
from plangym_ext.learn.sampling.evaluation import EvaluationSampler as EvaluationSampler
from plangym_ext.learn.sampling.expert import ExpertSampler as ExpertSampler
from plangym_ext.learn.sampling.forking import ForkingSampler as ForkingSampler
from plangym_ext.learn.sampling.local import AlternatingSampler as AlternatingSampler
from plangym_ext.learn.sampling.local import SerialSampler as SerialSampler
from plangym_ext.learn.sampling.noise import RowNoise as RowNoise
from plangym_ext.learn.sampling.options import SamplerOptions as SamplerOptions
from plangym_ext.learn.sampling.starts import BackwardStarts as BackwardStarts
from plangym_ext.learn.sampling.starts import Starts as Starts
from plangym_ext.learn.sampling.starts import StoredStarts as StoredStarts
from plangym_ext.learn.sampling.starts import UnsureStarts as UnsureStarts
from plangym_ext.learn.sampling.tree import build_sample_tree as build_sample_tree
from plangym_ext.learn.sampling.worker import WorkerSampler as WorkerSampler
from plangym_ext.learn.schedule import OwnSchedule as OwnSchedule
from plangym_ext.learn.schedule import Schedule as Schedule
from plangym_ext.learn.several.agent import AgentsAgent as AgentsAgent
from plangym_ext.learn.several.agent import AgentsNetwork as AgentsNetwork
from plangym_ext.learn.several.agent import AgentsQAgent as AgentsQAgent
from plangym_ext.learn.several.agent import make_agents_network as make_agents_network
from plangym_ext.learn.several.config import TeamsConfig as TeamsConfig
from plangym_ext.learn.several.config import TeamsLearningConfig as TeamsLearningConfig
from plangym_ext.learn.several.teams import Team as Team
from plangym_ext.learn.several.teams import TeamsAgent as TeamsAgent
from plangym_ext.learn.several.teams import TeamsLearning as TeamsLearning
from plangym_ext.learn.several.teams import TeamsNetwork as TeamsNetwork
from plangym_ext.learn.several.teams import make_teams as make_teams
from plangym_ext.learn.targets import POLICY_TARGETS as POLICY_TARGETS
from plangym_ext.learn.targets import VALUE_TARGETS as VALUE_TARGETS
from plangym_ext.learn.transforms.moments import Moments as Moments
from plangym_ext.learn.transforms.observations import ObservationNormalizer as ObservationNormalizer
from plangym_ext.learn.transforms.rewards import RewardNormalizer as RewardNormalizer
from plangym_ext.learn.whole_episodes import WholeEpisodes as WholeEpisodes
