"""Row i of an agent's answer depends on row i of the inputs alone, however many rows there are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete

from plangym_ext.arrays.nested import leaves, rows_of
from plangym_ext.learn import (
    ActorCriticAgent,
    AgentConfig,
    DeterministicPolicyConfig,
    Inputs,
    PolicyAgent,
    QAgent,
    SoftPolicyConfig,
    make_agent_network,
)

VECTOR = Box(-np.inf, np.inf, (5,), np.float32)
SCREEN = Box(0, 255, (4, 36, 36), np.uint8)
ACTIONS = Dict({"push": Discrete(3), "turn": Box(-2.0, 2.0, (2,), np.float32)})
MANY = 64
CASES = {
    "mlp": (VECTOR, ACTIONS, AgentConfig(init="orthogonal", activation="tanh")),
    "apart": (
        VECTOR,
        ACTIONS,
        AgentConfig(init="orthogonal", shared_body=False, normalize_obs=True),
    ),
    "lstm": (
        VECTOR,
        ACTIONS,
        AgentConfig(
            init="orthogonal", recurrent="lstm", previous_action=True, previous_reward=True
        ),
    ),
    "gru": (
        VECTOR,
        Discrete(4),
        AgentConfig(init="orthogonal", recurrent="gru", layer_norm=True, shared_body=False),
    ),
    "nature": (SCREEN, Discrete(4), AgentConfig(init="orthogonal", kind="nature", hidden=(64,))),
    "impala": (SCREEN, Discrete(4), AgentConfig(init="orthogonal", kind="impala", hidden=(32,))),
    "parts": (
        Dict({"image": SCREEN, "joints": VECTOR, "level": Discrete(3)}),
        Discrete(4),
        AgentConfig(init="orthogonal", hidden=(32,), channels=(4, 8, 8)),
    ),
    "q": (VECTOR, Discrete(4), AgentConfig(init="orthogonal", heads=("q",))),
    "soft": (VECTOR, ACTIONS["turn"], SoftPolicyConfig(init="orthogonal")),
    "deterministic": (VECTOR, ACTIONS["turn"], DeterministicPolicyConfig(init="orthogonal")),
}


class Fixed:
    """The same random numbers for a row in every step."""

    def __init__(self, rows):
        self.rows = np.arange(rows)
        self._numbers = np.random.default_rng(0).random((MANY, 8))[:rows]

    def uniform(self, k=1):
        return self._numbers[:, :k]

    normal = uniform


def samples(space, rows, seed=0):
    from gymnasium.vector.utils import batch_space

    batched = batch_space(space, rows)
    batched.seed(seed)
    return batched.sample()


def made(name):
    obs, action, config = CASES[name]
    network = make_agent_network(obs, action, config, seed=0)
    agent = ActorCriticAgent(network)
    if name == "q":
        agent = QAgent(network, epsilon=0.3)
    if name in ("soft", "deterministic"):
        agent = PolicyAgent(network)
        agent.version = 1  # since it draws evenly before
    agent.set_mode("sample")
    rng = np.random.default_rng(1)
    inputs = Inputs(
        samples(obs, MANY),
        samples(action, MANY),
        rng.normal(size=MANY).astype(np.float32),
        rng.random(MANY) < 0.3,
    )
    carry = agent.initial_carry(MANY)
    if carry is not None:
        carry = {key: rng.normal(size=part.shape).astype("f") for key, part in carry.items()}
    return agent, inputs, carry


@pytest.mark.parametrize(
    ("name", "threads"),
    [*((name, 1) for name in CASES), ("mlp", 2), ("lstm", 2), ("nature", 2)],
)
def test_a_row_is_the_same_among_any_number_of_rows(name, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        agent, inputs, carry = made(name)
        whole = agent.step(inputs._replace(noise=Fixed(MANY)), carry)
        values = None if isinstance(agent, PolicyAgent) else agent.value(inputs, carry)
        few = threads == 2 or name in ("nature", "impala", "parts")
        for rows in (1, 2, 3, 4, 5, 8, 12, 16, 17, 33) if few else range(1, MANY):
            some = Inputs(*(rows_of(part, slice(rows)) for part in inputs[:4]), Fixed(rows))
            part = None if carry is None else rows_of(carry, slice(rows))
            alone = agent.step(some, part)
            for ours, theirs in zip(leaves(tuple(whole)), leaves(tuple(alone)), strict=True):
                if ours is not None:
                    np.testing.assert_array_equal(ours[:rows], theirs, err_msg=f"{rows} rows")
            if values is not None:
                np.testing.assert_array_equal(values[:rows], agent.value(some, part))
    finally:
        torch.set_num_threads(before)
