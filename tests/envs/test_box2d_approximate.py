"""Box2D's approximate states: near, never chosen unasked, and called what they are."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import ForeignState, IncompleteState

LANDER, WALKER, CAR = "LunarLander-v3", "BipedalWalker-v3", "CarRacing-v3"
VARIANTS = [
    (LANDER, {}),
    (LANDER, {"continuous": True, "enable_wind": True}),
    (WALKER, {}),
    (WALKER, {"hardcore": True}),
    pytest.param(CAR, {}, marks=pytest.mark.slow),
    pytest.param(CAR, {"continuous": False}, marks=pytest.mark.slow),
]


def make(name, **options):
    return plangym_ext.make(name, autoreset=False, **options)


def play(env, actions):
    return [env.step(action) for action in actions]


def actions_for(env, count):
    """Random actions; a car gets gentle ones."""
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(count)]
    if env.action_space.shape == (3,):
        return [np.array([0.2 * a[0], 0.3 * abs(a[1]), 0.0], np.float32) for a in actions]
    return actions


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_states_are_near_and_say_what_they_are(name, options):
    with make(name, capture="approximate", **options) as env:
        assert not env.exact
        assert "approximate states" in repr(env)
        assert env.codec.parts[-1].method == "approximate"
        env.reset(seed=1)
        actions = actions_for(env, 40)
        play(env, actions[:25])
        state = env.get_state()
        wanted = play(env, actions[25:])
        for elsewhere in (1, 8):
            env.reset(seed=elsewhere)
            env.set_state(state)
            assert env.get_state().tobytes() == state.tobytes()
            got = play(env, actions[25:])
            for a, b in zip(got, wanted, strict=True):
                # One foot may touch the ground a step earlier, or an edge tip over a pixel.
                error = np.abs(a.obs.astype(float) - b.obs).mean()
                assert error < {LANDER: 1e-3, WALKER: 0.1, CAR: 0.5}[name]
                assert a.reward == pytest.approx(b.reward, abs=0.01)
                assert a[2:4] == b[2:4]


def test_they_are_never_chosen_unasked_and_never_mixed_up():
    with make(LANDER) as exact, make(LANDER, capture="approximate") as near:
        assert exact.exact
        assert "approximate" not in repr(exact)
        assert near.state_width < exact.state_width
        foreign, *_ = exact.reset(seed=0)
        near.reset(seed=0)
        with pytest.raises(ForeignState):
            near.set_state(foreign)
    with pytest.raises(IncompleteState, match="box2d: this family has no exact codec"):
        make(LANDER, capture="codec")


def test_restore_takes_a_crash_back():
    with make(LANDER, capture="approximate") as env:
        env.reset(seed=0)
        idle = np.int64(0)
        play(env, [idle] * 40)
        state = env.get_state()
        play(env, [idle] * 120)
        crashed = env.get_state()
        assert env.gym_env.unwrapped.game_over
        env.set_state(state)
        result = env.step(idle)
        assert not result.terminated
        assert not any(leg.ground_contact for leg in env.gym_env.unwrapped.legs)
        env.set_state(crashed)
        assert env.step(idle).terminated


@pytest.mark.slow
def test_restore_takes_tiles_back():
    gas = np.array([0.0, 0.8, 0.0], np.float32)
    with make(CAR, capture="approximate") as env:
        env.reset(seed=0)
        play(env, [gas] * 5)
        state = env.get_state()
        simulator = env.gym_env.unwrapped
        want = _tiles(simulator)
        play(env, [gas] * 60)
        assert _tiles(simulator) != want
        env.set_state(state)
        assert _tiles(simulator) == want


def _tiles(simulator):
    visited = [tile.idx for tile in simulator.road if tile.road_visited]
    touched = [sorted(tile.idx for tile in wheel.tiles) for wheel in simulator.car.wheels]
    colours = [tile.color.tolist() for tile in simulator.road]
    return visited, touched, colours, simulator.tile_visited_count


@pytest.mark.slow
def test_they_are_named_with_workers_too():
    with make(LANDER, capture="approximate", n_workers=1) as env:
        assert not env.exact
        assert "approximate states" in repr(env)
        state, *_ = env.reset(seed=0)
        env.step_batch(np.array([0, 2]), np.stack([state, state]))


@pytest.mark.slow
def test_doctor_names_them_and_does_not_call_them_exact(capsys):
    from plangym_ext.run.cli import main

    assert main(["doctor", LANDER, "--steps", "20", "--capture", "approximate"]) == 1
    said = capsys.readouterr().out
    assert "LunarLander: approximate" in said
    assert "NOT EXACT" in said
