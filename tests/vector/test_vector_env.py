"""The vector env beyond plain play: its contract, states, branches, faults, bad input."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import pickle
import signal

import gymnasium as gym
import numpy as np
import pytest
import toy_envs
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from same_results import assert_same

import plangym_ext
from plangym_ext.errors import (
    ForeignState,
    IncompleteState,
    InvalidAction,
    PlangymExtError,
    UnequalEnvs,
    WorkerDied,
    WrongKind,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*already returned term")
BACKENDS = {
    "serial": {"backend": "serial"},
    "two workers": {"n_workers": 2},
    "kernel": {"backend": "kernel"},
}
every_backend = pytest.mark.parametrize("options", BACKENDS.values(), ids=list(BACKENDS))
live_backends = pytest.mark.parametrize(
    "options", [BACKENDS["serial"], BACKENDS["two workers"]], ids=["serial", "two workers"]
)


def cart_pole(num_envs=4, **options):
    return plangym_ext.make_vec("CartPole-v1", num_envs, **options)


def some_actions(count, num_envs=4):
    return np.random.default_rng(0).integers(0, 2, (count, num_envs))


def play(venv, actions):
    return [venv.step(action) for action in actions]


# The contract -----------------------------------------------------------------------


@pytest.mark.slow
@every_backend
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_checker_finds_nothing_wrong(options, mode):
    with cart_pole(autoreset_mode=mode, **options) as venv:
        report = plangym_ext.check_vector_env(venv)
    assert report.ok, report


def test_is_a_direct_vector_env():
    # skrl asks for the names of the direct bases.
    bases = [base.__name__ for base in plangym_ext.PlanVectorEnv.__bases__]
    assert bases == ["VectorEnv"]


def test_metadata_belong_to_the_instance():
    with cart_pole(1) as first, cart_pole(1, autoreset_mode="disabled") as second:
        assert first.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
        assert second.metadata["autoreset_mode"] == AutoresetMode.DISABLED
        assert "autoreset_mode" not in gym.make("CartPole-v1").metadata
        assert "autoreset_mode" not in gym.vector.VectorEnv.metadata


@live_backends
def test_copies_unless_told_otherwise(options):
    with cart_pole(copy=True, **options) as venv:
        first, _ = venv.reset(seed=0)
        kept = first.copy()
        venv.step(np.zeros(4, int))
        assert (first == kept).all()
    with cart_pole(copy=False, **options) as venv:
        first, _ = venv.reset(seed=0)
        later, *_ = venv.step(np.zeros(4, int))
        assert np.shares_memory(first, later)
        del first, later


@every_backend
def test_reset_by_mask_moves_and_tells_of_those_alone(options):
    mask = np.array([True, False, True, False])
    with cart_pole(autoreset_mode="disabled", **options) as venv:
        venv.reset(seed=0)
        before = venv.step(np.zeros(4, int))[0]
        given = {"reset_mask": mask}
        obs, infos = venv.reset(seed=[7, None, 9, None], options=given)
        assert given == {"reset_mask": mask}
        assert infos == {}
        assert (obs[~mask] == before[~mask]).all()
    for row, seed in ((0, 7), (2, 9)):
        expected, _ = gym.make("CartPole-v1").reset(seed=seed)
        assert (obs[row] == expected).all()


@pytest.mark.parametrize("seeds", [{1, 2}, frozenset({1, 2}), {1: 0, 2: 0}], ids=repr)
def test_seeds_without_an_order_are_refused(seeds):
    with plangym_ext.make_vec("CartPole-v1", 2) as venv:
        with pytest.raises(WrongKind, match="one of them for each sub-env"):
            venv.reset(seed=seeds)
        assert venv.reset(seed=list(seeds))[0].shape == (2, 4)


@live_backends
def test_attributes_are_those_of_the_sub_envs(options):
    with cart_pole(**options) as venv:
        venv.reset(seed=3)
        assert venv.get_attr("gravity") == (9.8,) * 4
        venv.set_attr("gravity", [1.0, 2.0, 3.0, 4.0])
        assert venv.get_attr("gravity") == (1.0, 2.0, 3.0, 4.0)
        venv.set_attr("gravity", 5.0)
        assert venv.call("get_wrapper_attr", "gravity") == (5.0,) * 4
        assert venv.np_random_seed == (3, 4, 5, 6)
        assert len({rng.random() for rng in venv.np_random}) == 4
        with pytest.raises(ValueError, match="Got `2` values for 4"):
            venv.set_attr("gravity", [1.0, 2.0])
        with pytest.raises(ValueError, match="'step' of single sub-envs"):
            venv.call("step", 0)
        with pytest.raises(AttributeError):
            venv.get_attr("nothing")


def test_native_rows_differ_in_their_states_alone():
    with cart_pole(2, backend="kernel") as venv:
        venv.reset(seed=0)
        venv.set_attr("state", [np.zeros(4), np.full(4, 0.1)])
        assert_same(venv.get_attr("state")[1], np.full(4, 0.1))
        with pytest.raises(ValueError, match="'gravity' is not part of a state"):
            venv.set_attr("gravity", 1.0)


@every_backend
def test_renders_every_sub_env(options):
    with cart_pole(2, render_mode="rgb_array", **options) as venv:
        venv.reset(seed=0)
        for action in ([0, 1],) * 3:
            venv.step(np.array(action))
        frames = venv.render()
    assert [frame.shape for frame in frames] == [(400, 600, 3)] * 2
    assert (frames[0] != frames[1]).any()


def test_is_found_by_gymnasium_and_survives_json():
    venv = gym.make_vec(
        "plangym_ext/Vec-v0", num_envs=3, env_id="Acrobot-v1", autoreset_mode="same_step"
    )
    assert isinstance(venv, plangym_ext.PlanVectorEnv)
    assert "Acrobot" in repr(venv) or "Vec-v0" in repr(venv)
    again = gym.make_vec(type(venv.spec).from_json(venv.spec.to_json()))
    assert json.loads(venv.spec.to_json())["kwargs"]["env_id"] == "Acrobot-v1"
    action = np.array([0, 1, 2])
    assert_same(venv.reset(seed=1), again.reset(seed=1))
    assert_same(venv.step(action), again.step(action))
    assert again.autoreset_mode == AutoresetMode.SAME_STEP
    venv.close()
    again.close()


class Bounded(gym.Env):
    """Env whose observation space depends on an argument."""

    action_space = spaces.Discrete(2)

    def __init__(self, high, shape=(2,)):
        self.observation_space = spaces.Box(0.0, high, shape, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.high, 1.0, False, False, {}


@live_backends
def test_observation_spaces_may_differ_if_that_is_asked_for(options):
    makes = [functools.partial(Bounded, float(high)) for high in (1, 2, 3)]
    with pytest.raises(UnequalEnvs, match="sub-env 1: its observation space"):
        plangym_ext.make_vec(makes, **options)
    with plangym_ext.make_vec(makes, observation_mode="different", **options) as venv:
        assert venv.observation_space.high[:, 0].tolist() == [1, 2, 3]
        venv.reset(seed=0)
        assert venv.step(np.zeros(3, int))[0][:, 0].tolist() == [1, 2, 3]
    wider = [functools.partial(Bounded, 1.0), functools.partial(Bounded, 1.0, (3,))]
    with pytest.raises((RuntimeError, AssertionError, ValueError), match="shape"):
        plangym_ext.make_vec(wider, observation_mode="different", **options)


@live_backends
def test_observations_without_an_array_form_are_batched_as_gymnasium_does(options):
    makes = [Spoken] * 2
    expected = gym.vector.SyncVectorEnv(makes)
    with plangym_ext.make_vec(makes, **options) as venv:
        assert_same(venv.reset(seed=0), expected.reset(seed=0))
        action = np.array([0, 1])
        assert_same(venv.step(action), expected.step(action))


class Spoken(gym.Env):
    """Env that shows a text and a sequence."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {"text": spaces.Text(8), "items": spaces.Sequence(spaces.Discrete(5))}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"text": "begin", "items": ()}, {"why": "reset"}

    def step(self, action):
        return {"text": f"did {action}", "items": (1, 2, 3)[:action]}, 1.0, False, False, {}


GRAPH = spaces.Graph(spaces.Box(-1, 1, (2,)), None)


@pytest.mark.parametrize(
    "space",
    [
        GRAPH,
        spaces.Tuple((GRAPH, spaces.Discrete(2))),
        spaces.Dict({"a": spaces.Tuple((GRAPH, spaces.Text(3))), "b": spaces.Box(0, 1, (2,))}),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1, (2,)))),
    ],
    ids=lambda space: type(space).__name__,
)
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_actions_and_observations_without_a_form_of_arrays(space, backend):
    class Echo(gym.Env):
        observation_space = action_space = space

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            space.seed(seed)
            return space.sample(), {}

        def step(self, action):
            return action, 1.0, False, False, {}

    with plangym_ext.make_vec(Echo, 3, backend=backend) as venv:
        venv.reset(seed=0)
        venv.action_space.seed(1)
        for _ in range(2):
            actions = venv.action_space.sample()
            assert data_equivalence(venv.step(actions)[0], actions)
        with pytest.raises(InvalidAction, match="one action for each of 3 sub-envs"):
            venv.step(gym.vector.utils.batch_space(space, 2).sample())


# Asynchronous calls -----------------------------------------------------------------


@every_backend
@pytest.mark.parametrize("name", ["reset", "step", "call"])
@pytest.mark.parametrize("timeout", [-1, float("nan"), "a", True])
def test_a_wrong_timeout_leaves_what_was_begun(options, name, timeout):
    begin = {
        "reset": lambda venv: venv.reset_async(seed=1),
        "step": lambda venv: venv.step_async(np.zeros(2, int)),
        "call": lambda venv: venv.call_async("get_wrapper_attr", "gravity"),
    }
    with cart_pole(2, **options) as venv:
        venv.reset(seed=0)
        pids = venv.worker_pids
        begin[name](venv)
        wait = getattr(venv, f"{name}_wait")
        with pytest.raises(ValueError, match=rf"{name}_wait: timeout must be .* got {timeout!r}"):
            wait(timeout=timeout)
        wait(timeout=np.float32(60))
        assert venv.worker_pids == pids


@live_backends
def test_what_is_begun_is_waited_for_in_turn(options):
    with cart_pole(2, **options) as venv, cart_pole(2) as plain:
        plain.reset(seed=0)
        with pytest.raises(gym.error.NoAsyncCallError):
            venv.reset_wait()
        venv.reset_async(seed=0)
        with pytest.raises(gym.error.AlreadyPendingCallError, match="reset_async"):
            venv.step_async(np.zeros(2, int))
        venv.reset_wait()
        venv.step_async(np.zeros(2, int))
        with pytest.raises(gym.error.AlreadyPendingCallError) as caught:
            venv.call("render")
        assert caught.value.name == "step"
        assert isinstance(caught.value, PlangymExtError)
        words = "Calling `{}` while waiting for a pending call to `step` to complete"
        assert words.format("call_async") in str(caught.value)  # as gymnasium says it
        with pytest.raises(gym.error.AlreadyPendingCallError, match=words.format("set_attr")):
            venv.set_attr("gravity", 9.8)
        assert_same(venv.step_wait(timeout=30), plain.step(np.zeros(2, int)))
    with pytest.raises(gym.error.ClosedEnvironmentError):
        venv.step(np.zeros(2, int))
    venv.close()


# States and branches ----------------------------------------------------------------


@every_backend
def test_states_bring_back_what_follows(options):
    actions = some_actions(60)
    with cart_pole(**options) as venv:
        venv.reset(seed=0)
        play(venv, actions[:20])
        states, ended = venv.get_states(), venv.ended
        expected = play(venv, actions[20:])
        venv.set_states(states, ended=ended)
        assert_same(play(venv, actions[20:]), expected)
        # Of two sub-envs alone, the others go on.
        mask = np.array([True, False, False, True])
        after = venv.get_states()
        venv.set_states(states, mask, ended=ended)
        assert_same(venv.get_states()[mask], states[mask])
        assert_same(venv.get_states()[~mask], after[~mask])


@every_backend
def test_states_are_those_of_a_plan_env(options):
    with cart_pole(2, **options) as venv, plangym_ext.make("CartPole-v1") as env:
        venv.reset(seed=0)
        states = venv.get_states()
        planned = env.step_batch(np.array([0, 1]), states)
        obs, rewards, *_ = venv.step(np.array([0, 1]))
        assert_same(planned.obs, obs)
        venv.set_states(planned.states)
        assert_same(venv.get_states(), planned.states)
    assert_same(rewards, planned.rewards)


@every_backend
def test_a_branch_has_the_future_of_what_it_came_from(options):
    with cart_pole(**options) as venv:
        venv.reset(seed=0)
        play(venv, some_actions(5))
        venv.fork(1, [0, 3])
        for action in some_actions(40, 1):
            obs, rewards, terminations, _, _ = venv.step(np.repeat(action, 4))
            assert (obs[[0, 3]] == obs[1]).all()
            assert (rewards[[0, 3]] == rewards[1]).all()
            assert (terminations[[0, 3]] == terminations[1]).all()
        assert (obs[2] != obs[1]).any()


@every_backend
def test_some_sub_envs_can_be_stepped_in_any_order(options):
    with cart_pole(**options) as venv, cart_pole(**options) as other:
        venv.reset(seed=0)
        other.reset(seed=0)
        obs, rewards, terminations, truncations, infos = venv.step(np.array([1, 0]), [3, 1])
        expected = other.step(np.array([0, 0, 0, 1]))
        assert (obs == expected[0][[3, 1]]).all()
        assert [len(part) for part in (rewards, terminations, truncations)] == [2, 2, 2]
        assert infos == {}
        later = venv.step(np.array([0, 0]), np.array([0, 2]))[0]
        assert (later == expected[0][[0, 2]]).all()
        assert (venv.get_states() == other.get_states()).all()


def test_states_of_another_env_are_refused():
    makes = [functools.partial(gym.make, "Pendulum-v1", g=float(g)) for g in (1, 2)]
    with plangym_ext.make_vec(makes) as venv:
        venv.reset(seed=0)
        with pytest.raises(ForeignState):
            venv.fork(0, 1)
        venv.step(venv.action_space.sample())


def test_states_suit_other_instances():
    # Its codec writes attributes as differences to those after the first reset.
    with (
        plangym_ext.make_vec(faulty, 2, backend="serial") as venv,
        plangym_ext.make_vec(faulty, 2, n_workers=2) as other,
    ):
        venv.reset(seed=5)
        play(venv, some_actions(4, 2))
        other.set_states(venv.get_states())
        assert_same(play(other, some_actions(9, 2)), play(venv, some_actions(9, 2)))


def test_wrappers_remember_nothing_of_how_an_env_was_made():
    def make():
        env = gym.make("CartPole-v1")
        return gym.wrappers.NormalizeObservation(gym.wrappers.RecordEpisodeStatistics(env))

    plain = gym.vector.SyncVectorEnv([make] * 2)
    with plangym_ext.make_vec(make, 2) as venv:
        assert_same(venv.reset(seed=1), plain.reset(seed=1))
        for action in some_actions(30, 2):
            assert_same(venv.step(action)[:-1], plain.step(action)[:-1])
        assert venv.get_states().shape[0] == 2


def test_rows_without_a_seed_differ():
    with cart_pole(3, backend="serial") as venv, cart_pole(3, n_workers=2) as other:
        found = np.concatenate([venv.reset()[0], other.reset()[0]])
    assert len(np.unique(found, axis=0)) == 6


class Opaque(gym.Env):
    """Env whose state cannot be captured: it counts outside of itself."""

    observation_space = spaces.Box(0.0, 1e6, (), np.float64)
    action_space = toy_envs.Tame(3)  # whose samples are 0 and 1
    count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.float64(0.0), {}

    def step(self, action):
        type(self).count += 1
        if action == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.float64(type(self).count), 1.0, False, False, {}


def test_envs_without_states_can_be_played_all_the_same():
    with plangym_ext.make_vec(Opaque, 2) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(2, int))
        with pytest.raises(IncompleteState):
            venv.get_states()
    with cart_pole(2, capture="off") as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(2, int))
        with pytest.raises(IncompleteState, match="states are off"):
            venv.get_states()


# Faults -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(AutoresetMode)[:2], ids=lambda mode: mode.name)
def test_a_dead_worker_costs_nothing_but_time(mode):
    actions = some_actions(300)
    with (
        cart_pole(n_workers=2, autoreset_mode=mode) as venv,
        cart_pole(backend="serial", autoreset_mode=mode) as plain,
    ):
        venv.reset(seed=0)
        plain.reset(seed=0)
        for step, action in enumerate(actions):
            if step in (0, 1, 150):
                os.kill(venv.worker_pids[step % 2], signal.SIGKILL)
            if step == 200:
                venv.step_async(action)
                os.kill(venv.worker_pids[1], signal.SIGKILL)
                got = venv.step_wait()
            else:
                got = venv.step(action)
            assert_same(got, plain.step(action), f"step {step}")


@pytest.mark.slow
def test_attributes_and_states_outlive_a_worker():
    with cart_pole(2, n_workers=2) as venv, cart_pole(2, backend="serial") as plain:
        for one in (venv, plain):
            one.reset(seed=0)
            one.set_attr("gravity", [1.0, 20.0])
            play(one, some_actions(3, 2))
            one.fork(0, []) if one is plain else None
            one.set_states(one.get_states())
            play(one, some_actions(3, 2))
        for pid in venv.worker_pids:
            os.kill(pid, signal.SIGKILL)
        assert venv.get_attr("gravity") == (1.0, 20.0)
        assert_same(play(venv, some_actions(8, 2)), play(plain, some_actions(8, 2)))


def assert_goes_on_after(venv, actions):
    """Fail unless sub-envs are where a reset with seed 0 and some actions leads."""
    with plangym_ext.make_vec(faulty, 4, backend="serial") as plain:
        plain.reset(seed=0)
        play(plain, actions)
        assert_same(play(venv, some_actions(30)), play(plain, some_actions(30)))


def faulty(**kwargs):
    return TimeLimit(toy_envs.Faulty(**kwargs), 50)


@pytest.mark.slow
@live_backends
def test_a_step_that_raises_leaves_every_sub_env_where_it_was(options):
    with plangym_ext.make_vec(faulty, 4, **options) as venv:
        venv.reset(seed=0)
        play(venv, some_actions(6))
        with pytest.raises(toy_envs.EnvFaultError) as caught:
            venv.step(np.array([0, 1, toy_envs.RAISE, 0]))
        assert any("row 2, action 2" in note for note in caught.value.__notes__)
        assert_goes_on_after(venv, some_actions(6))


@pytest.mark.slow
def test_a_step_that_kills_twice_is_named_and_undone():
    with plangym_ext.make_vec(faulty, 4, n_workers=2) as venv:
        venv.reset(seed=0)
        play(venv, some_actions(3))
        with pytest.raises(WorkerDied, match="SIGKILL"):
            venv.step(np.array([0, 1, toy_envs.SIGKILL, 0]))
        assert_goes_on_after(venv, some_actions(3))


@pytest.mark.slow
def test_a_worker_that_hangs_is_stopped_and_all_is_undone():
    with plangym_ext.make_vec(faulty, 4, n_workers=2) as venv:
        venv.reset(seed=0)
        play(venv, some_actions(3))
        venv.step_async(np.array([0, 1, 0, toy_envs.SLEEP]))
        with pytest.raises(multiprocessing.TimeoutError, match=r"within 0\.\d+ s|within"):
            venv.step_wait(timeout=0.5)
        assert_goes_on_after(venv, some_actions(3))


@pytest.mark.slow
def test_without_states_a_fault_asks_for_a_reset():
    with plangym_ext.make_vec(Opaque, 2, n_workers=2) as venv:
        venv.reset(seed=0)
        venv.step(np.zeros(2, int))
        with pytest.raises(WorkerDied):
            venv.step(np.array([0, 2]))
        with pytest.raises(gym.error.ResetNeeded, match="could not be rolled back"):
            venv.step(np.zeros(2, int))
        venv.reset(seed=0)
        venv.step(np.zeros(2, int))


# Bad input --------------------------------------------------------------------------


@every_backend
def test_wrong_actions_are_refused_before_anything_moves(options):
    with cart_pole(**options) as venv:
        native = venv.backend in ("kernel", "mujoco")
        text = r"\[0, 1, 2, 3\] were never reset" if native else r"Cannot call env\.step"
        with pytest.raises(gym.error.ResetNeeded, match=text):
            venv.step(np.zeros(4, int))
        venv.reset(seed=0)
        before = venv.get_states()
        for wrong in (np.zeros(3, int), np.zeros(5, int), [0, 1]):
            with pytest.raises(ValueError, match=f"each of 4 sub-envs; got {len(wrong)}"):
                venv.step(wrong)
        with pytest.raises(TypeError, match="got int"):
            venv.step(1)
        for wrong in ([0, 4], [-1], [1, 1]):
            with pytest.raises(IndexError, match="env_ids"):
                venv.step(np.zeros(len(wrong), int), wrong)
        assert_same(venv.get_states(), before)


class Echo(gym.Env):
    """Its infos say what was played; an array and a list of them are written to in place."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(100)
    place = np.zeros(1, int)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.past = np.zeros(1, int), []
        return np.zeros(1, np.float32), {"played": int((options or {}).get("played", -1))}

    def step(self, action):
        self.place[0] = action
        self.past.append(int(action))
        info = {"played": int(action), "place": self.place, "past": self.past}
        return np.zeros(1, np.float32), float(action), False, False, info


@live_backends
def test_sub_envs_in_another_order_have_their_own_infos(options):
    with plangym_ext.make_vec(Echo, 3, **options) as venv:
        venv.reset(seed=0)
        actions, order = np.array([12, 10, 11]), [2, 0, 1]
        for stepped in (venv.step(actions, order), begun(venv, actions, order)):
            _, rewards, _, _, infos = stepped
            assert rewards.tolist() == infos["played"].tolist() == [12, 10, 11]


def begun(venv, actions, order):
    venv.step_async(actions, order)
    return venv.step_wait()


def test_rows_of_a_kernel_in_another_order_have_their_own_infos():
    with plangym_ext.make_vec("Taxi-v4", 3, backend="kernel") as venv:
        venv.reset(seed=0)
        mask = gym.make("Taxi-v4").unwrapped.action_mask
        for order in ([2, 0, 1], [0, 1, 2], [1, 0]):
            obs, *_, infos = venv.step(np.arange(len(order)), order)
            assert infos["action_mask"].tolist() == [mask(int(one)).tolist() for one in obs]


@live_backends
def test_listed_infos_are_the_callers(options):
    with plangym_ext.make_vec(Echo, 2, **options) as venv:
        venv.list_infos = True
        venv.reset(seed=0)
        kept = [venv.step(np.array([k, k]))[-1] for k in (3, 4)]
        assert [int(infos[0]["place"][0]) for infos in kept] == [3, 4]
        assert [infos[1]["past"] for infos in kept] == [[3], [3, 4]]


def test_a_key_that_is_called_like_the_mask_of_another():
    class Both(Echo):
        def step(self, action):
            return *super().step(action)[:-1], {"t": 1, "_t": 5, 1: 2}

    with plangym_ext.make_vec(Both, 2) as venv:
        plain = gym.vector.SyncVectorEnv([Both] * 2)
        for each in (venv, plain):
            each.reset(seed=0)
        assert_same(venv.step(np.zeros(2, int))[-1], plain.step(np.zeros(2, int))[-1])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"timeout": -1}, PlangymExtError, "make_vec: timeout must be .*; got -1"),
        ({"timeout": "5"}, PlangymExtError, "make_vec: timeout must be"),
        ({"address": "10.0.0.1:6379"}, ValueError, "make_vec: address=.* is for the ray backend"),
        ({"invalid": "rais"}, PlangymExtError, "make_vec: invalid must be one of"),
        ({"capture": "of"}, PlangymExtError, "capture must be one of .*, off; got 'of'"),
        ({"autoreset_mode": [1]}, PlangymExtError, r"autoreset_mode must be one of .*; got \[1\]"),
        ({"wrappers": TimeLimit}, TypeError, "make_vec: wrappers must be a sequence"),
    ],
)
def test_options_are_checked_on_every_backend(given, error, message):
    with pytest.raises(error, match=message):
        cart_pole(**given)


def test_wrong_seeds_and_masks_are_refused():
    with cart_pole() as venv:
        for seed, error, text in (
            ([1, 2], ValueError, "4 entries; got 2"),
            ("abcd", TypeError, r"seed\[0\]"),
            (1.5, TypeError, "got 1.5"),
        ):
            with pytest.raises(error, match=text):
                venv.reset(seed=seed)
        for mask, error in (
            ([True] * 4, TypeError),
            (np.ones(4, int), TypeError),
            (np.ones(3, bool), ValueError),
            (np.zeros(4, bool), ValueError),
        ):
            with pytest.raises(error, match="reset_mask"):
                venv.reset(options={"reset_mask": mask})
        first, _ = venv.reset(seed=np.int64(5))
        assert_same(first, venv.reset(seed=(5, 6, 7, 8))[0])


@every_backend
def test_an_ended_sub_env_is_not_stepped_when_autoreset_is_disabled(options):
    with cart_pole(autoreset_mode="disabled", **options) as venv:
        venv.reset(seed=0)
        while not venv.ended.any():
            venv.step(np.ones(4, int))
        row = int(np.argmax(venv.ended))
        with pytest.raises(gym.error.ResetNeeded, match=rf"\[.*{row}.*\] have ended"):
            venv.step(np.ones(4, int))
        others = np.flatnonzero(~venv.ended)
        if len(others):
            venv.step(np.ones(len(others), int), others)
        venv.reset(options={"reset_mask": venv.ended})
        assert not venv.ended.any()
        venv.step(np.ones(4, int))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"autoreset_mode": "nextstep"}, ValueError, "did you mean 'next_step'"),
        ({"backend": "proces"}, ValueError, "did you mean 'process'"),
        ({"num_envs": 0}, ValueError, "num_envs must be an integer >= 1; got 0"),
        ({"n_workers": -1}, ValueError, "n_workers must be an integer >= 1"),
        ({"backend": "serial", "n_workers": 2}, ValueError, "no workers"),
        ({"backend": "kernel", "n_workers": 2}, ValueError, "no workers"),
        ({"observation_mode": "other"}, ValueError, "observation_mode"),
        ({"gravity_": 1}, ValueError, "no option 'gravity_'"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, error, text):
    with pytest.raises(error, match=text):
        plangym_ext.make_vec("CartPole-v1", **{"num_envs": 2, **arguments})


def test_constructors_must_be_callable_and_enough():
    with pytest.raises(ValueError, match="expected 3 constructors"):
        plangym_ext.make_vec([Opaque] * 2, 3)
    with pytest.raises(TypeError, match="constructor 1 must be a callable"):
        plangym_ext.make_vec([Opaque, 7])
    with pytest.raises(TypeError, match="gravity can be given with a name only"):
        plangym_ext.make_vec(Opaque, gravity=1)
    with pytest.raises(TypeError, match=r"must return a gymnasium\.Env"):
        plangym_ext.make_vec(dict)


def test_errors_travel():
    from plangym_ext.vector.results import VectorTimeout

    error = pickle.loads(pickle.dumps(VectorTimeout("late", workers=(1,))))
    assert (str(error), isinstance(error, TimeoutError)) == ("late", True)
