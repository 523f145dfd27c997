__version__: str

from plangym_ext.arrays.array import Array as Array
from plangym_ext.arrays.jagged import JaggedArray as JaggedArray
from plangym_ext.arrays.tree import ArrayDict as ArrayDict
from plangym_ext.core.check_env import check_env as check_env
from plangym_ext.core.files.state_file import load_states as load_states
from plangym_ext.core.files.state_file import save_states as save_states
from plangym_ext.core.files.state_set import StateSet as StateSet
from plangym_ext.core.gym_env import GymEnv as GymEnv
from plangym_ext.core.plan_env import PlanEnv as PlanEnv
from plangym_ext.native.compiled import compiled as compiled
from plangym_ext.native.kernel.kernel_env import KernelEnv as KernelEnv
from plangym_ext.native.kernel.known import register_kernel as register_kernel
from plangym_ext.native.kernel.row_kernel import Kernel as Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv as RulesEnv
from plangym_ext.native.translate.compile_env import compile_env as compile_env
from plangym_ext.registry import make as make
from plangym_ext.registry import register as register
from plangym_ext.states.families import Family as Family
from plangym_ext.states.part import StatePart as StatePart
from plangym_ext.vector.check_vector_env import check_vector_env as check_vector_env
from plangym_ext.vector.vector_env import PlanVectorEnv as PlanVectorEnv
from plangym_ext.vector_registry import make_vec as make_vec
from plangym_ext.workers.batch_env import BatchEnv as BatchEnv
from plangym_ext.workers.batch_env import ExternalProcess as ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv as ParallelEnv
