"""Arguments of public calls that cannot be: typed errors that name the argument."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.envs import SokobanEnv
from plangym_ext.errors import PlangymExtError
from plangym_ext.explore import GoExplore
from plangym_ext.explore.cells import InfoCells, cells_named
from plangym_ext.explore.playing import demonstration, verify
from plangym_ext.learn import BackwardStarts, StoredStarts, UnsureStarts, make_network, returns
from plangym_ext.planners import CEM, MCTS
from plangym_ext.planners.registry import load_planner
from plangym_ext.run import compose
from plangym_ext.workers.parallel_env import ParallelEnv

ODD = [None, -1, "x", b"x", 1j, {}, object(), lambda: 1, [[1, 2], [3]], np.zeros((2, 3, 4))]
STEPS, FLAGS = np.ones((4, 2)), np.zeros((4, 2), bool)


@pytest.fixture(scope="module")
def env():
    with plangym_ext.make("CartPole-v1", backend="kernel") as env:
        env.reset(seed=0)
        yield env


def refused(call, name, value):
    """Return whether an argument is refused by a typed error that names it."""
    try:
        call(**{name: value})
    except PlangymExtError as error:
        return name.rstrip("s") in str(error)
    return False


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_arguments_of_batches_are_refused_by_name(env, value):
    states, actions = env.get_state()[None], [0]
    assert refused(lambda dt: env.step_batch(actions, states, dt), "dt", value)
    if value is not None:
        assert refused(lambda states: env.step_batch(actions, states), "states", value)
    assert refused(env.set_state, "state", value)
    assert refused(env.sync_states, "state", value)
    if value is not None:  # any seed
        assert refused(env.reset, "seed", value)


@pytest.mark.parametrize("value", [*ODD, True], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["backend", "capture", "audit", "check", "n_workers"])
def test_options_of_make_are_refused_by_name(name, value):
    if (name == "check" and isinstance(value, bool)) or (name == "n_workers" and value is None):
        return
    assert refused(lambda **given: plangym_ext.make("CartPole-v1", **given).close(), name, value)


@pytest.mark.parametrize("value", [10**400, -(16**6000)], ids=["large", "long"])
def test_numbers_beyond_those_of_the_machine_are_refused_by_name(env, value):
    calls = {
        "timeout": lambda timeout: plangym_ext.make("CartPole-v1", n_workers=1, timeout=timeout),
        "num_envs": lambda num_envs: plangym_ext.make_vec("CartPole-v1", num_envs),
        "discount": lambda discount: MCTS(discount=discount),
        "n_workers": lambda n_workers: plangym_ext.make("CartPole-v1", n_workers=-abs(n_workers)),
    }
    for name, call in calls.items():
        assert refused(call, name, value), name
    # A sequence holds its action all the way.
    if value > 0:
        assert CEM(action_repeat=value).action_repeat == value


@pytest.mark.parametrize("value", [None, 5, b"x", [1]], ids=repr)
def test_files_and_envs_of_states_are_refused_by_name(env, value, tmp_path):
    state = env.get_state()
    assert refused(lambda path: plangym_ext.save_states(path, state, env), "path", value)
    assert refused(lambda path: plangym_ext.load_states(path, env), "path", value)
    assert refused(lambda env: plangym_ext.save_states(tmp_path / "s", state, env), "env", value)
    assert refused(plangym_ext.check_env, "env", value)


@pytest.mark.parametrize("value", ODD[2:9], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["reward", "value", "bootstrap", "log_ratio", "ratio_clip"])
def test_arguments_of_returns_are_refused_by_name(name, value):
    given = {
        "reward": STEPS,
        "value": STEPS,
        "terminated": FLAGS,
        "discount": 0.9,
        "log_ratio": STEPS,
    }
    assert refused(lambda **changed: returns.vtrace(**{**given, **changed}), name, value)


def test_returns_of_branches_have_one_shape_and_another_branch():
    with pytest.raises(PlangymExtError, match=r"length and rest.*\(4, 2\), \(1,\) and \(2,\)"):
        returns.branch_returns(STEPS, [4], [0.0, 0.0], discount=0.9)
    with pytest.raises(PlangymExtError, match=r"k >= 2 branches; got \(3, 1\)"):
        returns.forked_advantages(np.ones((3, 1)))


def test_masks_may_be_tensors():
    torch = pytest.importorskip("torch")

    class Masked(gym.Env):
        observation_space, action_space = gym.spaces.Box(0, 9, (1,)), gym.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(1, np.float32), {"action_mask": torch.tensor([True, False, True])}

        def step(self, action):
            assert action != 1
            self.t += 1
            info = {"action_mask": torch.tensor([True, False, True])}
            return np.full(1, self.t, np.float32), 0.0, False, self.t == 9, info

    with plangym_ext.make(Masked, n_workers=0) as env:
        assert env.tells_masks


class Refusing:
    """An object that numpy asks for an array, and that has none."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("there is none")


def containing_itself():
    found: list = []
    found.append(found)
    return found


class Joined(gym.Env):
    observation_space = gym.spaces.Box(0, 9, (1,))
    action_space = gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Box(-1, 1, (2,)))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


#: Of two sub-envs: of another shape, type or nesting, or none at all.
MALFORMED = [
    *(None, 1, 1.5, "ab", b"ab", {}, {"a": [0, 0]}, set(), object(), [], [None, None], ["a", "a"]),
    *([1, None], [[0], [1, 2]], [[[0]], [[0]]], [{}, {}], [object(), object()], [2**70, 0]),
    *(np.zeros((2, 3, 4)), np.zeros(3), np.zeros((2, 0)), np.zeros(2, complex), iter([0, 0])),
    *(np.array(["a", "a"]), np.array([None, None]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,i4")),
    *(Refusing(), [Refusing(), 0], containing_itself(), int, Ellipsis, {"a": 0, "b": None}),
    *({"a": [0, 0], "b": np.zeros((2, 3))}, {"a": [0, 0], "b": np.zeros((2, 2)), "c": [0, 0]}),
]


@pytest.fixture(
    scope="module",
    params=[
        *(("CartPole-v1", "kernel"), ("CartPole-v1", "serial"), ("CartPole-v1", "process")),
        *(("Pendulum-v1", "serial"), ("HalfCheetah-v5", "auto"), (Joined, "serial")),
    ],
    ids=lambda kind: f"{getattr(kind[0], '__name__', kind[0])}-{kind[1]}",
)
def venv(request):
    name, backend = request.param
    with plangym_ext.make_vec(
        name, 2, backend=backend, n_workers=1 if backend == "process" else None
    ) as venv:
        yield venv


def test_malformed_actions_of_vector_envs_are_refused_by_name(venv):
    venv.reset(seed=0)
    for value in MALFORMED:
        assert refused(venv.step, "actions", value), repr(value)
        assert refused(venv.step_async, "actions", value), repr(value)
    venv.step(venv.action_space.sample())  # as if they had not been


def test_other_arguments_of_vector_envs_are_refused_by_name(venv):
    venv.reset(seed=0)
    actions = venv.action_space.sample()
    for value in [5, "x", [[0], [1, 2]], [0, 0], [7], [None], Refusing(), np.zeros((2, 2), int)]:
        assert refused(lambda env_ids: venv.step(actions, env_ids), "env_ids", value), repr(value)
        assert refused(lambda out: venv.step(actions, out=out), "out", value), repr(value)
        assert refused(venv.set_states, "states", value), repr(value)
    for value in [None, 5, [1], np.zeros(2), {}]:
        assert refused(venv.get_attr, "name", value), repr(value)


@pytest.mark.parametrize("value", [[], None, 0, 1, "no", "False", b"", {}, np.zeros(2)], ids=repr)
def test_flags_are_true_or_false(value, tmp_path):
    for name in ("trust", "autoreset", "ray"):
        assert refused(lambda **given: plangym_ext.make("CartPole-v1", **given), name, value)
    for name in ("trust", "copy"):
        assert refused(lambda **given: plangym_ext.make_vec("CartPole-v1", 2, **given), name, value)
    assert refused(lambda trust: GymEnv(Joined, trust=trust), "trust", value)
    assert refused(lambda trust: ParallelEnv(Joined, trust=trust), "trust", value)


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "call",
    [
        GoExplore,
        InfoCells,
        cells_named,
        demonstration,
        lambda explorer: verify(explorer, 0),
        StoredStarts,
        BackwardStarts,
        lambda states: UnsureStarts(states, len),
        load_planner,
        compose,
        lambda source: compose([source, 3]),
        lambda levels: SokobanEnv(levels=[levels]),
        lambda seed: make_network(gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2), seed=[seed]),
    ],
)
def test_what_is_no_object_of_the_library_is_refused_by_a_typed_error(call, value):
    with pytest.raises(PlangymExtError):
        call(value)


@pytest.mark.parametrize("value", [*ODD[1:], 1.5, np.nan], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "name", ["dim", "num_boxes", "levels", "level_order", "observation", "cell_pixels"]
)
def test_arguments_of_sokoban_are_refused_by_name(name, value):
    assert refused(SokobanEnv, name, value)


@pytest.mark.parametrize("name", ["step_reward", "box_reward", "solved_reward"])
@pytest.mark.parametrize("value", [None, "x", 1j, {}, [1.0], np.nan], ids=str)
def test_rewards_of_sokoban_are_numbers(name, value):
    assert refused(SokobanEnv, name, value)


class Returning(gym.Env):
    """Its reset and its rewards are what it is told."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, result, reward=1.0):
        self.result, self.reward = result, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.result

    def step(self, action):
        return np.zeros(2, np.float32), self.reward, False, False, {}


OBS = np.zeros(2, np.float32)


@pytest.mark.parametrize("result", [OBS, None, (OBS,), (OBS, 3), (OBS, {}, 3)], ids=str)
def test_a_reset_that_returns_no_pair_is_refused_by_name(result):
    calls = (
        lambda: plangym_ext.make(lambda: Returning(result), n_workers=0),
        lambda: GymEnv(lambda: Returning(result), check=False).reset(seed=0),
        lambda: plangym_ext.make_vec(lambda: Returning(result), 1).reset(seed=0),
    )
    for call in calls:
        with pytest.raises(PlangymExtError, match="Returning: reset must return"):
            call()


@pytest.mark.parametrize("reward", ["1", b"1", None])
def test_a_reward_that_is_a_text_is_refused(reward):
    venv = plangym_ext.make_vec(lambda: Returning((OBS, {}), reward), 1)
    venv.reset(seed=0)
    with venv, pytest.raises(PlangymExtError, match="reward: expected one number"):
        venv.step(np.zeros(1, int))
