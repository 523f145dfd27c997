"""Gymnasium ids of the library's own envs, such as `plangym_ext/Sokoban-v0`.

They are registered when this module is imported, which the package does once gymnasium is there:
the envs themselves are imported when one of them is made. `gymnasium.make` can also be told to:
`gymnasium.make("plangym_ext.ids:plangym_ext/Sokoban-v0")`.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

_SUITE = "plangym_ext.envs.mujoco_tasks.suite"
_GOALS = "plangym_ext.envs.mujoco_tasks.goals"
#: MuJoCo tasks with tasks to adapt to.
_GOAL_TASKS = (
    *("AntGoal", "HalfCheetahDirection", "HalfCheetahVelocity"),
    *("HopperParameters", "WalkerParameters"),
)
#: Class of each task of the Control Suite that there is here, by its name there.
_SUITE_TASKS = {
    "acrobot-swingup": f"{_SUITE}.tasks:AcrobotSwingup",
    "cheetah-run": f"{_SUITE}.tasks:CheetahRun",
    "dog-run": f"{_SUITE}.dog:DogRun",
    "hopper-hop": f"{_SUITE}.tasks:HopperHop",
    "humanoid-run": f"{_SUITE}.tasks:HumanoidRun",
    "walker-run": f"{_SUITE}.tasks:WalkerRun",
}
_ENTRY_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "plangym_ext/CartPoleNoVelocity-v0": (
        "plangym_ext.envs.no_velocity:cartpole",
        {"max_episode_steps": 500},
    ),
    "plangym_ext/2048-v0": ("plangym_ext.envs.rules.slide_2048:Slide2048Env", {}),
    # As many steps as there are bits suffice from anywhere.
    "plangym_ext/BitFlip-v0": (
        "plangym_ext.envs.rules.bit_flip:BitFlipEnv",
        {"max_episode_steps": 8},
    ),
    "plangym_ext/BinPacking-v0": ("plangym_ext.envs.rules.bin_packing:BinPackingEnv", {}),
    "plangym_ext/ChainMDP-v0": ("plangym_ext.envs.rules.chain_mdp:ChainMDPEnv", {}),
    "plangym_ext/ConnectFour-v0": (
        "plangym_ext.envs.rules.line_game:LineGameEnv",
        {"kwargs": {"rows": 6, "columns": 7, "length": 4, "gravity": True}},
    ),
    "plangym_ext/Go-v0": ("plangym_ext.envs.rules.go_game:GoGameEnv", {}),
    "plangym_ext/GridWorld-v0": (
        "plangym_ext.envs.rules.grid_world:GridWorldEnv",
        {"max_episode_steps": 500},
    ),
    "plangym_ext/Hanoi-v0": ("plangym_ext.envs.rules.hanoi:HanoiEnv", {"max_episode_steps": 200}),
    "plangym_ext/Hex-v0": ("plangym_ext.envs.rules.hex_game:HexGameEnv", {}),
    "plangym_ext/NarrowPath-v0": ("plangym_ext.envs.rules.narrow_path:NarrowPathEnv", {}),
    "plangym_ext/Octomaze-v0": (
        "plangym_ext.envs.rules.octomaze:OctomazeEnv",
        {"max_episode_steps": 100},
    ),
    "plangym_ext/PendulumNoVelocity-v0": (
        "plangym_ext.envs.no_velocity:pendulum",
        {"max_episode_steps": 200},
    ),
    # As many steps as in Rakelly et al. 2019.
    "plangym_ext/PointRobot-v0": (
        "plangym_ext.envs.rules.point_robot:PointRobotEnv",
        {"max_episode_steps": 20},
    ),
    "plangym_ext/RubiksCube-v0": (
        "plangym_ext.envs.rules.rubiks_cube:RubiksCubeEnv",
        {"max_episode_steps": 100},
    ),
    "plangym_ext/SimpleSpread-v0": ("plangym_ext.envs.rules.simple_spread:SimpleSpreadEnv", {}),
    # gym-sokoban gives a player 120 moves.
    "plangym_ext/Sokoban-v0": ("plangym_ext.envs.sokoban:SokobanEnv", {"max_episode_steps": 120}),
    "plangym_ext/TicTacToe-v0": ("plangym_ext.envs.rules.line_game:LineGameEnv", {}),
    "plangym_ext/TMaze-v0": ("plangym_ext.envs.rules.t_maze:TMazeEnv", {"max_episode_steps": 200}),
    "plangym_ext/Trials-v0": ("plangym_ext.envs.trials:Trials", {}),
    **{
        f"plangym_ext/{name}-v0": (
            "plangym_ext.envs.mujoco_tasks.task_env:TaskEnv",
            # So many in every task of the suite, whatever a step lasts.
            {"max_episode_steps": 1000, "kwargs": {"task": task}},
        )
        for name, task in _SUITE_TASKS.items()
    },
    **{
        f"plangym_ext/{name}-v0": (
            "plangym_ext.envs.mujoco_tasks.task_env:TaskEnv",
            # As many steps as in Rakelly et al. 2019.
            {"max_episode_steps": 200, "kwargs": {"task": f"{_GOALS}:{name}"}},
        )
        for name in _GOAL_TASKS
    },
}


def _register(env_id: str, entry_point: str | None, **settings: Any) -> None:
    # A second registration would warn, and replace what a user registered by that id.
    if env_id not in gym.registry:
        gym.register(env_id, entry_point, **settings)


for _id, (_entry_point, _settings) in _ENTRY_POINTS.items():
    _register(_id, _entry_point, **_settings)
_register(
    "plangym_ext/Vec-v0",
    None,
    vector_entry_point="plangym_ext.vector_registry:make_registered_vec",
)


def spec(name: str) -> Any:
    """Return the `EnvSpec` of one of the ids.

    Raises:
        UnknownName: it is none of them; the message has the closest one.
    """
    # Here, not above: it is for `plangym_ext.make`, and gymnasium's does without.
    from plangym_ext.states.families import registered_spec

    return registered_spec(name)
