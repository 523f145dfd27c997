from plangym_ext.testing.agent import AgentContract as AgentContract
from plangym_ext.testing.agent import AlgorithmContract as AlgorithmContract
from plangym_ext.testing.backend import BackendContract as BackendContract
from plangym_ext.testing.env import EnvContract as EnvContract
from plangym_ext.testing.env import VectorEnvContract as VectorEnvContract
from plangym_ext.testing.planner import PlannerContract as PlannerContract
