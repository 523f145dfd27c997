"""Which infos come back: the counts alone, what is a number, or everything."""

import functools

import nested_env
import numpy as np
import pytest
import toy_envs
from batches import warm_up
from toy_envs import Faulty

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import UnknownName
from plangym_ext.testing.episode import flat
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = [
    pytest.mark.slow,  # workers take about 0.3 s to start
    pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning"),
]
MIXED = np.array([0, toy_envs.MIXED_INFO, toy_envs.ODD_INFO, 1] * 4)
COUNTS = {"n_step": 1, "dt": 1}


@pytest.fixture(scope="module", params=[None, 1, 2], ids="{}-workers".format)
def env(request, walk):
    build = GymEnv
    if request.param:
        build = functools.partial(ParallelEnv, n_workers=request.param)
    with build(Faulty) as env:
        warm_up(env, walk)
        yield env


def test_none_gives_the_counts(env, walk):
    infos = env.step_batch(MIXED, walk, infos="none").infos
    assert infos.keys() == ["n_step", "dt"]
    assert list(infos) == [COUNTS] * 16


def test_numeric_gives_what_is_a_number(env, serial, walk):
    infos = env.step_batch(MIXED, walk, infos="numeric").infos
    assert flat(list(infos)) == flat(list(serial.step_batch(MIXED, walk).infos))
    assert infos[1] == {"odd": 0.5, **COUNTS}
    assert infos[0] == COUNTS


def test_all_gives_everything(env, serial, walk):
    infos = env.step_batch(MIXED, walk, infos="all").infos
    assert flat(list(infos)) == flat(list(serial.step_batch(MIXED, walk, infos="all").infos))
    assert infos[1] == {"odd": 0.5, "text": "here", "things": [1, {"deep": (2, None)}], **COUNTS}
    rolled = env.rollout_batch(MIXED.reshape(4, 4), walk[:4], infos="all").infos
    assert [row["n_step"] for row in rolled] == [4] * 4


@pytest.mark.parametrize("infos", ["none", "numeric", "all"])
def test_slots_and_batches_in_flight_take_the_same_modes(env, serial, walk, infos):
    slots = env.states.allocate(16)
    env.states[slots] = walk
    want = flat(list(serial.step_batch(MIXED, walk, infos=infos).infos))
    found = [
        env.step_slots(MIXED, slots, slots, infos=infos),
        env.step_batch_async(MIXED, walk, infos=infos).wait(),
    ]
    for result in found:
        assert flat(list(result.infos)) == want
    env.states.free(slots)


def test_modes_of_an_env_with_many_fields():
    with (
        GymEnv(nested_env.limited_nested) as reference,
        ParallelEnv(nested_env.limited_nested, n_workers=2) as env,
    ):
        state, *_ = reference.reset(seed=0)
        actions = (np.arange(12) % 3 - 1, np.zeros((12, 2), np.float32))
        states = reference.step_batch(actions, np.stack([state] * 12), dt=3).states
        for infos in ("none", "numeric", "all"):
            got, want = (e.step_batch(actions, states, infos=infos).infos for e in (env, reference))
            assert got.keys() == want.keys()
            assert flat(list(got)) == flat(list(want))
            assert ("label" in got[0]) == (infos == "all")


def test_info_that_cannot_leave_its_worker_is_named(env, walk):
    actions = [0, 0, toy_envs.LAMBDA_INFO, 0]
    if isinstance(env, GymEnv):
        assert env.step_batch(actions, walk[:4], infos="all").infos[2]["callback"]() == 0
        return
    with pytest.raises(
        TypeError, match=r"field 'callback' cannot leave its worker.*'numeric'"
    ) as e:
        env.step_batch(actions, walk[:4], infos="all")
    assert f"row 2, action [{toy_envs.LAMBDA_INFO}]" in e.value.__notes__[0]
    # It was not asked for here, and nothing is wrong.
    assert env.step_batch(actions, walk[:4]).infos[2] == COUNTS


@pytest.mark.parametrize("infos", ["some", None, 1, "Numeric"], ids=repr)
def test_unknown_mode(env, walk, infos):
    for call in (
        lambda: env.step_batch([0] * 16, walk, infos=infos),
        lambda: env.rollout_batch([[0]] * 16, walk, infos=infos),
    ):
        with pytest.raises(UnknownName, match="infos must be one of none, numeric, all; got"):
            call()
