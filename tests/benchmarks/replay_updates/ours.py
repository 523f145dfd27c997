"""Prints updates per second: of an algorithm, precision, threads, seconds, and a device."""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np
import torch
from gymnasium import spaces

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.learn import (
    DDPG,
    SAC,
    TD3,
    DeterministicPolicyConfig,
    SoftPolicyConfig,
    make_agent_network,
)

OBS, ACTION, STEPS = 17, 6, 20_000
ALGORITHMS = {
    "sac": (SAC, SoftPolicyConfig),
    "td3": (TD3, DeterministicPolicyConfig),
    "ddpg": (DDPG, DeterministicPolicyConfig),
}
#: Updates between two looks at the clock.
_AT_ONCE = 20


def tree() -> ArrayDict:
    """Return a fragment of noise, one env's."""
    rng = np.random.default_rng(0)

    def of(values: np.ndarray, padding: int = 0) -> Array:
        made = Array((STEPS, 1), values.dtype, feature_shape=values.shape[2:], padding=padding)
        made[0 : len(values)] = values
        return made

    never = np.zeros((STEPS, 1), np.bool_)
    return ArrayDict(
        {
            "obs": of(rng.standard_normal((STEPS + 1, 1, OBS)), 1),
            "action": of(rng.uniform(-1, 1, (STEPS, 1, ACTION)).astype(np.float32)),
            "reward": of(rng.standard_normal((STEPS, 1)).astype(np.float32)),
            "terminated": of(never),
            "truncated": of(never),
            "final_obs": of(np.zeros((STEPS, 1, OBS))),
            "valid": of(~never),
            "first": of(np.zeros((STEPS + 1, 1), np.bool_), 1),
        }
    )


def main() -> None:
    name, precision, threads, seconds, device = sys.argv[1:]
    torch.set_num_threads(int(threads))
    algorithm_class, policy = ALGORITHMS[name]
    space = spaces.Box(-np.inf, np.inf, (OBS,), np.float64), spaces.Box(-1, 1, (ACTION,))
    network = make_agent_network(*space, policy(), seed=0).to(device)
    config = algorithm_class.config_class(capacity=STEPS, precision=precision)
    algorithm = algorithm_class(network, config, seed=0)
    algorithm.replay.add(tree())

    def update() -> None:
        algorithm._owed = Fraction(_AT_ONCE)
        algorithm.train()

    update()
    begin, before = time.perf_counter(), algorithm.updates
    while time.perf_counter() - begin < float(seconds):
        update()
    print((algorithm.updates - before) / (time.perf_counter() - begin))


if __name__ == "__main__":
    main()
