"""Runs of several agents: resuming, workers, the refusal of other algorithms."""

from typing import Any

import pytest
from parallel_envs import numbered
from training_runs import assert_resumes, weights

from plangym_ext.errors import PlangymExtError
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {
    "env": {"max_steps": 12},
    "agent": {"name": "agents", "critic": "central", "hidden": [8]},
    "algorithm": {"batch_size": 24, "epochs": 2},
    "rounds": 4,
    "checkpoint_every": 2,
    # No multiple of an episode: agents are half way when a checkpoint is written.
    "collector": {"num_envs": 4, "moves": 7},
    # Its episodes go by how many there were before, which a resumed run begins anew.
    "evaluation": {"every": 0},
}


def small(*sources: Any) -> Any:
    return compose(["ppo_cartpole", SMALL, *sources])


def make_env(**_):
    return numbered()


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"collector": {"n_workers": 2}},
        {
            "agent": {
                "critic": "own",
                "groups": [0, 1, 0],
                "recurrent": "gru",
                "recurrent_size": 4,
            },
            "algorithm": {"minibatch": "env"},
        },
    ],
    ids=["central", "workers", "groups"],
)
def test_a_resumed_run_equals_one_that_was_not_interrupted(tmp_path, changed):
    cut = small(changed, {"rounds": 2})
    assert_resumes(tmp_path, small(changed), cut, make_env=make_env)


def test_the_number_of_workers_changes_nothing(tmp_path):
    found = []
    for workers in (0, 2):
        config = small({"collector": {"n_workers": workers}, "rounds": 2})
        with Runner(config, tmp_path / str(workers), make_env=make_env) as runner:
            runner.run()
        found.append(weights(runner.network))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["dqn", "sac", "pqn", "alphazero"])
def test_algorithms_that_know_no_agents_refuse_them(tmp_path, name):
    config = compose(["ppo_cartpole", {"algorithm": {"name": name}}, {"agent": SMALL["agent"]}])
    with pytest.raises(PlangymExtError), Runner(config, tmp_path, make_env=make_env) as runner:
        runner.run()
