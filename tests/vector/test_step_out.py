"""`out=` of a vector env: results lie where the caller says, with the bytes of a call without."""

from __future__ import annotations

import collections
import os
import signal

import gymnasium as gym
import numpy as np
import pytest
import toy_envs
from interrupting import InterruptAt, points
from nested_env import Nested
from same_results import assert_same

import plangym_ext
from plangym_ext import Array, ArrayDict
from plangym_ext.errors import InvalidObservation, InvalidOption, UnknownName
from plangym_ext.vector.sub_envs.hosts import WorkerHost
from plangym_ext.workers.protocol import ForgetBlock, KnowArrays, OpenBlock

pytestmark = pytest.mark.slow

T = 24
HOSTS = {
    "serial": {"backend": "serial"},
    "process": {"n_workers": 2},
    "native": {},
}


class Counter(gym.Env):
    """Shows its step, an own number and a random one; ends by itself after some steps."""

    observation_space = gym.spaces.Box(0, 1e9, (3,), np.float64)
    action_space = toy_envs.Tame(8)

    def __init__(self, length=7):
        self.length = length

    def _obs(self):
        return np.array([self.t, self.length, self.np_random.random()])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {"t": 0, "begun": True}

    def step(self, action):
        self.t += 1
        if action == 3:
            raise ValueError("of the env")
        if action == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 6:
            raise SystemExit(3)
        info = {"t": self.t, "pair": np.array([self.t, -self.t])}
        if self.t == 2:
            info["two"] = 0.5
        return self._obs(), self.t / 3, self.t >= self.length, self.t % 5 == 0, info


MAKES = [lambda length=length: Counter(length) for length in (2, 7, 3, 9)]


def tree_of(venv, num_rows, storage, rewards=np.float64, infos=()):
    """A [T, num_rows] tree with an observation more, for an env with flat observations."""
    space = venv.single_observation_space

    def array(dtype, shape=(), length=T):
        return Array((length, num_rows), dtype, feature_shape=shape, storage=storage)

    tree = ArrayDict(
        {
            "obs": array(space.dtype, space.shape, T + 1),
            "rewards": array(rewards),
            "terminateds": array(bool),
            "truncateds": array(bool),
            "final_obs": array(space.dtype, space.shape),
        }
    )
    if infos:
        tree["infos"] = ArrayDict({name: array(*kind) for name, kind in infos.items()})
    return tree


def at(tree, t):
    """What step t writes to: the observation is that of t + 1."""
    return {name: value[t + 1 if name == "obs" else t] for name, value in tree.items()}


def results_of(out):
    return tuple(np.asarray(out[k]) for k in ("obs", "rewards", "terminateds", "truncateds"))


def check_finals(out, infos):
    """Compare the final observations with those of the infos; return how many there are."""
    ended = np.flatnonzero(infos.get("_final_obs", []))
    for row in ended:
        assert_same(np.asarray(out["final_obs"])[row], infos["final_obs"][row], "final_obs")
    return len(ended)


@pytest.mark.parametrize(
    ("name", "host", "storage", "mode"),
    [
        ("CartPole-v1", "serial", "local", "same_step"),
        ("CartPole-v1", "serial", "shared", "next_step"),
        ("CartPole-v1", "process", "local", "same_step"),
        ("CartPole-v1", "process", "shared", "same_step"),
        ("CartPole-v1", "process", "shared", "next_step"),
        ("CartPole-v1", "native", "local", "next_step"),
        ("CartPole-v1", "native", "shared", "same_step"),
        ("InvertedPendulum-v5", "native", "local", "next_step"),
        ("InvertedPendulum-v5", "native", "shared", "same_step"),
        ("FrozenLake-v1", "native", "shared", "same_step"),
    ],
)
def test_results_lie_where_the_caller_says_with_the_same_bytes(name, host, storage, mode):
    options = {"num_envs": 5, "autoreset_mode": mode, **HOSTS[host]}
    with (
        plangym_ext.make_vec(name, **options) as venv,
        plangym_ext.make_vec(name, **options) as plain,
    ):
        tree = tree_of(venv, 5, storage)
        obs, _ = venv.reset(seed=1, out={"obs": tree["obs"][0]})
        assert_same(np.asarray(obs), plain.reset(seed=1)[0])
        venv.action_space.seed(0)
        finals = ended = 0
        for t in range(T):
            actions = venv.action_space.sample()
            out = at(tree, t)
            got = venv.step(actions, out=venv.step_out(out) if t % 2 else out)
            expected = plain.step(actions)
            assert_same(results_of(out), expected[:4], f"step {t}")
            assert_same(got[4], expected[4], f"infos {t}")
            for mine, field in zip(got[:4], out, strict=False):
                assert mine is out[field], "the caller's own objects are returned"
            finals += check_finals(out, expected[4])
            ended += int((expected[2] | expected[3]).sum())
        assert ended, "otherwise nothing is shown"
        assert finals == (ended if mode == "same_step" else 0)
        assert_same(venv.observations(), plain.observations())
        assert (venv.get_states() == plain.get_states()).all()


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "InvertedPendulum-v5"])
def test_large_results_are_written_by_native_code_itself(name, monkeypatch):
    monkeypatch.setattr("plangym_ext.vector.kept_states._SMALL", 0)
    options = {"num_envs": 5, "autoreset_mode": "same_step"}
    with (
        plangym_ext.make_vec(name, **options) as venv,
        plangym_ext.make_vec(name, **options) as plain,
    ):
        tree = tree_of(venv, 5, "local")
        for one in (venv, plain):
            one.reset(seed=1)
        venv.action_space.seed(0)
        ended = 0
        for t in range(T):
            actions, out = venv.action_space.sample(), at(tree, t)
            want = plain.step(actions)
            assert_same(venv.step(actions, out=out)[4], want[4])
            assert_same(results_of(out), want[:4], f"step {t}")
            ended += check_finals(out, want[4])
        assert ended
        assert_same(venv.observations(), plain.observations())
        # Actions in the memory that results go to are read before it is written.
        shared = np.zeros(5, np.int64)
        if name == "FrozenLake-v1":
            shared[:] = actions
            venv.step(shared[:], out={"obs": shared})
            assert_same(shared, plain.step(actions)[0])


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_infos_are_what_the_step_itself_said(options, mode):
    kinds = {
        "t": (np.int32,),
        "_t": (bool,),
        "two": (np.float32,),
        "_two": (bool,),
        "pair": (np.int64, (2,)),
        "begun": (bool,),
    }
    with plangym_ext.make_vec(MAKES, autoreset_mode=mode, **options) as venv:
        venv.list_infos = True
        for storage in ("local", "shared"):
            tree = tree_of(venv, 4, storage, infos=kinds)
            begun = {"infos": {"t": tree["infos"]["t"][0], "begun": tree["infos"]["begun"][0]}}
            venv.reset(seed=0, out=begun)
            assert np.asarray(begun["infos"]["begun"]).all()
            for t in range(T):
                out = at(tree, t)
                *_, infos = venv.step(np.zeros(4, int), out=out)
                said = [{**info, **info.get("final_info", {})} for info in infos]
                shown = {key: np.asarray(value) for key, value in out["infos"].items()}
                assert shown["t"].tolist() == [info["t"] for info in said]
                assert shown["_t"].all()
                assert shown["two"].tolist() == [info.get("two", 0.0) for info in said]
                assert shown["_two"].tolist() == ["two" in info for info in said]
                pairs = [info.get("pair", np.zeros(2, int)).tolist() for info in said]
                assert shown["pair"].tolist() == pairs
                assert shown["begun"].tolist() == ["begun" in info for info in said]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("host", ["native", "serial", "process"])
def test_infos_that_were_not_named_are_not_returned(host, listed):
    options = {"max_episode_steps": 3, "autoreset_mode": "same_step", **HOSTS[host]}
    makes = [plangym_ext.make_vec("HalfCheetah-v5", 3, **options) for _ in range(2)]
    with makes[0] as whole, makes[1] as named:
        few = named.step_out({"rewards": np.zeros(3)}, infos=["x_velocity", "unknown"])
        none = named.step_out({"rewards": np.zeros(3)}, infos=())
        for venv in (whole, named):
            venv.reset(seed=0)
            venv.list_infos = listed
        for t in range(8):
            actions = np.full((3, 6), 0.1 * t, np.float32)
            *want, infos = whole.step(actions)
            *got, found = named.step(actions, out=none if t == 4 else few)
            assert_same(tuple(got), tuple(want))
            if listed:
                assert found == [only(info, t) for info in infos]
            else:
                assert_same(found, only(infos, t))


def only(infos, t):
    """What is left of infos, of endings in the steps 2 and 5, if the velocity alone is named."""
    if t == 4:
        return {}
    kept = {k: v for k, v in infos.items() if k.endswith("x_velocity")}
    if t % 3 == 2:
        kept["final_info"] = only(infos["final_info"], 0)
        kept |= {k: v for k, v in infos.items() if k == "_final_info"}
    return kept


@pytest.mark.parametrize(
    ("host", "mode"), [("native", "next_step"), ("native", "same_step"), ("process", "same_step")]
)
def test_infos_are_the_same_on_every_backend(host, mode):
    options = {"max_episode_steps": 6, "autoreset_mode": mode, **HOSTS[host]}
    with plangym_ext.make_vec("HalfCheetah-v5", 3, **options) as venv:
        kinds = {"x_position": (np.float64,), "_x_velocity": (bool,), "x_velocity": (np.float32,)}
        tree = tree_of(venv, 3, "shared", np.float32, kinds)
        venv.list_infos = True
        venv.reset(seed=0)
        for t in range(14):
            out = at(tree, t)
            *_, infos = venv.step(np.zeros((3, 6), np.float32), out=out)
            said = [{**info, **info.get("final_info", {})} for info in infos]
            shown = {key: np.asarray(value) for key, value in out["infos"].items()}
            assert shown["x_position"].tolist() == [info["x_position"] for info in said]
            speeds = [np.float32(info.get("x_velocity", 0)) for info in said]
            assert shown["x_velocity"].tolist() == speeds
            assert shown["_x_velocity"].tolist() == ["x_velocity" in info for info in said]


@pytest.mark.parametrize(
    ("host", "storage"),
    [
        ("serial", "local"),
        ("process", "local"),
        ("process", "shared"),
        ("native", "local"),
        ("native", "shared"),
    ],
)
def test_some_rows_are_written_in_the_order_of_env_ids(host, storage):
    name = "CartPole-v1"
    with (
        plangym_ext.make_vec(name, 6, autoreset_mode="same_step", **HOSTS[host]) as venv,
        plangym_ext.make_vec(name, 6, autoreset_mode="same_step", **HOSTS[host]) as plain,
    ):
        tree = tree_of(venv, 3, storage, np.float32)
        for one in (venv, plain):
            one.reset(seed=0)
        rng, finals = np.random.default_rng(0), 0
        for t in range(T):
            rows = rng.permutation(6)[:3]
            actions = np.ones(3, int)
            expected, out = plain.step(actions, rows), at(tree, t)
            *_, infos = venv.step(actions, rows, out=out)
            obs, rewards, *flags = results_of(out)
            assert_same((obs, *flags), (expected[0], *expected[2:4]))
            assert_same(rewards, expected[1].astype(np.float32))
            assert_same(infos, expected[4])
            finals += check_finals(out, infos)
        assert finals


@pytest.mark.parametrize("storage", ["local", "shared"])
@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_nested_observations_lie_in_trees(options, storage):
    class Ending(Nested):
        def step(self, action):
            obs, reward, _, truncated, info = super().step(action)
            return obs, reward, self.count > 5, truncated, info

    options = {"autoreset_mode": "same_step", **options}
    with (
        plangym_ext.make_vec(Ending, 3, **options) as venv,
        plangym_ext.make_vec(Ending, 3, **options) as plain,
    ):
        space = venv.single_observation_space
        tree = ArrayDict(
            {
                name: ArrayDict.from_space(space, batch_shape=(T, 3), storage=storage)
                for name in ("obs", "final_obs")
            }
        )
        venv.reset(seed=0)
        plain.reset(seed=0)
        venv.action_space.seed(0)
        finals = 0
        for t in range(T):
            actions = venv.action_space.sample()
            out = {name: tree[name][t] for name in tree}
            obs, *_ = venv.step(actions, out=out)
            expected, *_, infos = plain.step(actions)
            assert_same(np.asarray(obs["count"]), expected["count"])
            for k in range(2):
                assert_same(np.asarray(obs["pair"][str(k)]), expected["pair"][k])
            for row in np.flatnonzero(infos.get("_final_obs", [])):
                finals += 1
                got, want = out["final_obs"], infos["final_obs"][row]
                assert np.asarray(got["count"])[row] == want["count"]
                assert (np.asarray(got["pair"]["0"])[row] == want["pair"][0]).all()
        assert finals


def test_arrays_that_were_checked_serve_another_vector_env_too():
    makes = {"n_workers": 2}, {"n_workers": 1}, {"backend": "serial"}, {}
    venvs = [plangym_ext.make_vec("CartPole-v1", 3, **options) for options in makes]
    tree = tree_of(venvs[0], 3, "shared")
    outs = [venvs[0].step_out(at(tree, t)) for t in range(2)]
    other = tree_of(venvs[0], 3, "shared")  # has the numbers of the first one elsewhere
    venvs[1].reset(seed=0)
    venvs[1].step(np.ones(3, int), out=at(other, 0))
    for venv in venvs:
        with venv:
            venv.reset(seed=0)
            for out in outs:
                tree["obs"][...] = 0.0
                obs, *_ = venv.step(np.ones(3, int), out=out)
                assert_same(np.asarray(obs), venv.observations())
                assert np.asarray(obs).any()
    with plangym_ext.make_vec("MountainCar-v0", 3) as venv:
        venv.reset(seed=0)
        with pytest.raises(ValueError, match=r"\(3, 2\) float32; got \(3, 4\)"):
            venv.step(np.zeros(3, int), out=outs[0])


# What is refused -----------------------------------------------------------------------


def flags(num=4):
    return np.zeros(num, bool)


def read_only():
    found = flags()
    found.flags.writeable = False
    return found


def sharing():
    memory = np.zeros((4, 3))
    return {"obs": memory, "final_obs": memory}


WRONG = {
    "name": ({"terminations": flags()}, UnknownName, "'terminations'; fields are obs, rewards"),
    "near name": ({"reward": np.zeros(4)}, UnknownName, "did you mean 'rewards'"),
    "no mapping": (np.zeros(4), TypeError, "must map names of results to arrays"),
    "shape": ({"obs": np.zeros((5, 3))}, ValueError, r"\(4, 3\) float64; got \(5, 3\)"),
    "dtype": ({"obs": np.zeros((4, 3), np.float32)}, ValueError, "float64; got .* float32"),
    "rewards": ({"rewards": np.zeros(4, int)}, ValueError, "float64 or float32; got .* int64"),
    "no array": ({"rewards": [0.0] * 4}, ValueError, "must be an array; got list"),
    "read-only": ({"terminateds": read_only()}, ValueError, "must be writable"),
    "one row for all": (
        {"rewards": np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,))},
        ValueError,
        "memory for every row",
    ),
    "overlap": (sharing(), ValueError, "'obs0' and 'final_obs0' share memory"),
    "infos": ({"infos": np.zeros(4)}, ValueError, "must map names of infos"),
    "info": ({"infos": {"t": np.zeros(3)}}, ValueError, r"'t'\] must be an array of numbers"),
    "info kind": ({"infos": {"t": np.full(4, "a")}}, ValueError, "array of numbers"),
    "info mask": ({"infos": {"_t": np.zeros(4)}}, ValueError, r"\(4,\) bool; got .* float64"),
    "picked": (
        {"rewards": Array((8,), np.float64)[np.array([0, 2, 3, 5])]},
        ValueError,
        "memory of its own",
    ),
}


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
def test_arrays_that_do_not_fit_are_refused_before_anything_is_stepped(options):
    with plangym_ext.make_vec(MAKES, **options) as venv:
        venv.reset(seed=0)
        before = venv.get_states()
        for what, (out, error, words) in WRONG.items():
            for call in (venv.step, venv.step_async):
                with pytest.raises(error, match=words):
                    call(np.zeros(4, int), out=out)
            with pytest.raises(error, match=words):
                venv.step_out(out)
            assert (venv.get_states() == before).all(), what
        with pytest.raises(UnknownName, match="reset: out has no field 'rewards'"):
            venv.reset(out={"rewards": np.zeros(4)})
        with pytest.raises(ValueError, match=r"\(2, 3\) float64; got \(4, 3\)"):
            venv.step(np.zeros(2, int), [0, 1], out=venv.step_out({"obs": np.zeros((4, 3))}))
        assert (venv.get_states() == before).all()


def test_observations_without_an_array_form_are_refused():
    class Graphs(Counter):
        observation_space = gym.spaces.Text(5)

        def _obs(self):
            return "abc"

    with plangym_ext.make_vec(Graphs, 2, backend="serial") as venv:
        venv.reset(seed=0)
        with pytest.raises(InvalidOption, match="have no array form"):
            venv.step(np.zeros(2, int), out={"obs": np.zeros(2)})
        rewards = np.zeros(2)
        venv.step(np.zeros(2, int), out={"rewards": rewards})
        assert rewards.tolist() == [1 / 3] * 2


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}], ids=str)
@pytest.mark.parametrize("storage", ["local", "shared"])
def test_a_call_that_fails_has_not_happened(options, storage):
    with (
        plangym_ext.make_vec(MAKES, **options) as venv,
        plangym_ext.make_vec(MAKES, backend="serial") as plain,
    ):
        venv.reset(seed=0)
        plain.reset(seed=0)
        tree = tree_of(venv, 4, storage, infos={"pair": (np.int64, (3,))})
        with pytest.raises(ValueError, match="of the env"):
            venv.step(np.array([0, 0, 0, 3]), out=at(tree, 0))
        with pytest.raises(InvalidOption, match=r"'pair'\] has room for \(3,\) numbers"):
            venv.step(np.zeros(4, int), out=at(tree, 0))
        del tree["infos"]
        out = at(tree, 1)
        venv.step(np.zeros(4, int), out=out)
        assert_same(results_of(out), plain.step(np.zeros(4, int))[:4])


def test_values_that_are_refused_are_refused_with_out_too():
    class Broken(Counter):
        def _obs(self):
            return super()._obs() * (np.nan if self.t == 3 else 1)

    with plangym_ext.make_vec(Broken, 2, n_workers=2) as venv:
        venv.reset(seed=0)
        tree = tree_of(venv, 2, "shared")
        for t in range(2):
            venv.step(np.zeros(2, int), out=at(tree, t))
        for _ in range(2):
            with pytest.raises(InvalidObservation, match="nan"):
                venv.step(np.zeros(2, int), out=at(tree, 2))


def test_marks_of_invalid_values_are_infos():
    class Broken(Counter):
        def _obs(self):
            return super()._obs() * (np.nan if self.t == 2 else 1)

    for options in ({"backend": "serial"}, {"n_workers": 2}):
        with plangym_ext.make_vec(Broken, 2, invalid="mark", **options) as venv:
            venv.reset(seed=0)
            marks = Array((2,), bool, storage="shared")
            found = []
            for _ in range(3):
                venv.step(np.zeros(2, int), out={"infos": {"invalid": marks}})
                found.append(np.asarray(marks).tolist())
            assert found == [[False] * 2, [True] * 2, [False] * 2]


# Workers -------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["local", "shared"])
def test_a_worker_that_dies_has_its_rows_written_to_the_same_arrays(storage, tmp_path):
    class Fatal(Counter):
        """Kills its process the first time that it is told to."""

        def step(self, action):
            marker = tmp_path / "died"
            if action == 7 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(0)

    makes = [lambda length=length: Fatal(length) for length in (9, 9, 7, 9)]
    same = [lambda length=length: Counter(length) for length in (9, 9, 7, 9)]
    options = {"autoreset_mode": "same_step"}
    with (
        plangym_ext.make_vec(makes, n_workers=2, **options) as venv,
        plangym_ext.make_vec(same, backend="serial", **options) as plain,
    ):
        tree = tree_of(venv, 4, storage, infos={"t": (np.int64,)})
        tree["rewards"][...] = -1.0
        venv.reset(seed=0)
        plain.reset(seed=0)
        pids = venv.worker_pids
        for t in range(T):
            actions = np.array([0, 0, 7 if t == 4 else 0, 0])
            if t == 12:  # between two steps
                os.kill(venv.worker_pids[0], signal.SIGKILL)
            if t == 16:  # while it steps, or as it has
                venv.step_async(actions, out=at(tree, t))
                os.kill(venv.worker_pids[1], signal.SIGKILL)
                venv.step_wait()
            else:
                venv.step(actions, out=at(tree, t))
            want = plain.step(np.zeros(4, int))
            assert_same(results_of(at(tree, t)), want[:4], f"step {t}")
            check_finals(at(tree, t), want[4])
            # What was played again did not touch what earlier steps were written to.
            assert (np.asarray(tree["rewards"])[t + 1 :] == -1).all()
        assert (tmp_path / "died").exists()
        assert not {*pids} & {*venv.worker_pids}
        rows = [np.asarray(at(tree, t)["rewards"]).tobytes() for t in range(T)]
        tree["rewards"][...] = 0.0
        assert len(set(rows)) > 3, "they differ from each other"


@pytest.mark.parametrize("options", [{"backend": "serial"}, {"n_workers": 2}, {}], ids=str)
def test_an_interrupt_at_any_line_leaves_the_step_done_or_not(options):
    name, num = "CartPole-v1", 4
    with (
        plangym_ext.make_vec(name, num, autoreset_mode="same_step", **options) as venv,
        plangym_ext.make_vec(name, num, autoreset_mode="same_step", backend="serial") as plain,
    ):
        for one in (venv, plain):
            one.reset(seed=0)
        actions = np.ones(num, int)
        with InterruptAt(-1) as count:
            venv.step(actions, out=at(tree_of(venv, num, "shared"), 0))
        want = plain.step(actions)
        for number in points(count.lines, 4):
            # New memory each time, so that workers have to be told.
            out = at(tree_of(venv, num, "shared"), 0)
            try:
                with InterruptAt(number):
                    venv.step(actions, out=out)
            except KeyboardInterrupt:
                got = venv.step(actions, out=out)[:4]
                want = plain.step(actions)
                if not np.array_equal(np.asarray(got[0]), want[0]):
                    want = plain.step(actions)
            else:
                want = plain.step(actions)
            assert_same(results_of(out), want[:4])


def test_workers_are_told_once_of_arrays_and_forget_those_that_are_gone(monkeypatch):
    told = collections.Counter()
    post = plangym_ext.workers.worker_handle.WorkerHandle.post

    def counted(self, message, *others, **options):
        told[type(message)] += 1
        post(self, message, *others, **options)

    monkeypatch.setattr(plangym_ext.workers.worker_handle.WorkerHandle, "post", counted)
    with plangym_ext.make_vec(MAKES, n_workers=2) as venv:
        venv.reset(seed=0)
        told.clear()
        for _ in range(2):
            tree = tree_of(venv, 4, "shared")
            outs = [at(tree, t) for t in range(4)]
            for _ in range(3):
                for out in outs:
                    venv.step(np.zeros(4, int), out=out)  # the same memory, checked anew
        # Two workers, two trees of five arrays (blocks), four rows of each.
        assert told[OpenBlock] == 2 * 2 * 5
        assert told[KnowArrays] == 2 * 2 * 4
        assert told[ForgetBlock] == 2 * 5, "of the first tree"
        del tree, outs, out
        tree = tree_of(venv, 4, "shared")
        venv.step(np.zeros(4, int), out=at(tree, 0))
        venv.step(np.zeros(4, int), out=at(tree, 1))
        assert told[ForgetBlock] == 2 * 2 * 5, "those of both trees that are gone"
        hosts = [host for host in venv._backend._hosts.hosts if isinstance(host, WorkerHost)]
        assert all(len(host._known) == 5 + 2 for host in hosts)


def test_memory_that_was_closed_is_written_by_this_process():
    with plangym_ext.make_vec(MAKES, n_workers=2) as venv:
        venv.reset(seed=0)
        rewards = Array((4,), np.float64, storage="shared")
        view = rewards.to_ndarray(copy=False)
        out = venv.step_out({"rewards": view})
        venv.step(np.zeros(4, int), out=out)
        rewards.close()  # the view stays valid, but no further process can map it
        os.kill(venv.worker_pids[0], signal.SIGKILL)
        venv.step(np.zeros(4, int), out=out)
        assert view.tolist() == [2 / 3, 2 / 3, 2 / 3, 2 / 3]
