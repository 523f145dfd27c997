"""Record what dm_control makes of its tasks, for `test_suite_tasks.py`.

    python tests/envs/record_suite.py

It runs where dm_control is installed: in the environment of `tox -e dm_control`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from plangym_ext.envs.dm_control import _quiet

TASKS = ["acrobot-swingup", "cheetah-run", "dog-run", "hopper-hop", "humanoid-run", "walker-run"]
RECORDED = Path(__file__).with_name("suite_recorded.json")
STEPS, SHOWN = 50, (1, 10, 50)


def recorded(task: str) -> dict[str, object]:
    """Play random actions; return where it began, rewards, and some observations."""
    with _quiet():
        from dm_control import suite

        domain, _, name = task.partition("-")
        env = suite.load(domain, name, task_kwargs={"random": 0})
    env.reset()
    data = env.physics.data
    start = {key: getattr(data, key).tolist() for key in ("qpos", "qvel", "act", "qacc_warmstart")}
    rng = np.random.default_rng(0)
    rewards, shown = [], {}
    for k in range(1, STEPS + 1):
        action = rng.uniform(-1, 1, env.action_spec().shape).astype(np.float32)
        outcome = env.step(action)
        rewards.append(float(outcome.reward))
        if k in SHOWN:
            parts = [np.ravel(part) for part in outcome.observation.values()]
            shown[str(k)] = np.concatenate(parts).tolist()
    return {"start": start, "rewards": rewards, "observations": shown}


if __name__ == "__main__":
    RECORDED.write_text(json.dumps({task: recorded(task) for task in TASKS}) + "\n")
    print(f"wrote {RECORDED}")
