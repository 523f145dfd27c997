"""Wrong arguments: an error that says what was expected and what came, and no harm done."""

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import DamagedState, ForeignState, InvalidAction, ResetNeeded


@pytest.fixture(scope="module", params=[None, pytest.param(2, marks=pytest.mark.slow)])
def env(request):
    with plangym_ext.make("CartPole-v1", n_workers=request.param) as env:
        env.reset(seed=0)
        env.step_batch([0] * 8, np.stack([env.get_state()] * 8))
        yield env


@pytest.fixture(scope="module")
def box():
    with plangym_ext.make("Pendulum-v1") as env:
        env.reset(seed=0)
        yield env


@pytest.fixture(autouse=True)
def handle_stays_usable(env):
    """After whatever a test did, a batch still gives what it gave before."""
    env.reset(seed=0)
    states = np.stack([env.get_state()] * 2)
    before = env.step_batch([0, 1], states)
    place = env.get_state()
    yield
    assert env.get_state().tobytes() == place.tobytes()
    assert env.step_batch([0, 1], states).states.tobytes() == before.states.tobytes()


def calls(env, action, states=None, **kwargs):
    """The ways to pass one action, or one action a row."""
    return [
        lambda: env.step(action, **kwargs),
        lambda: env.step_batch([action, 0], states, **kwargs),
    ]


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (2, r"must lie in Discrete\(2\); got .*2"),
        (-1, r"must lie in Discrete\(2\); got .*-1"),
        (0.0, r"int64.*got .*float64"),
        (True, r"int64.*got"),
        ("0", r"int64.*got .*<U"),
        (None, r"int64.*got .*object"),
        ([0], r"got|differ in shape"),
        (float("nan"), r"int64.*got .*float64"),
    ],
    ids=repr,
)
def test_action_of_the_wrong_range_dtype_or_shape(env, action, match):
    states = np.stack([env.get_state()] * 2)
    for call in (*calls(env, action), *calls(env, action, states)):
        if action is True and call is not calls(env, action)[0]:
            continue  # in a list with 0 it is an integer
        with pytest.raises(InvalidAction, match=match):
            call()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_number_of_actions_and_states_must_agree(env, count):
    states = np.stack([env.get_state()] * 2)
    actions = np.zeros(count, int)
    with pytest.raises(
        InvalidAction, match=rf"step_batch: actions must be \(2,\).*got \({count},\)"
    ):
        env.step_batch(actions, states)
    with pytest.raises(InvalidAction, match=rf"must be \(2, H\) int64.*got \({count}, 3\)"):
        env.rollout_batch(np.zeros((count, 3), int), states)


def test_rollout_needs_a_horizon(env):
    states = np.stack([env.get_state()] * 2)
    with pytest.raises(InvalidAction, match=r"H >= 1; got H = 0"):
        env.rollout_batch(np.zeros((2, 0), int), states)
    with pytest.raises(InvalidAction, match=r"must be \(2, H\).*got \(2,\)"):
        env.rollout_batch([0, 1], states)


@pytest.mark.parametrize(
    ("value", "match"), [(np.nan, "nan"), (2.5, r"2\.5"), (-np.inf, "inf"), (1e300, r"1e\+300")]
)
def test_continuous_action_out_of_range(box, value, match):
    for call in (
        lambda: box.step(np.array([value])),
        lambda: box.step_batch(np.array([[0.0], [value]])),
    ):
        with pytest.raises(InvalidAction, match=rf"must lie in Box.*got .*{match}"):
            call()


@pytest.mark.parametrize(
    ("dt", "match"),
    [
        (0, r"at least 1 in every row; got 0 to 0"),
        (-3, r"got -3 to -3"),
        (1.0, r"control steps.*got \(\) float64"),
        (2**31, r"got 2147483648"),
        (True, r"got \(\) bool"),
        ("1", r"got \(\) <U1"),
        (None, r"got \(\) object"),
        ([1], r"got \(1,\) int64"),
        ([1, 1, 1], r"got \(3,\) int64"),
        ([1, 0], r"got 0 to 1|got \(2,\)"),
        ([1.0, 2.0], r"got \(2,\) float64"),
        ([[1, 1]], r"got \(1, 2\) int64"),
    ],
    ids=repr,
)
def test_dt_must_be_whole_steps_one_for_all_or_one_a_row(env, dt, match):
    states = np.stack([env.get_state()] * 2)
    for call in (
        lambda: env.step(0, dt=dt),
        lambda: env.step_batch([0, 1], dt=dt),
        lambda: env.step_batch([0, 1], states, dt=dt),
    ):
        with pytest.raises(ValueError, match=f"dt must be.*{match}"):
            call()


def test_one_dt_for_one_row_is_not_a_dt_for_a_single_step(env):
    with pytest.raises(ValueError, match=r"step: dt must be an int.*got \(1,\)"):
        env.step(0, dt=np.array([2]))


def foreign_states():
    found = {}
    for key, name, kwargs in (
        ("other-env", "MountainCar-v0", {}),
        ("other-limit", "CartPole-v1", {"max_episode_steps": 77}),
        ("other-argument", "CartPole-v1", {"sutton_barto_reward": True}),
    ):
        with plangym_ext.make(name, **kwargs) as other:
            found[key] = other.reset(seed=0)[0]
    return found


@pytest.mark.parametrize("kind", ["other-env", "other-limit", "other-argument"])
def test_state_of_another_env_is_refused(env, kind):
    foreign = foreign_states()[kind]
    for call in (
        lambda: env.set_state(foreign),
        lambda: env.sync_states(foreign),
        lambda: env.step(0, foreign),
        lambda: env.step_batch([0, 0], [foreign, foreign]),
        lambda: env.rollout_batch([[0], [0]], np.stack([foreign, foreign])),
        lambda: env.set_state(np.stack([foreign, foreign])),
    ):
        with pytest.raises(ForeignState, match=r"states\[0\] belongs to another env.*CartPole"):
            call()


def test_damaged_state_is_refused_and_named(env):
    good = env.get_state()
    bad = good.copy()
    bad[60] ^= 4
    for call, row in (
        (lambda: env.set_state(bad), 0),
        (lambda: env.step(0, bad), 0),
        (lambda: env.step_batch([0, 0, 0], np.stack([good, good, bad])), 2),
        (lambda: env.rollout_batch([[0], [0]], np.stack([good, bad])), 1),
    ):
        with pytest.raises(DamagedState, match=rf"states\[{row}\] is damaged"):
            call()


@pytest.mark.parametrize(
    ("make_states", "match"),
    [
        (lambda s: [s, None], r"states\[1\] is None; expected a state in every row"),
        (lambda s: [None, None], r"states\[0\] is None"),
        (lambda s: [s, s[:-8]], r"states\[1\] must be \d+ bytes wide.*truncated"),
        (lambda s: np.stack([s, s]).astype(np.int64), r"uint8.*got \(2, \d+\) int64"),
        (lambda s: s, r"must be \(B, \d+\) uint8.*got \(\d+,\)"),
        (lambda s: np.stack([s, s])[None], r"got \(1, 2, \d+\)"),
        (lambda s: "states", "must be"),
        (lambda s: 3, "must be"),
        (lambda s: [], "must be"),
    ],
    ids=["none", "nones", "ragged", "dtype", "one-row", "rank", "text", "number", "empty"],
)
def test_states_of_the_wrong_form(env, make_states, match):
    with pytest.raises(ValueError, match=match):
        env.step_batch([0, 0], make_states(env.get_state()))


@pytest.mark.parametrize(
    "state", [None, 3, "state", np.zeros((2, 3, 4), np.uint8), [1, 2, 3]], ids=repr
)
def test_single_state_of_the_wrong_form(env, state):
    with pytest.raises(ValueError, match=r"state.* must be"):
        env.set_state(state)
    with pytest.raises(ValueError, match=r"state.* must be"):
        env.sync_states(state)
    if state is not None:
        with pytest.raises(ValueError, match=r"state.* must be"):
            env.step(0, state)


def test_batch_of_states_is_not_a_state(env):
    states = np.stack([env.get_state()] * 2)
    with pytest.raises(ValueError, match=r"step: state must be \(\d+,\) uint8"):
        env.step(0, states)
    with pytest.raises(ValueError, match=r"sync_states: state must be \(\d+,\) uint8"):
        env.sync_states(states)


def test_env_that_was_never_reset_says_so():
    with plangym_ext.make("CartPole-v1") as env:
        for call in (lambda: env.step(0), env.get_state, lambda: env.step_batch([0])):
            with pytest.raises(ResetNeeded, match="Call reset"):
                call()
        env.reset(seed=0)
        env.step_batch([0])


@pytest.mark.parametrize("seed", [-1, 1.5, "seed"], ids=repr)
def test_bad_seed_is_refused(env, seed):
    with pytest.raises(Exception, match=r"seed|Seed"):  # gymnasium's own error
        env.reset(seed=seed)
    env.reset(seed=0)
