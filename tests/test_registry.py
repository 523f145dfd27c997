"""From a name to an env: names that are not there, and what the arguments do."""

import functools
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import plangym_ext
from plangym_ext.errors import NoKernel, UnknownName
from plangym_ext.registry import find_spec


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("CartPole-v2", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPol-v1", "CartPole-v1"),
        ("ALE/MsPacmann-v5", "ALE/MsPacman-v5"),
        ("ale/pong-v5", "ALE/Pong-v5"),
    ],
)
def test_unknown_name_has_a_close_match_on_one_line(name, close):
    with pytest.raises(UnknownName) as caught:
        plangym_ext.make(name)
    message = str(caught.value)
    assert repr(name) in message
    assert f"did you mean {close!r}?" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["", "qqqqqqqqqqqq-v0", "no such env", "a:b"])
def test_name_that_is_like_nothing_has_no_match(name):
    with pytest.raises(UnknownName) as caught:
        plangym_ext.make(name)
    assert f"got {name!r}" in str(caught.value)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 3], ids=repr)
def test_name_that_is_neither_text_nor_callable_is_refused(name):
    with pytest.raises(TypeError, match="expected a registered gymnasium id"):
        plangym_ext.make(name)


def test_a_class_or_a_callable_is_made_as_a_name_is():
    with plangym_ext.make(CartPoleEnv) as env:
        assert (env.backend, env.name) == ("kernel", "CartPoleEnv")
        state, *_ = env.reset(seed=3)
    with plangym_ext.make(lambda: CartPoleEnv(), backend="serial", frameskip=2) as env:
        assert (env.backend, env.frameskip) == ("serial", 2)
        assert len(env.reset(seed=3)[0]) == len(state)
    with pytest.raises(TypeError, match=r"sutton can be given with a name only; .*partial"):
        plangym_ext.make(CartPoleEnv, sutton=True)
    with pytest.raises(TypeError, match=r"got the env <CartPoleEnv.*Pass its class"):
        plangym_ext.make(CartPoleEnv())


@pytest.mark.slow
def test_a_callable_runs_in_workers_too():
    with (
        plangym_ext.make(functools.partial(CartPoleEnv, True), n_workers=1) as env,
        plangym_ext.make(functools.partial(CartPoleEnv, True), n_workers=0) as here,
    ):
        assert (env.backend, here.backend) == ("process", "kernel")
        state, *_ = env.reset(seed=3)
        results = [one.step_batch([1, 0], [state, state], dt=9) for one in (env, here)]
        assert (results[0].states == results[1].states).all()


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Return a module on the path that registers an env."""
    (tmp_path / "corridor_module.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Corridor-v0', 'gymnasium.envs.toy_text:BlackjackEnv')\n"
    )
    (tmp_path / "broken_module.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    gym.registry.pop("Corridor-v0", None)
    for name in ("corridor_module", "broken_module"):
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.usefixtures("own_module")
def test_the_module_of_an_id_is_imported_first():
    with plangym_ext.make("corridor_module:Corridor-v0", n_workers=1) as env:
        assert env.plan_env.name == "Corridor-v0"
        state, *_ = env.reset(seed=0)
        assert env.step_batch([1], [state]).rewards.shape == (1,)
    with plangym_ext.make_vec("corridor_module:Corridor-v0", 2) as venv:
        venv.reset(seed=0)
    with pytest.raises(UnknownName, match=r"did you mean 'Corridor-v0'\?"):
        plangym_ext.make("corridor_module:Coridor-v0")
    with pytest.raises(UnknownName, match=r"There is no module 'corridor_modul' in sys.path"):
        plangym_ext.make("corridor_modul:Corridor-v0")
    # What the module itself fails with is not hidden.
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        plangym_ext.make("broken_module:Corridor-v0")


def test_unknown_backend_is_refused_with_those_there_are():
    known = "auto, serial, process, kernel, mujoco, ray"
    with pytest.raises(UnknownName, match=rf"one of {known}; got 'proces'.*'process'"):
        plangym_ext.make("CartPole-v1", backend="proces")


def test_default_backend_is_the_kernel_where_there_is_one():
    with plangym_ext.make("CartPole-v1") as env:
        assert env.backend == "kernel"
        assert isinstance(env, plangym_ext.KernelEnv)
    with plangym_ext.make("Blackjack-v1", n_workers=0) as env:
        assert env.backend == "serial"
        assert isinstance(env, plangym_ext.GymEnv)


def test_serial_backend_is_there_for_the_asking():
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        assert env.backend == "serial"
        assert isinstance(env, plangym_ext.GymEnv)


def test_a_kernel_that_is_asked_for_and_missing_is_an_error():
    with pytest.raises(NoKernel, match="BlackjackEnv: no kernel is known for this class"):
        plangym_ext.make("Blackjack-v1", backend="kernel")


@pytest.mark.parametrize(
    "settings", [{"backend": "serial"}, {"backend": "process"}, {"n_workers": 2}]
)
def test_threads_are_the_kernel_backends(settings):
    with pytest.raises(ValueError, match="threads=2"):
        plangym_ext.make("CartPole-v1", threads=2, **settings)
    with plangym_ext.make("CartPole-v1", threads=2) as env:
        assert env.threads == 2


@pytest.mark.slow
def test_number_of_workers_or_the_backend_start_processes():
    with plangym_ext.make("CartPole-v1", n_workers=1) as env:
        assert (env.backend, env.n_workers) == ("process", 1)
    with plangym_ext.make("CartPole-v1", backend="process", n_workers=2) as env:
        assert (env.backend, len(env.batch_env)) == ("process", 2)


def test_arguments_reach_the_constructor_and_the_settings():
    with plangym_ext.make(
        "Pendulum-v1", frameskip=3, autoreset=False, g=1.5, max_episode_steps=4
    ) as env:
        assert env.gym_env.unwrapped.g == 1.5
        assert (env.frameskip, env.autoreset) == (3, False)
        env.reset(seed=0)
        # Three steps pass, the fourth is the limit: the second call takes but one.
        assert not env.step([0.0]).truncated
        last = env.step([0.0])
        assert (last.truncated, last.info["n_step"]) == (True, 1)


def test_unknown_argument_is_refused():
    with pytest.raises(UnknownName, match="no_such_argument"):
        plangym_ext.make("CartPole-v1", no_such_argument=1)


@pytest.mark.parametrize(
    ("call", "given", "close"),
    [
        ("make_vec", {"num_env": 2}, "num_envs"),
        ("make_vec", {"num_env": 2, "backend": "kernel"}, "num_envs"),
        ("make_vec", {"num_env": 2, "backend": "serial"}, "num_envs"),
        ("make_vec", {"autoreset": "disabled"}, "autoreset_mode"),
        ("make_vec", {"suton_barto_reward": True, "n_workers": 0}, "sutton_barto_reward"),
        ("make", {"frame_skip": 2}, "frameskip"),
        ("make", {"max_episode_step": 2}, "max_episode_steps"),
        # No argument of `make`, and its name was given.
        ("make", {"nam": 2}, None),
        ("make", {"kwarg": 2}, None),
    ],
)
def test_an_unknown_argument_has_the_closest_one_of_the_call(call, given, close):
    with pytest.raises(UnknownName) as caught:
        getattr(plangym_ext, call)("CartPole-v1", **given)
    meant = "" if close is None else f" (did you mean {close!r}?)"
    assert str(caught.value) == f"{call}: CartPole-v1 has no option {next(iter(given))!r}{meant}"


def test_native_rows_take_the_frameskip_and_the_threads_of_make():
    options = {"frameskip": 3, "threads": 1, "max_episode_steps": 3}
    with plangym_ext.make_vec("CartPole-v1", 2, backend="kernel", **options) as venv:
        venv.reset(seed=0)
        assert venv.step([0, 1])[3].tolist() == [True, True]


def test_env_that_the_caller_registered_is_found():
    gym.register("Mine-v3", CartPoleEnv, max_episode_steps=2)
    try:
        with plangym_ext.make("Mine-v3") as env:
            env.reset(seed=0)
            assert [env.step(0).truncated for _ in range(2)] == [False, True]
        with pytest.raises(UnknownName, match="did you mean 'Mine-v3'"):
            plangym_ext.make("Mine-v4")
    finally:
        del gym.registry["Mine-v3"]


def test_spec_of_a_game_is_found_without_importing_it_first():
    assert find_spec("ALE/Pong-v5").id == "ALE/Pong-v5"


def test_without_a_seed_two_envs_differ():
    # The probe at construction seeds the env; it must not show.
    with plangym_ext.make("CartPole-v1") as one, plangym_ext.make("CartPole-v1") as other:
        assert one.reset()[0].tobytes() != other.reset()[0].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "prefix"),
    [("gymnasium, plangym_ext", ""), ("plangym_ext, gymnasium", "plangym_ext.ids:")],
)
def test_gymnasium_makes_our_envs_in_a_fresh_process(imports, prefix, tmp_path):
    # All but the task that needs files of another package; gymnasium's checker does not warn.
    code = f"""import {imports}
import sys
assert not [name for name in sys.modules if name.startswith("plangym_ext.envs")]
gymnasium.make("{prefix}plangym_ext/Sokoban-v0").reset(seed=0)
ours = [name for name in gymnasium.registry if name.startswith("plangym_ext/")]
assert len(ours) > 30
for name in {{*ours}} - {{"plangym_ext/Vec-v0", "plangym_ext/Trials-v0", "plangym_ext/dog-run-v0"}}:
    env = gymnasium.make(name)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()
print(gymnasium.make_vec("plangym_ext/Vec-v0", num_envs=2, env_id="Acrobot-v1").backend)
"""
    command = [sys.executable, "-P", "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "kernel\n"), result.stderr
    assert "Warning: \033" not in result.stderr


def test_an_id_that_a_user_registered_before_is_left_alone(tmp_path):
    code = """import gymnasium
gymnasium.register("plangym_ext/Sokoban-v0", "their.module:Sokoban")
import plangym_ext
print(gymnasium.spec("plangym_ext/Sokoban-v0").entry_point)
"""
    command = [sys.executable, "-P", "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("their.module:Sokoban\n", "")
