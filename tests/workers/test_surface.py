"""Names, arguments and tuple orders that plangym's users know."""

import inspect

import numpy as np
import pytest
from toy_envs import Faulty

from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

# Leading arguments, as plangym 0.1.32 has them; ours may go on after them.
PLANGYM = {
    ExternalProcess: {
        "__init__": ["constructor"],
        "call": ["name", "args", "kwargs"],
        "close": [],
        "set_state": ["state", "blocking"],
        "step_batch": ["actions", "states", "dt", "return_state", "blocking"],
        "step": ["action", "state", "dt", "blocking"],
        "reset": ["blocking", "return_states"],
    },
    BatchEnv: {
        "__init__": ["envs", "blocking"],
        "__len__": [],
        "__getitem__": ["index"],
        "__getattr__": ["name"],
        "make_transitions": ["actions", "states", "dt", "return_state"],
        "sync_states": ["state", "blocking"],
        "reset": ["indices", "return_states"],
        "close": [],
    },
    ParallelEnv: {
        "__init__": [
            *("env_class", "name", "frameskip", "autoreset"),
            *("delay_setup", "n_workers", "blocking"),
        ],
        "setup": [],
        "clone": [],
        "make_transitions": ["actions", "states", "dt", "return_state"],
        "step_batch": ["actions", "states", "dt", "return_state"],
        "sync_states": ["state"],
        "reset": [],
        "step": ["action", "state", "dt", "return_state"],
        "get_state": [],
        "set_state": ["state"],
        "sample_action": [],
        "close": [],
    },
}
DEFAULTS = {
    (ExternalProcess, "step"): {"state": None, "dt": 1, "blocking": True},
    (ExternalProcess, "step_batch"): {"states": None, "dt": None, "blocking": True},
    (ExternalProcess, "reset"): {"blocking": True, "return_states": False},
    (BatchEnv, "reset"): {"indices": None, "return_states": True},
    (BatchEnv, "sync_states"): {"blocking": True},
    (ParallelEnv, "__init__"): {"frameskip": 1, "autoreset": True, "delay_setup": False},
    (ParallelEnv, "step_batch"): {"states": None, "dt": 1, "return_state": None},
}
CASES = [(c, method) for c, methods in PLANGYM.items() for method in methods]


@pytest.mark.parametrize(("kind", "method"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_arguments_stand_where_plangym_has_them(kind, method):
    parameters = inspect.signature(getattr(kind, method)).parameters
    want = PLANGYM[kind][method]
    assert list(parameters)[1 : 1 + len(want)] == want
    for name, value in DEFAULTS.get((kind, method), {}).items():
        assert parameters[name].default == value
    # Whatever is added can be left out.
    for parameter in list(parameters.values())[1 + len(want) :]:
        assert parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD


@pytest.mark.slow
def test_tuples_are_in_plangyms_order():
    with ParallelEnv(env_class=Faulty, name=None, n_workers=2, blocking=True) as env:
        assert env.blocking
        state, obs, info = env.reset()
        assert (state.dtype, obs.shape, info) == (np.uint8, (4,), {})
        obs, info = env.reset(return_state=False)
        states = [state.copy() for _ in range(10)]
        actions = [env.sample_action() for _ in range(10)]
        for call in (env.step_batch, env.make_transitions):
            new_states, observs, rewards, ends, truncateds, infos = call(
                states=states, actions=actions
            )
            assert (len(new_states), observs.shape) == (10, (10, 4))
            assert rewards.tolist() == [1.0] * 10
            assert (ends.dtype, truncateds.dtype) == (np.bool_, np.bool_)
            assert [row["n_step"] for row in infos] == [1] * 10
            observs, rewards, ends, truncateds, infos = call(actions, states, return_state=False)
            assert len(call(actions)) == 5
            assert len(call(actions, None, np.full(10, 2), True)) == 6
        for mixed in ([state, None], [None, state], [None, None]):
            with pytest.raises(ValueError, match=r"states\[\d\] is None; expected a state in ev"):
                env.step_batch(actions[:2], mixed)
        assert len(env.step(0)) == 5
        assert len(env.step(0, state)) == 6
        env.sync_states(state)
        assert env.get_state().tobytes() == state.tobytes()
        process = env.batch_env[0]
        obs, info = process.reset()
        start, obs, info = process.reset(return_states=True)
        assert process.reset(blocking=False)()[0].shape == (4,)
        assert process.set_state(start) is None
        assert process.set_state(start, blocking=False)() is None
        assert len(process.step(0)) == 5
        assert len(process.step(0, start, 2, False)()) == 6
        assert len(process.step_batch([0, 1], [start, start])) == 6
        assert len(process.step_batch([0, 1], blocking=False)()) == 5
        assert process.call("get_state")().shape == start.shape
        obs, states = env.batch_env.reset()
        assert (obs.shape, len(states), len(env.batch_env)) == ((2, 4), 2, 2)
        assert env.batch_env.reset([1], return_states=False).shape == (1, 4)
