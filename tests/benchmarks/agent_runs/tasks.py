"""What is learned, with which settings, and what is to be reached."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from plangym_ext.run.settings.compose import compose
from plangym_ext.run.settings.config import RunConfig

#: Of all cells: episodes apart from training are played once, at the end, as well as it can.
_PLAIN = {"evaluation": {"every": 0, "sample": False, "stop_at": None}, "checkpoint_every": 0}
#: CleanRL's `ppo.py`; it halves the squared error of values.
_CLEANRL = {
    "collector": {"num_envs": 4, "moves": 128},
    "algorithm": {
        "learning_rate": {"start": 2.5e-4, "end": 0.0, "over": 976 * 16},
        "discount": 0.99,
        "gae_lambda": 0.95,
        "epochs": 4,
        "batch_size": 128,
        "clip": 0.2,
        "value_clip": 0.2,
        "value_weight": 0.25,
        "entropy_weight": 0.01,
    },
}
#: The defaults of Stable-Baselines3's PPO.
_SB3_PPO = {
    "learning_rate": 3e-4,
    "discount": 0.99,
    "gae_lambda": 0.95,
    "epochs": 10,
    "batch_size": 64,
}
#: CleanRL's `c51.py`, for returns of CartPole and Acrobot.
_C51 = {
    "agent": {"returns": "atoms", "atoms": 101, "return_range": [-100.0, 100.0]},
    "algorithm": {"name": "c51", "epsilon": 0.01 / 128},
}
#: As there, with as many quantiles as are usual for small tasks, and four times the learning
#: rate: errors of quantiles count by their sign alone, so that large ones are learned slowly.
_QR_DQN = {
    "agent": {"returns": "quantiles", "atoms": 51},
    "algorithm": {"name": "qr_dqn", "epsilon": 0.01 / 128, "learning_rate": 1e-3},
}
#: The same with returns over three steps.
_THREE_STEPS = {**_QR_DQN, "algorithm": {**_QR_DQN["algorithm"], "n_steps": 3}}
_ACROBOT = {"env": {"id": "Acrobot-v1"}}
#: Double DQN, at twice the learning rate.
_DOUBLE = {**_ACROBOT, "algorithm": {"double": True, "learning_rate": 5e-4}}
#: Of SAC and TD3.
_BFLOAT16 = {"algorithm": {"precision": "bfloat16"}}
#: Schedules of a run of a million steps, of which two hours are the beginning.
_DQN_PONG = {"algorithm": {"exploration": {"start": 1.0, "end": 0.01, "over": 100_000}}}
_RAINBOW_PONG = {"algorithm": {"beta": {"start": 0.4, "end": 1.0, "over": 250_000}}}
#: 10,000 updates, with a target and a rate that are for as few; the replay holds all steps.
_CATCH: dict[str, Any] = {
    "env": {"id": "agent_runs.catch:Catch-v0", "max_steps": 1000, "n_workers": 0},
    "agent": {"kind": "nature", "hidden": [512]},
    "algorithm": {
        "capacity": 40_000,
        "learning_starts": 2_000,
        "learning_rate": 1e-4,
        "batch_size": 32,
        "updates_per_step": 0.25,
        "target_every": 250,
        "exploration": {"start": 1.0, "end": 0.02, "over": 10_000},
    },
    "collector": {"num_envs": 4, "moves": 8},
    "threads": 1,
}
_RAINBOW_CATCH: dict[str, Any] = {
    **_CATCH,
    "agent": {**_CATCH["agent"], "returns": "atoms", "dueling": True, "noisy": True},
    "algorithm": {
        **_CATCH["algorithm"],
        "name": "rainbow",
        "beta": {"start": 0.4, "end": 1.0, "over": 10_000},
        "epsilon": 1e-6,
    },
}
_PAPER_CATCH = {
    **_RAINBOW_CATCH,
    "algorithm": {**_RAINBOW_CATCH["algorithm"], "epsilon": 1.5e-4},
}
#: What explores are random actions alone: of as few updates, noise undoes much.
_QUIET_CATCH = {**_RAINBOW_CATCH, "agent": {**_RAINBOW_CATCH["agent"], "noisy": False}}
_T_MAZE = {"env": {"id": "plangym_ext/TMaze-v0", "kwargs": {"n": 20}, "max_steps": 200}}


@dataclass(frozen=True)
class Task:
    """One env, algorithm and settings; Stable-Baselines3 gets the same.

    Args:
        preset: of `plangym-ext train`.
        steps: of all envs together; whole rounds of them are played.
        changed: settings that differ from the preset's.
        aim: mean return that is to be reached.
        spread: deviation of the runs that the aim is the mean of, where it was published.
        aim_in: in the last tenth of "training", or in the "evaluation" after it.
        source: of the aim and the settings.
        sb3: whether Stable-Baselines3 can be run with the same settings.
        more: peers that are run, too, for their speed.
        has_curve: whether returns are kept and shown from the first steps on.
    """

    preset: str
    steps: int
    changed: Mapping[str, Any] = field(default_factory=dict)
    aim: float | None = None
    spread: float | None = None
    aim_in: str = "evaluation"
    source: str = ""
    sb3: bool = True
    more: tuple[str, ...] = ()
    has_curve: bool = False

    def config(self, seed: int) -> RunConfig:
        """Return the settings of one run."""
        config = compose([self.preset, self.changed, _PLAIN, {"seed": seed}])
        return dataclasses.replace(config, rounds=max(1, self.steps // config.steps_per_round))

    @property
    def who(self) -> tuple[str, ...]:
        """Who learns it."""
        return ("ours", *["sb3"] * self.sb3, *self.more)


def _small_from_replay() -> Iterator[tuple[str, Task]]:
    """Yield DQN, C51 and QR-DQN on CartPole and Acrobot, with CleanRL's settings and aims.

    QR-DQN, which CleanRL has not, is to come to what its C51 does.
    """
    of_dqn, of_c51 = ((488.7, 16.1), (-91.5, 7.2)), ((481.0, 21.0), (-87.7, 5.5))
    for name, more, changed, (cartpole, acrobot) in (
        ("dqn", "", {}, of_dqn),
        ("c51", "", _C51, of_c51),
        ("qr_dqn", "", _QR_DQN, of_c51),
        ("qr_dqn", ", 3 steps", _THREE_STEPS, of_c51),
    ):
        rest = {"aim_in": "training", "sb3": name == "dqn"}
        source = "CleanRL" if name != "qr_dqn" else "CleanRL's C51"
        task = Task("dqn_cartpole", 500_000, changed, *cartpole, source=source, **rest)
        yield "dqn_cartpole" if name == "dqn" else f"{name} CartPole{more}", task
        changed = {**changed, **_ACROBOT}
        task = Task("dqn_cartpole", 500_000, changed, *acrobot, source=source, **rest)
        yield f"{name} Acrobot{more}", task


def _mujoco_from_replay() -> Iterator[tuple[str, Task]]:
    """Yield SAC and TD3, with the settings of their papers, as far as some time allows."""
    for name in ("sac", "td3"):
        preset = f"{name}_halfcheetah"
        for env in ("HalfCheetah", "Hopper"):
            for thousands in (100, 300):
                changed = {"env": {"id": f"{env}-v5"}}
                yield f"{name} {env}, {thousands}k", Task(preset, thousands * 1000, changed)
        # Beside the same in float32.
        yield f"{name} HalfCheetah, 100k, bfloat16", Task(preset, 100_000, _BFLOAT16, sb3=False)
        preset = f"{name}_pendulum"
        yield f"{preset}, bfloat16", Task(preset, 20_000, _BFLOAT16, sb3=False)


def _games_from_replay() -> Iterator[tuple[str, Task]]:
    """Yield Pong, with as many steps as there was time for.

    Two hours on one processor of two that were busy gave DQN its 394,048 steps; half an hour on
    a GPU gave it a million, and Rainbow 650,000. CleanRL's DQN explores in the first tenth of a
    run of ten million steps; ours in that of a million, of which these are the beginning.
    """
    rest = {
        "aim": 20.3,
        "spread": 0.4,
        "aim_in": "training",
        "source": "CleanRL's DQN after 10M steps",
        "has_curve": True,
    }
    for name, preset, changed, steps in (
        ("dqn Pong", "dqn_atari", _DQN_PONG, 394_048),
        ("dqn Pong, 1M", "dqn_atari", _DQN_PONG, 1_000_000),
        ("rainbow Pong", "rainbow_atari", _RAINBOW_PONG, 650_000),
    ):
        changed = {**changed, "threads": 1}
        yield name, Task(preset, steps, changed, sb3=preset == "dqn_atari", **rest)


def _catch_from_replay() -> Iterator[tuple[str, Task]]:
    """Yield a game on small screens; with Rainbow, what the epsilon of its optimiser does."""
    rest = {"aim": 10.0, "source": "the most there is", "sb3": False, "has_curve": True}
    for name, changed in (
        ("dqn Catch", _CATCH),
        ("rainbow Catch", _RAINBOW_CATCH),
        ("rainbow Catch, without noise", _QUIET_CATCH),
        ("rainbow Catch, the paper's epsilon", _PAPER_CATCH),
    ):
        yield name, Task("dqn_cartpole", 40_000, changed, **rest)


LEARNING: Mapping[str, Task] = {
    "ppo_cartpole": Task("ppo_cartpole", 102_400, aim=500.0, source="rl-zoo3"),
    "a2c_cartpole": Task("a2c_cartpole", 500_000, aim=500.0, source="rl-zoo3"),
    "ppo CartPole, CleanRL": Task(
        "ppo_cartpole",
        500_000,
        changed=_CLEANRL,
        aim=490.0,
        spread=6.1,
        aim_in="training",
        source="CleanRL, ppo.py",
    ),
    "ppo Acrobot, CleanRL": Task(
        "ppo_cartpole",
        500_000,
        changed={"env": {"id": "Acrobot-v1"}, **_CLEANRL},
        aim=-86.4,
        spread=1.3,
        aim_in="training",
        source="CleanRL, ppo.py",
    ),
    # The beginning of the preset's ten million steps.
    "ppo Pong": Task(
        "ppo_atari",
        2_000_000,
        changed={"env": {"n_workers": 2}},
        aim=20.4,
        spread=0.2,
        aim_in="training",
        source="CleanRL's PPO after 10M steps",
        sb3=False,
        has_curve=True,
    ),
    "a2c Acrobot": Task(
        "a2c_cartpole", 500_000, changed={"env": {"id": "Acrobot-v1"}}, source="no other"
    ),
    "pqn_cartpole": Task(
        "pqn_cartpole",
        500_000,
        aim=495.1,
        spread=6.9,
        aim_in="training",
        source="CleanRL",
        sb3=False,
    ),
    **dict(_small_from_replay()),
    "dqn Acrobot, double": Task(
        "dqn_cartpole",
        500_000,
        changed=_DOUBLE,
        aim=-91.5,
        spread=7.2,
        aim_in="training",
        source="CleanRL",
        sb3=False,
    ),
    "dqn_lunarlander": Task("dqn_lunarlander", 100_000, aim=154.0, source="rl-zoo3"),
    "sac_pendulum": Task("sac_pendulum", 20_000),
    "td3_pendulum": Task("td3_pendulum", 20_000),
    "ddpg_pendulum": Task("ddpg_pendulum", 20_000),
    **dict(_mujoco_from_replay()),
    **dict(_catch_from_replay()),
    **dict(_games_from_replay()),
    "sac_halfcheetah": Task(
        "sac_halfcheetah",
        1_000_000,
        aim=10_796.0,
        source="SB3 2.7.1, 5 seeds, rlox's tables",
        sb3=False,
    ),
    "ppo_lunarlander": Task("ppo_lunarlander", 1_000_000, aim=242.0, source="rl-zoo3"),
    "ppo_halfcheetah": Task("ppo_halfcheetah", 1_000_000, aim=5784.0, source="Tianshou", sb3=False),
    "ppo HalfCheetah, Tianshou": Task(
        "ppo_halfcheetah",
        1_000_000,
        changed={"agent": {"initial_log_std": -0.5}},
        aim=5784.0,
        source="Tianshou",
    ),
    "ppo_hopper": Task("ppo_hopper", 1_000_000, aim=2609.0, source="Tianshou"),
    "ppo Walker2d": Task(
        "ppo_hopper",
        1_000_000,
        changed={"env": {"id": "Walker2d-v5"}},
        aim=3589.0,
        source="Tianshou",
    ),
    "recurrent_ppo_cartpole_no_velocity": Task(
        "recurrent_ppo_cartpole_no_velocity", 102_400, aim=500.0, source="rl-zoo3", sb3=False
    ),
    "r2d1_cartpole_no_velocity": Task(
        "r2d1_cartpole_no_velocity", 102_400, aim=500.0, source="the most there is", sb3=False
    ),
    "r2d1 TMaze": Task(
        "r2d1_cartpole_no_velocity",
        51_200,
        changed=_T_MAZE,
        aim=4.0,
        source="the most there is",
        sb3=False,
    ),
    "dqn TMaze, without memory": Task(
        "dqn_cartpole",
        51_200,
        changed={
            **_T_MAZE,
            "collector": {"num_envs": 16, "moves": 16},
            "algorithm": {
                "learning_rate": 1e-3,
                "learning_starts": 2_000,
                "updates_per_step": 0.0625,
                "target_every": 100,
                "exploration": {"start": 1.0, "end": 0.05, "over": 20_000},
            },
        },
        aim=1.95,
        source="the most without memory",
        sb3=False,
    ),
    "recurrent_ppo_pendulum_no_velocity": Task(
        "recurrent_ppo_pendulum_no_velocity", 100_352, aim=-218.0, source="rl-zoo3", sb3=False
    ),
}
#: Short runs with equal settings: seconds from the making of the envs to the end.
SPEED: Mapping[str, Task] = {
    "speed: ppo CartPole x8": Task(
        "ppo_cartpole",
        40_960,
        changed={"collector": {"num_envs": 8, "moves": 256}, "algorithm": _SB3_PPO},
        aim=3.0,
        more=("sbx",),
    ),
    "speed: ppo CartPole x64": Task(
        "ppo_cartpole",
        40_960,
        changed={"collector": {"num_envs": 64, "moves": 32}, "algorithm": _SB3_PPO},
        aim=3.0,
        more=("sbx", "sf"),
    ),
    "speed: ppo HalfCheetah x64": Task(
        "ppo_halfcheetah",
        20_480,
        changed={"algorithm": {"learning_rate": 3e-4}},
        aim=2.0,
        more=("sbx",),
    ),
    "speed: ppo Pong x8": Task(
        "ppo_atari", 10_240, changed={"algorithm": {"learning_rate": 2.5e-4}}, aim=1.5
    ),
    "speed: a2c CartPole x8": Task(
        "a2c_cartpole", 80_000, changed={"algorithm": {"learning_rate": 7e-4}}, aim=3.0
    ),
    "speed: dqn CartPole x1, an update a step": Task(
        "dqn_cartpole",
        20_000,
        changed={
            "collector": {"num_envs": 1, "moves": 16},
            "algorithm": {"updates_per_step": 1.0, "learning_starts": 1_000, "batch_size": 64},
        },
        aim=3.0,
    ),
}
TASKS: Mapping[str, Task] = {**LEARNING, **SPEED}
