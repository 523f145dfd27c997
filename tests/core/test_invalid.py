"""Rewards and observations that are not a number: refused, marked, or let be."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import InvalidObservation, UnknownName
from plangym_ext.workers.parallel_env import ParallelEnv

FINE, NAN, INF_FREE, INF_BOUND, NAN_REWARD, NAN_AND_ODD, INF_REWARD, SHAPE, DTYPE = range(9)
FAR, COUNT = range(9, 11)  # finite numbers out of bounds
INVALID = {NAN, INF_BOUND, NAN_REWARD, NAN_AND_ODD}


class Wild(gym.Env):
    """Returns what the action asks for."""

    observation_space = spaces.Dict(
        {
            "free": spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
            "bound": spaces.Box(np.array([-1, -np.inf]), np.array([1, 1]), (2,), np.float64),
            "count": spaces.Discrete(5),
        }
    )
    action_space = spaces.Discrete(11)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._obs(), {"lives": 3}

    def _obs(self):
        return {"free": np.zeros((2, 2), np.float32), "bound": np.zeros(2), "count": 1}

    def step(self, action):
        obs, info = self._obs(), {"lives": 3}
        if action in (NAN, NAN_AND_ODD):
            obs["free"][1, 0] = np.nan
        if action == INF_FREE:
            obs["free"][:] = [np.inf, -np.inf]
            obs["bound"][1] = -np.inf
        if action == INF_BOUND:
            obs["bound"][:] = -np.inf
        if action == FAR:
            obs["bound"][1] = 1.5
        if action == COUNT:
            obs["count"] = 5
        if action == SHAPE:
            obs["free"] = np.zeros(3, np.float32)
        if action == DTYPE:
            obs["bound"] = np.zeros(2, complex)
        if action == NAN_AND_ODD:
            info["odd"] = 1.0
        reward = {NAN_REWARD: np.nan, INF_REWARD: np.inf}.get(action, 1.0)
        return obs, reward, False, False, info

    def get_state(self):
        return 0

    def set_state(self, state):
        pass


class Marked(Wild):
    """Has an info field of the name that marks have."""

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"invalid": 3}


@pytest.fixture(params=["serial", pytest.param("process", marks=pytest.mark.slow)])
def made(request):
    """Function that makes an env of a policy, and a state."""
    envs = []

    def make(**settings):
        if request.param == "serial":
            env = GymEnv(Wild, name="Wild", **settings)
        else:
            env = ParallelEnv(lambda name: Wild(), "Wild", n_workers=2, **settings)
        envs.append(env)
        return env, env.reset(seed=0)[0]

    yield make
    for env in envs:
        env.close()


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (NAN, r"Wild: observation\['free'\]: .*Box.*got nan at index \(1, 0\)"),
        (INF_BOUND, r"Wild: observation\['bound'\]: .*Box.*got -inf at index \(0,\)"),
        (NAN_REWARD, r"Wild: reward: expected a number; got nan"),
    ],
)
def test_refused_unless_asked_otherwise(made, action, match):
    env, state = made()
    actions = np.array([FINE, INF_FREE, action, FINE, action])
    with pytest.raises(InvalidObservation, match=match) as caught:
        env.step_batch(actions, np.stack([state] * 5))
    (note,) = caught.value.__notes__
    # Workers may meet the second one first.
    assert any(f"row {row}, action [{action}]" in note for row in (2, 4))
    actions[[2, 4]] = INF_REWARD  # and the env can be used on
    rewards = env.step_batch(actions, np.stack([state] * 5)).rewards
    assert rewards.tolist() == [1, 1, np.inf, 1, np.inf]


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (FAR, r"Wild: observation\['bound'\]: .*Box.*got 1\.5 at index \(1,\).*invalid='raise'"),
        (COUNT, r"Wild: observation\['count'\]: .*Discrete\(5\); got 5 at index \(\)"),
    ],
)
def test_finite_numbers_out_of_bounds_are_refused_on_demand(made, action, match):
    actions = np.array([FINE, INF_FREE, action])
    env, state = made(invalid="strict")
    with pytest.raises(InvalidObservation, match=match) as caught:
        env.step_batch(actions, np.stack([state] * 3))
    assert f"row 2, action [{action}]" in caught.value.__notes__[0]
    for refused in sorted(INVALID):
        with pytest.raises(InvalidObservation):
            env.step_batch(np.array([refused]), state[None])
    assert env.step_batch(actions[:2], np.stack([state] * 2)).rewards.tolist() == [1.0] * 2


@pytest.mark.parametrize("policy", ["raise", "mark", "off"])
def test_finite_numbers_out_of_bounds_pass_unless_asked_otherwise(policy):
    with GymEnv(Wild, invalid=policy) as env:
        states = np.stack([env.reset(seed=0)[0]] * 3)
        found = env.step_batch(np.array([FINE, FAR]), states[:2])
        assert found.obs["bound"][1].tolist() == [0, 1.5]
        # Of a Discrete space there are no numbers beside.
        if policy == "raise":
            with pytest.raises(InvalidObservation, match=r"\['count'\].*Discrete\(5\); got 5"):
                env.step_batch(np.array([FINE, FAR, COUNT]), states)
            return
        found = env.step_batch(np.array([FINE, FAR, COUNT]), states)
    assert found.obs["count"].tolist() == [1, 1, 5]
    if policy == "mark":
        assert found.infos["invalid"].tolist() == [False, False, True]


def test_reward_within_a_rollout_is_looked_at(made):
    env, state = made()
    actions = np.array([[FINE, FINE, FINE], [FINE, NAN_REWARD, FINE]])
    with pytest.raises(InvalidObservation, match="reward"):
        env.rollout_batch(actions, np.stack([state] * 2))


@pytest.mark.parametrize("policy", ["raise", "mark", "off"])
@pytest.mark.parametrize(
    ("action", "match"),
    [
        (SHAPE, r"observation\['free'\]: expected \(2, 2\) float32.*got \(3,\)"),
        (DTYPE, r"observation\['bound'\]: expected \(2,\) float64.*got \(2,\) complex128"),
    ],
)
def test_what_has_no_place_in_the_space_is_refused_by_every_policy(made, policy, action, match):
    env, state = made(invalid=policy)
    with pytest.raises(InvalidObservation, match=match) as caught:
        env.step_batch(np.array([FINE, FINE, action]), np.stack([state] * 3))
    assert f"row 2, action [{action}]" in caught.value.__notes__[0]
    assert env.step_batch(np.array([FINE]), state[None]).rewards == [1.0]


@pytest.mark.parametrize("infos", ["numeric", "all"])
def test_marked_rows(made, infos):
    env, state = made(invalid="mark")
    actions = np.tile(np.arange(7), 3)
    result = env.step_batch(actions, np.stack([state] * len(actions)), infos=infos)
    wanted = [action in INVALID for action in actions]
    assert result.infos["invalid"].dtype == bool
    assert result.infos["invalid"].tolist() == wanted
    assert [info["invalid"] for info in result.infos] == wanted
    assert [info["lives"] for info in result.infos] == [3] * len(actions)
    assert np.isnan(result.rewards).tolist() == [action == NAN_REWARD for action in actions]
    again = env.step_batch(np.zeros_like(actions), np.stack([state] * len(actions)))
    assert not again.infos["invalid"].any()


def test_let_be(made):
    env, state = made(invalid="off")
    result = env.step_batch(np.arange(7), np.stack([state] * 7))
    assert np.isnan(result.obs["free"][NAN, 1, 0])
    assert "invalid" not in result.infos.keys()  # noqa: SIM118 - no mapping


def test_make_takes_the_policy():
    with plangym_ext.make("CartPole-v1", invalid="mark") as env:
        state, *_ = env.reset(seed=0)
        assert env.step_batch([0], state[None]).infos["invalid"].tolist() == [False]
        with env.clone() as twin:
            assert "invalid" in twin.step_batch([0], state[None]).infos.keys()  # noqa: SIM118


def test_wrong_settings():
    known = "invalid must be one of raise, mark, off, strict; got 'mrak'"
    with pytest.raises(UnknownName, match=known):
        GymEnv(Wild, invalid="mrak")
    with pytest.raises(ValueError, match="info field 'invalid' of its own"):
        GymEnv(Marked, invalid="mark")
    GymEnv(Marked, invalid="off").close()


@pytest.mark.parametrize("options", [{"n_workers": 0}, {"n_workers": 1}], ids=str)
@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (gym.spaces.Discrete(5), 7),
        (gym.spaces.Discrete(5, start=1), 0),
        (gym.spaces.MultiDiscrete([3, 2]), np.array([1, 2])),
        (gym.spaces.MultiBinary(2), np.array([0, 2], np.int8)),
    ],
    ids=str,
)
def test_elements_that_a_discrete_space_does_not_have_are_refused(space, wrong, options):
    class Counts(gym.Env):
        observation_space = space
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return space.sample(), {}

        def step(self, action):
            self.t += 1
            return wrong if action else space.sample() * 0 + 1, 0.0, False, False, {}

    with plangym_ext.make(Counts, check=False, **options) as env:
        state, *_ = env.reset(seed=0)
        env.step_batch([0, 0], np.stack([state, state]))
        with pytest.raises(InvalidObservation, match="within the bounds of"):
            env.step_batch([0, 1], np.stack([state, state]))
    with plangym_ext.make_vec(Counts, 2, capture="off", **options) as venv:
        venv.reset(seed=0)
        with pytest.raises(InvalidObservation, match=r"sub-env 1: .*within the bounds of"):
            venv.step(np.array([0, 1]))
