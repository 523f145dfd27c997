"""Env families that the library ships: one module per family, with their state codecs.

Importing this package imports none of them: it only tells the table of families
where their codecs are. The library's own env classes are loaded when they are first used.
"""

from plangym_ext.lazy_names import lazy_names
from plangym_ext.states.families import Family, register_family
from plangym_ext.states.simulators import register_simulator

if __name__ != "plangym_ext.envs":  # with the checkout's folder first in the module path
    raise ModuleNotFoundError(
        f"there is no module {__name__!r}: this folder of a checkout is plangym_ext.envs",
        name=__name__,
    )

_HERE = "plangym_ext.envs"
_KERNELS = ("kernel", f"{_HERE}.kernels:kernel_of")
_TASKS = ("mujoco", f"{_HERE}.mujoco_tasks:task_of")
# Else pygame looks for a display, and says that there is none.
_PYGAME = (("SDL_VIDEODRIVER", "dummy"), ("PYGAME_HIDE_SUPPORT_PROMPT", "1"))
# Else MuJoCo draws with GLFW, which needs a display.
_EGL = (("MUJOCO_GL", "egl"),)
# highway-env's ids have no prefix of their own.
_HIGHWAY = tuple(
    f"{road}-*"
    for road in (
        "exit",
        "highway",
        "intersection",
        "lane-keeping",
        "merge",
        "parking",
        "racetrack",
        "roundabout",
        "two-way",
        "u-turn",
    )
)

for _family in (
    Family(
        name="classic_control",
        module="gymnasium.envs.classic_control",
        codec=f"{_HERE}.classic_control:ClassicControlPart",
        native=_KERNELS,
        extra="classic",
        headless=_PYGAME,
    ),
    # Its classes derive from those of other families, and have states of their own.
    Family(name="compiled", module="plangym_ext.native.translate", codec=None),
    Family(
        name="atari",
        module="ale_py",
        codec=f"{_HERE}.atari:AtariPart",
        frameskip_argument="frameskip",
        wrap=f"{_HERE}.atari:wrapped",
        options=("episodic_life", "life_penalty", "montezuma", "preprocessing"),
        registers="ale_py",
        prepare=f"{_HERE}.atari:prepare",
        prepared=("ale_py.env:AtariEnv", f"{_HERE}.atari:Game"),
        building=f"{_HERE}.atari:quiet_emulator",
        frames=f"{_HERE}.atari:frames",
    ),
    Family(
        name="box2d",
        module="gymnasium.envs.box2d",
        codec=None,
        approximate=f"{_HERE}.box2d:KinematicPart",
        playback=f"{_HERE}.box2d:playback",
        building=f"{_HERE}.box2d:quiet_import",
        extra="box2d",
        headless=_PYGAME,
    ),
    Family(
        name="dm_control",
        module=f"{_HERE}.dm_control",
        codec=f"{_HERE}.dm_control:DMControlPart",
        names=("dm_control/*",),
        resolve=f"{_HERE}.dm_control:resolve",
    ),
    Family(
        name="highway",
        module="highway_env",
        codec=f"{_HERE}.other_packages:highway_part",
        names=_HIGHWAY,
        resolve=f"{_HERE}.other_packages:highway_spec",
        extra="highway",
        headless=_PYGAME,
    ),
    Family(
        name="mario",
        module="nes_py",
        codec=None,
        deterministic=True,
        names=("SuperMarioBros*",),
        resolve=f"{_HERE}.other_packages:mario_spec",
    ),
    Family(
        name="minigrid",
        module="minigrid",
        codec=None,
        names=("MiniGrid-*", "BabyAI-*"),
        resolve=f"{_HERE}.other_packages:minigrid_spec",
        extra="minigrid",
        headless=_PYGAME,
    ),
    Family(
        name="pettingzoo",
        module=f"{_HERE}.pettingzoo",
        codec=f"{_HERE}.pettingzoo:agents_part",
        names=("pettingzoo/*",),
        resolve=f"{_HERE}.pettingzoo:resolve",
        # Of `AgentsEnv`, and of PettingZoo's wrappers and converters.
        hosts=("env", "aec_env", "par_env"),
        extra="pettingzoo",
        headless=_PYGAME,
    ),
    Family(
        name="retro",
        module="stable_retro",
        codec=f"{_HERE}.retro:RetroPart",
        names=("retro/*",),
        resolve=f"{_HERE}.retro:resolve",
    ),
    Family(
        name="mujoco",
        module="gymnasium.envs.mujoco",
        codec=f"{_HERE}.mujoco:MujocoPart",
        building=f"{_HERE}.mujoco:quiet_compiler",
        native=_TASKS,
        extra="mujoco",
        headless=_EGL,
    ),
    Family(
        name="mujoco_task",
        module=f"{_HERE}.mujoco_tasks.task_env",
        codec=f"{_HERE}.mujoco_tasks.task_env:task_part",
        building=f"{_HERE}.mujoco:quiet_compiler",
        native=_TASKS,
        extra="mujoco",
        headless=_EGL,
    ),
    Family(
        name="toy_text",
        module="gymnasium.envs.toy_text",
        codec=f"{_HERE}.toy_text:toy_text_part",
        native=_KERNELS,
        extra="classic",
        headless=_PYGAME,
    ),
    # The library's own: Sokoban, NarrowPath, ChainMDP, TMaze, LineGame, 2048, which offer their
    # state themselves, and others that hide a part of what a simulator above shows.
    Family(
        name="own",
        module=_HERE,
        codec=None,
        names=("plangym_ext/*",),
        resolve="plangym_ext.ids:spec",
        native=_KERNELS,
    ),
):
    register_family(_family, builtin=True)

for _held, _memory in (("MjModel", "ModelMemory"), ("MjData", "DataMemory")):
    register_simulator("mujoco._structs", _held, f"{_HERE}.mujoco_memory:{_memory}")

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
