"""Arguments that a call's own annotations refuse, by name, before the call reads them."""

from __future__ import annotations

import types

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
import plangym_ext.envs
from plangym_ext import learn, planners
from plangym_ext.compat.plangym.videogames import MarioEnv
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import NoSuchFile, PlangymExtError, UnknownOption
from plangym_ext.explore.archive import Archive
from plangym_ext.run import Runner, Trained
from plangym_ext.run.viewer import frame_grid

BOX, TWO = gym.spaces.Box(0, 1, (3,)), gym.spaces.Discrete(2)
CALLS = {
    "envs": plangym_ext.BatchEnv,
    "backend": lambda backend: plangym_ext.PlanVectorEnv(backend, 2),
    "env": plangym_ext.KernelEnv,
    "kernel": lambda kernel: plangym_ext.RulesEnv(kernel, BOX, TWO),
    "venv": plangym_ext.check_vector_env,
    "states": lambda states: plangym_ext.StateSet(states, np.zeros((2, 3))),
    "dtype": lambda dtype: plangym_ext.Array((2,), dtype=dtype),
    "planner": planners.options_of,
    "env ": lambda env: planners.tuned_options(env, "mcts"),
    "tree": lambda tree: planners.write_tree("never_written.npz", tree),
    "fragments": learn.joined,
    "network": learn.LatentModel,
    "network ": learn.EnsembleModel,
    "network  ": learn.OfLatents,
    "network   ": learn.NetworkEvaluator,
    "network    ": lambda network: learn.model_planner(network, planners.MCTS),
    "network     ": lambda network: learn.load_network_state(network, {}),
    "networks": learn.UnionNetwork,
    "config": lambda config: learn.AgentNetwork(BOX, TWO, config),
    "rngs": learn.GeneratorNoise,
    "shape": learn.TorchNoise,
    "rows": lambda rows: learn.RowNoise(0, rows),
    "seed": lambda seed: learn.RowNoise(seed, [0]),
    "num_rows": learn.log_spaced,
    "agent_info": lambda tree: learn.rollout_of(tree, None),
    "planner ": lambda planner: learn.PlannerAgent(planner, None),
    "model": lambda model: learn.PlannerAgent(planners.MCTS(), model),
    "teams": lambda teams: learn.TeamsNetwork(teams, {}),
    "agent": lambda agents: learn.TeamsAgent(learn.TeamsNetwork({}, {}), agents),
    "space": lambda space: learn.ObservationNormalizer(space, 5.0),
    "paths": lambda paths: Archive(paths, np.dtype(int), 1, 8),
    "config ": lambda config: Runner(config, "never_made"),
    "checkpoint": Trained,
    "frame": frame_grid,
    "env  ": plangym_ext.envs.Trials,
    "env   ": plangym_ext.envs.ActionNoise,
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_another_kind_are_refused_by_name(name):
    for value in [None, -1, object(), [[1, 2], [3]], {"x": 1}, lambda: 1]:
        if name == "dtype" and value is None:  # numpy's float64
            continue
        with pytest.raises(PlangymExtError, match=name.strip()):
            CALLS[name](value)


def test_arguments_that_there_are_not_are_told_with_a_close_one():
    for name in ("OctomazeEnv", "HanoiEnv", "Slide2048Env", "SokobanEnv", "StateCaching"):
        with pytest.raises(UnknownOption, match=f"{name} got an unexpected keyword .*'nonsense'"):
            getattr(plangym_ext.envs, name)(nonsense=3)
    with pytest.raises(UnknownOption, match=r"'framskip'.*did you mean 'frameskip'"):
        GymEnv(gym.Env, framskip=2)
    with pytest.raises(UnknownOption, match="'state'"):
        GymEnv(gym.Env, state="off")


def test_arrays_texts_and_unions_are_what_they_say():
    @checking_arguments
    def call(a: list[int] | np.ndarray | None = None, b: type[gym.Env] | str = "x", *c: int):
        return a, b, c

    assert call([1], gym.Env, "any") == ([1], gym.Env, ("any",))
    assert call() == (None, "x", ())
    call(np.zeros(2))
    for given in ({"a": "ab"}, {"a": np.array(["x"])}, {"b": int}, {"b": 3}):
        with pytest.raises(PlangymExtError, match=f"call: {next(iter(given))}: expected"):
            call(**given)


def test_envs_of_a_batch_may_come_one_by_one():
    envs = (plangym_ext.ExternalProcess(lambda: gym.make("CartPole-v1")) for _ in range(2))
    with plangym_ext.BatchEnv(envs) as batch:
        assert len(batch) == 2


def test_arguments_that_say_nothing_of_themselves_are_not_checked():
    @checking_arguments
    def call(end, length: Unheard = 2):  # noqa: F821 - for type checkers
        return end, length

    assert call(3.0, "x") == (3.0, "x")


def test_a_tree_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(NoSuchFile, match="read_tree: there is no file"):
        planners.read_tree(tmp_path / "none.npz")


def test_lives_of_mario_are_read_and_end_below_none():
    memory = np.zeros(2048, np.uint8)

    class Mario(MarioEnv):
        gym_env = types.SimpleNamespace(unwrapped=types.SimpleNamespace(ram=memory))

    env, lives = object.__new__(Mario), []
    for memory[0x075A] in (2, 0, 255):
        lives.append(env.get_lifes())
    assert lives == [2, 0, -1]
