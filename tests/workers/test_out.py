"""`out=`: results written where the caller wants them."""

import functools

import nested_env
import numpy as np
import pytest
import toy_envs
from batches import warm_up
from growing_env import Growing
from toy_envs import Faulty

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import UnknownName
from plangym_ext.testing.episode import flat
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = [
    pytest.mark.slow,  # workers take about 0.3 s to start
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]
ACTIONS = np.arange(16) % 2


@pytest.fixture(scope="module", params=[None, 2], ids="{}-workers".format)
def env(request, walk):
    if request.param is None:
        with GymEnv(Faulty, name="Faulty") as env:
            yield env
    else:
        with ParallelEnv(Faulty, n_workers=request.param) as env:
            warm_up(env, walk)
            yield env


def arrays(kind, width, batch=(16,)):
    """One array for each field of a `step_batch`, by where it lies."""
    fields = {
        "states": ((width,), np.uint8),
        "obs": ((4,), np.float32),
        "rewards": ((), np.float64),
        "terminateds": ((), np.bool_),
        "truncateds": ((), np.bool_),
    }
    if kind == "numpy":
        return {name: np.zeros((*batch, *shape), d) for name, (shape, d) in fields.items()}
    return {
        name: Array(batch, d, feature_shape=shape, storage=kind)
        for name, (shape, d) in fields.items()
    }


@pytest.mark.parametrize("kind", ["numpy", "local", "shared"])
def test_results_are_written_to_the_given_arrays(env, serial, walk, kind):
    want = serial.step_batch(ACTIONS, walk, dt=2)
    out = arrays(kind, env.state_width)
    out["states"][...] = 255  # nothing of which may be left after a state
    got = env.step_batch(ACTIONS, walk, dt=2, out=out)
    for name, array in out.items():
        assert getattr(got, name) is array, "the result names the caller's own array"
        assert flat(np.asarray(array)) == flat(getattr(want, name)), name
    assert flat(list(got.infos)) == flat(list(want.infos))
    # Some fields alone, and none of the states.
    some = arrays(kind, env.state_width)
    got = env.step_batch(ACTIONS, walk, dt=2, return_state=False, out={"obs": some["obs"]})
    assert flat(np.asarray(some["obs"])) == flat(want.obs)
    assert flat(got.rewards) == flat(want.rewards)
    assert not np.asarray(some["rewards"]).any()


def test_row_of_a_sample_tree_that_rotates(env, serial, walk):
    # Four steps of sixteen rows, three times over: what is at the end moves to the front.
    tree = ArrayDict(
        obs=Array((4, 16), np.float32, feature_shape=(4,), storage="shared", padding=1),
        rewards=Array((4, 16), np.float32, storage="shared", padding=1),
        terminateds=Array((4, 16), np.bool_, storage="shared", padding=1),
    )
    for one in (env, serial):
        one.set_state(walk[3])
    for turn in range(3):
        for t in range(4):
            found = env.step_batch(ACTIONS, out=tree[t])
            want = serial.step_batch(ACTIONS)
            assert flat(np.asarray(tree["obs"][t])) == flat(want.obs), f"{turn}, {t}"
            assert np.asarray(tree["rewards"][t]).tolist() == want.rewards.tolist()
            assert np.asarray(found.terminateds).tolist() == want.terminateds.tolist()
            assert flat(found.truncateds) == flat(want.truncateds)
        last = np.asarray(tree["obs"][3]).copy()
        tree.rotate()
        assert flat(np.asarray(tree["obs"][-1])) == flat(last)


def test_workers_write_shared_arrays_themselves(walk, monkeypatch):
    # The parent's copying is replaced by nothing; what lies in shared memory comes all the same.
    from plangym_ext.core import out_fields

    shared = Array((16,), np.float32, feature_shape=(4,), storage="shared")
    with ParallelEnv(Faulty, n_workers=2) as env:
        want = env.step_batch(ACTIONS, walk).obs
        monkeypatch.setattr(out_fields.OutFields, "_fill", lambda self, found: None)
        env.step_batch(ACTIONS, walk, out={"obs": shared})
        assert flat(shared.to_ndarray()) == flat(want)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-2],
        lambda a: a[16:],
        lambda a: a[3:19],
    ],
    ids=["step", "backwards", "end", "offset"],
)
@pytest.mark.parametrize("kind", ["numpy", "shared"])
def test_views_with_strides(env, serial, walk, view, kind):
    want = serial.step_batch(ACTIONS, walk)
    whole = {name: np.asarray(a) for name, a in arrays(kind, env.state_width, (32,)).items()}
    env.step_batch(ACTIONS, walk, out={name: view(a) for name, a in whole.items()})
    for name, a in whole.items():
        assert flat(view(a).copy()) == flat(getattr(want, name)), name
        rest = np.ones(32, bool)
        rest[view(np.arange(32))] = False
        assert not a[rest].any(), f"{name}: written beside the view"


def test_columns_of_a_larger_array(env, serial, walk):
    want = serial.step_batch(ACTIONS, walk)
    wide = Array((16, 3), np.float32, feature_shape=(4,), storage="shared").to_ndarray()
    env.step_batch(ACTIONS, walk, out={"obs": wide[:, 1]})
    assert flat(wide[:, 1].copy()) == flat(want.obs)
    assert not wide[:, [0, 2]].any()


@pytest.mark.parametrize("storage", ["local", "shared"])
@pytest.mark.parametrize("n_workers", [None, 2])
def test_nested_observations(n_workers, storage):
    build = functools.partial(ParallelEnv, n_workers=n_workers) if n_workers else GymEnv
    with build(nested_env.limited_nested) as env:
        state, *_ = env.reset(seed=0)
        states = np.stack([state] * 6)
        actions = (np.arange(6) % 3 - 1, np.zeros((6, 2), np.float32))
        want = env.step_batch(actions, states).obs
        tree = ArrayDict.from_space(env.observation_space, (2, 6), storage=storage)
        env.step_batch(actions, states, out={"obs": tree[1]})
        assert flat(np.asarray(tree["count"][1])) == flat(want["count"])
        for k in range(2):
            assert flat(np.asarray(tree["pair"][str(k)][1])) == flat(want["pair"][k])
        plain = {"count": tree["count"][0], "pair": (tree["pair"]["0"][0], tree["pair"]["1"][0])}
        env.step_batch(actions, states, out={"obs": plain})
        assert flat(np.asarray(tree["pair"]["0"][0])) == flat(want["pair"][0])
        for bad, match in (
            ({"count": plain["count"]}, r"out\['obs'\]\['pair'\]\[0\] is missing.*nested as"),
            (plain["count"], r"out\['obs'\]\['count'\]"),
            ({**plain, "pair": plain["pair"][:1]}, r"\['pair'\]\[1\] is missing.*no 1"),
            ({**plain, "count": plain["pair"][1]}, r"\['count'\] must be an array \(6,\) int64"),
        ):
            with pytest.raises(ValueError, match=match):
                env.step_batch(actions, states, out={"obs": bad})


@pytest.mark.parametrize("storage", ["local", "shared"])
def test_rollouts(env, serial, walk, storage):
    actions = np.arange(64).reshape(16, 4) % 2
    want = serial.rollout_batch(actions, walk)
    out = {
        "rewards": Array((16, 4), np.float32, storage=storage),
        "steps": Array((16,), np.int32, storage=storage),
        "states": Array((16,), np.uint8, feature_shape=(env.state_width,), storage=storage),
        "terminateds": Array((16,), np.bool_, storage=storage),
    }
    got = env.rollout_batch(actions, walk, out=out)
    assert got.steps is out["steps"]
    assert np.asarray(out["rewards"]).tolist() == want.rewards.tolist()
    for name in ("steps", "states", "terminateds"):
        assert flat(np.asarray(out[name])) == flat(getattr(want, name))
    assert flat(got.obs) == flat(want.obs)


def test_rows_go_on_from_states_of_their_own(env, serial, walk):
    # What the caller does to the states that it gets must not move the rows.
    out = {"states": Array((3,), np.uint8, feature_shape=(env.state_width,), storage="shared")}
    for one in (env, serial):
        one.set_state(walk[2])
    for _ in range(3):
        env.step_batch([0, 1, 0], out=out)
        want = serial.step_batch([0, 1, 0], return_state=True)
        assert flat(np.asarray(out["states"])) == flat(want.states)
        out["states"][...] = 0


def test_states_may_be_stepped_in_place(env, serial, walk):
    states = Array((16,), np.uint8, feature_shape=(env.state_width,), storage="shared")
    states[...] = walk
    now = walk
    for t in range(3):
        env.step_batch(ACTIONS, states.to_ndarray(), out={"states": states})
        now = serial.step_batch(ACTIONS, now).states
        assert flat(np.asarray(states)) == flat(now), f"step {t}"
    # And from one place to another that overlaps it.
    whole = Array((17,), np.uint8, feature_shape=(env.state_width,), storage="shared").to_ndarray()
    whole[:16] = walk
    env.step_batch(ACTIONS, whole[:16], out={"states": whole[1:]})
    assert flat(whole[1:].copy()) == flat(serial.step_batch(ACTIONS, walk).states)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_worker_that_dies_meanwhile(n_workers, serial, walk, tmp_path):
    killing = ACTIONS.copy()
    killing[8] = toy_envs.KILL_ONCE
    with ParallelEnv(
        functools.partial(Faulty, marker=str(tmp_path / "m")), n_workers=n_workers
    ) as env:
        out = arrays("shared", env.state_width)
        states = out["states"].to_ndarray()
        states[...] = walk
        # In place: what the dead worker has written must not be begun from again.
        got = env.step_batch(killing, states, out=out)
        want = serial.step_batch(ACTIONS, walk)
        for name, array in out.items():
            assert flat(np.asarray(array)) == flat(getattr(want, name)), name
        assert flat(list(got.infos)) == flat(list(want.infos))


@pytest.mark.parametrize("n_workers", [None, 2])
def test_states_that_outgrow_their_array(n_workers):
    build = functools.partial(ParallelEnv, n_workers=n_workers) if n_workers else GymEnv
    with build(Growing) as env:
        state, *_ = env.reset(seed=1)
        states = np.stack([state] * 4)
        for kind in ("local", "shared"):
            width = env.state_width
            out = {"states": Array((4,), np.uint8, feature_shape=(width,), storage=kind)}
            with pytest.raises(ValueError, match=rf"outgrown their rows; got \(4, {width}\)"):
                env.step_batch([0] * 4, states, dt=100 if kind == "local" else 900, out=out)
        out = {"states": Array((4,), np.uint8, feature_shape=(env.state_width,))}
        env.step_batch([0] * 4, states, dt=3, out=out)
        assert flat(np.asarray(out["states"])) == flat(env.step_batch([0] * 4, states, dt=3).states)


# Refused ----------------------------------------------------------------------------


def read_only():
    array = np.zeros((16, 4), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "error", "match"),
    [
        ({"ob": np.zeros(16)}, UnknownName, r"out has no field 'ob'.*did you mean 'obs'"),
        ({"steps": np.zeros(16, np.int32)}, UnknownName, "no field 'steps'; fields are states"),
        ({"infos": {}}, UnknownName, "no field 'infos'"),
        ({"obs": np.zeros((15, 4), np.float32)}, ValueError, r"\(16, 4\) float32; got \(15, 4\)"),
        ({"obs": np.zeros((16, 4))}, ValueError, r"\(16, 4\) float32; got \(16, 4\) float64"),
        ({"obs": np.zeros((16, 4), ">f4")}, ValueError, r"float32; got \(16, 4\) >f4"),
        ({"obs": read_only()}, ValueError, r"out\['obs'\] must be writable"),
        ({"obs": [[0.0] * 4] * 16}, ValueError, r"\(16, 4\) float32; got list"),
        ({"obs": None}, ValueError, "got NoneType"),
        ({"rewards": np.zeros(16, int)}, ValueError, r"\(16,\) float64 or float32; got"),
        ({"rewards": np.zeros((16, 1))}, ValueError, r"\(16,\) float64 or float32; got \(16, 1\)"),
        ({"states": np.zeros((16, 8), np.uint8)}, ValueError, r"\(16, \d+\) uint8; got \(16, 8\)"),
        ({"terminateds": np.zeros(16, np.int8)}, ValueError, r"\(16,\) bool; got \(16,\) int8"),
        (
            {"obs": Array((20,), np.float32, feature_shape=(4,))[np.arange(16)]},
            ValueError,
            r"out\['obs'\] must lie in memory of its own.*picked by arrays",
        ),
        ([np.zeros(16)], TypeError, "out must map names of the result's fields to arrays"),
    ],
    ids=lambda value: "" if isinstance(value, type | str) else str(list(value)),
)
def test_wrong_arrays_are_refused_before_anything_is_stepped(env, walk, out, error, match):
    for call in (
        lambda: env.step_batch(ACTIONS, walk, out=out),
        lambda: env.step_batch_async(ACTIONS, walk, out=out),
    ):
        with pytest.raises(error, match=rf"step_batch: .*{match}"):
            call()
    assert env.step_batch(ACTIONS, walk).rewards.tolist() == [1.0] * 16


def test_wrong_arrays_of_a_rollout(env, walk):
    actions = np.zeros((16, 4), int)
    with pytest.raises(ValueError, match=r"rollout_batch: out\['rewards'\] must be.*\(16, 4\)"):
        env.rollout_batch(actions, walk, out={"rewards": np.zeros(16)})
    with pytest.raises(ValueError, match=r"out\['steps'\] must be an array \(16,\) int32"):
        env.rollout_batch(actions, walk, out={"steps": np.zeros(16)})
