"""Collectors: the games that they play, alone, side by side and in workers."""

from __future__ import annotations

import numpy as np
import pytest
from training_runs import small

from plangym_ext.errors import IncompleteState, InvalidObservation
from plangym_ext.planners import play
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.collector import Collector, finished_of
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.slot import episode_seed
from plangym_ext.run.training.worker_collector import WorkerCollector

pytestmark = pytest.mark.slow

#: Games whose results do not hang on the last bits of what a network says.
ROLLOUTS = {
    "env": {"id": "CartPole-v1"},
    "planner": {"name": "shooting", "num_simulations": 8},
    "trainer": {"name": "histogram"},
}


def games(changed=None):
    """Settings of games whose planner asks for no values."""
    return compose([ROLLOUTS, {"collector": {"num_envs": 4}}, changed or {}])


def made(config, slots=None):
    parts = Parts(config)
    env = parts.env()
    evaluator = parts.evaluator(parts.network(env))
    slots = range(config.collector.num_envs) if slots is None else slots
    return parts.collector(env, evaluator, slots)


def played(collector, moves, **options):
    """Return the episodes that ended in so many moves."""
    return finished_of(collector.collect(moves, **options))


def keys(finished):
    return [(one.move, one.slot, one.record.seed, one.record.actions.tolist()) for one in finished]


def test_a_slot_plays_the_episodes_that_its_seeds_give():
    config = games({"env": {"max_steps": 20}, "seed": 5})
    collector = made(config)
    found = collector.collect(50)
    assert found.cost.model_steps > 0
    finished = finished_of(found)
    assert len(finished) >= 8
    one = next(one for one in finished if one.slot == 2)
    seed = episode_seed(5, 2, 0)
    assert one.record.seed == seed
    parts = Parts(config)
    env = parts.env()
    planner = config.planner.make(policy=parts.evaluator(parts.network(env)).policy)
    alone = play(env, planner, seed=seed, max_steps=20)
    assert one.record.actions.tolist() == alone.actions.tolist()
    assert one.record.rewards.tolist() == alone.rewards.tolist()
    assert one.record.observations.shape == (alone.length + 1, 4)


@pytest.mark.parametrize("name", ["icem", "cem", "predictive-sampling"])
def test_a_game_begins_without_the_plan_of_the_one_before(name):
    # All episodes of one round: a planner that begins warm must not begin so in a new game.
    planner = {"name": name, "num_simulations": 24, "horizon": 4}
    changed = {"env": {"id": "Pendulum-v1", "max_steps": 5}, "planner": planner, "seed": 5}
    config = compose([changed, {"trainer": {"name": "supervised", "policy_target": "action"}}])
    env = Parts(config).env()
    collector = Collector(env, config.planner.make(), range(2), seed=5, max_steps=5)
    finished = played(collector, 15)
    assert len(finished) == 6
    for one in finished:
        seed = episode_seed(5, one.slot, one.move // 5)
        alone = play(env, config.planner.make(), seed=seed, max_steps=5)
        assert one.record.actions.tobytes() == alone.actions.tobytes()
    env.close()


def test_what_is_played_in_a_slot_does_not_depend_on_the_others():
    config = games({"collector": {"num_envs": 3}})
    together = keys(played(made(config), 40))
    apart = [key for slot in range(3) for key in keys(played(made(config, [slot]), 40))]
    assert sorted(apart) == sorted(together)


def test_games_that_are_cut_say_what_would_have_followed():
    config = small({"env": {"max_steps": 5}})
    finished = played(made(config), 5)
    assert len(finished) == 4
    for one in finished:
        assert one.record.length == 5
        assert not one.record.terminated
        # A new network values everything 0.
        assert one.record.final_value == 0.0


def test_attributes_are_taken_from_the_last_info():
    config = small(
        {"env": {"max_steps": 4}, "planner": {"num_simulations": 2}}, preset="sokoban_6x6"
    )
    collector = made(config)
    finished = played(collector, 8)
    assert finished
    for one in finished:
        assert one.record.attributes == {"solved": one.record.terminated}
    collector.close()


def test_attributes_that_episodes_do_not_have_are_named():
    collector = made(small({"env": {"max_steps": 4}, "collector": {"attributes": ["solvd"]}}))
    with pytest.raises(InvalidObservation, match=r"collector.attributes names the info 'solvd'"):
        played(collector, 8)
    collector.close()


@pytest.mark.parametrize("moves", [0, 7])
def test_games_in_progress_are_saved_and_go_on(moves):
    config = games()
    first = made(config)
    if moves:
        first.collect(moves)
    state = first.state_dict()
    wanted = keys(played(first, 40))
    second = made(config)
    second.load_state_dict(state)
    assert keys(played(second, 40)) == wanted


def test_workers_play_what_one_process_plays():
    config = games()
    wanted = keys(played(made(config), 30))
    for workers in (1, 2):
        parts = Parts(games({"collector": {"n_workers": workers}}))
        collector = WorkerCollector(parts, parts.network(parts.env()))
        try:
            found = collector.collect(12, version=0)
            finished = finished_of(found)
            state = collector.state_dict()
            finished += [_later(one, 12) for one in played(collector, 18)]
            assert keys(finished) == wanted
            assert found.cost.model_steps > 0
            # One process goes on from what any number of workers saved.
            alone = made(config)
            alone.load_state_dict(state)
            assert keys([_later(one, 12) for one in played(alone, 18)]) == [
                key for key in wanted if key[0] >= 12
            ]
        finally:
            collector.close()


def _later(one, moves):
    return one._replace(move=one.move + moves)


def test_workers_take_over_the_weights_of_a_new_version():
    config = small({"collector": {"n_workers": 1, "num_envs": 2}, "env": {"max_steps": 3}})
    parts = Parts(config)
    network = parts.network(parts.env())
    collector = WorkerCollector(parts, network)
    try:
        before = collector.collect(3, version=0).data[0].final_value
        network.heads.bias.data[:] = 1.0
        same = collector.collect(3, version=0).data[0].final_value
        after = collector.collect(3, version=1).data[0].final_value
    finally:
        collector.close()
    # A value of 1 times the preset's scale; the version before was asked until then.
    assert (before, same, after) == (0.0, 0.0, 100.0)


def test_an_error_in_a_worker_arrives_as_itself():
    parts = Parts(small({"collector": {"n_workers": 1}}))
    network = parts.network(parts.env())
    collector = WorkerCollector(parts, network)
    try:
        with pytest.raises(TypeError, match="interpreted as an integer"):
            collector.collect("moves", version=0)
    finally:
        collector.close()


def test_an_env_without_exact_states_is_refused():
    class Approximate:
        exact = False
        name = "Approximate"

        def close(self):
            pass

    with pytest.raises(IncompleteState, match="Approximate: training plans from exact states"):
        Parts(small(), make_env=Approximate).env()


def test_episode_seeds_differ():
    seeds = {episode_seed(run, slot, n) for run in range(3) for slot in range(8) for n in range(50)}
    assert len(seeds) == 3 * 8 * 50
    assert np.array(list(seeds)).min() >= 0
