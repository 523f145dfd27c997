"""Settings made in Python: kinds of values are checked, and NumPy's are made Python's."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.learn import (
    AgentConfig,
    AlphaZeroConfig,
    DQNConfig,
    PPOConfig,
    QAgentConfig,
    SACConfig,
    Schedule,
)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: SACConfig(critic_hidden=256), r"critic_hidden must be a tuple, .*\(256,\)"),
        (lambda: AgentConfig(hidden=64), "hidden must be a tuple, each an integer; got 64"),
        (lambda: AgentConfig(hidden=(64, 8.5)), r"hidden\[1\] must be an integer >= 1; got 8.5"),
        (lambda: AgentConfig(channels="32"), "channels must be a tuple"),
        (
            lambda: AgentConfig(heads="q"),
            r"heads must be a tuple, each a text; got 'q'. .*\('q',\)",
        ),
        (
            lambda: AgentConfig(value_scale="a"),
            "value_scale must be a finite number above 0; got 'a'",
        ),
        (lambda: AgentConfig(clip_obs=None), "clip_obs must be a finite number above 0; got None"),
        (
            lambda: AgentConfig(recurrent_size=8.5),
            "recurrent_size must be an integer >= 1; got 8.5",
        ),
        (lambda: AgentConfig(layer_norm=1), "layer_norm must be True or False; got 1"),
        (lambda: QAgentConfig(return_range=10), "return_range must be a tuple"),
        (lambda: PPOConfig(compiled="no"), "compiled must be True or False; got 'no'"),
        (lambda: PPOConfig(epochs=True), "epochs must be an integer >= 1; got True"),
        (lambda: PPOConfig(learning_rate="fast"), "learning_rate must be a finite number"),
        (lambda: PPOConfig(optimizer=None), "optimizer must be one of adam, .*; got None"),
        (lambda: DQNConfig(prioritized="false"), "prioritized must be True or False; got 'false'"),
        (lambda: AlphaZeroConfig(batch_size=2.5), "batch_size must be an integer >= 1; got 2.5"),
        (lambda: Schedule(start=1.0, end=0.0, over=True), "over must be an integer >= 1; got True"),
        (lambda: Schedule(start="1", end=0.0, over=5), "start must be a finite number; got '1'"),
    ],
)
def test_values_of_other_kinds_are_refused(made, message):
    with pytest.raises(InvalidOption, match=message):
        made()


def test_numbers_of_numpy_and_lists_are_taken_as_what_they_mean():
    config = PPOConfig(batch_size=np.int64(64), discount=np.float64(0.9), compiled=np.bool_(False))
    assert config == PPOConfig(batch_size=64, discount=0.9, compiled=False)
    kinds = [type(value) for value in (config.batch_size, config.discount, config.compiled)]
    assert kinds == [int, float, bool]
    network = AgentConfig(hidden=[np.int32(8), 4], heads=["policy"])
    assert (network.hidden, network.heads) == ((8, 4), ("policy",))
    assert {type(width) for width in network.hidden} == {int}
    assert AgentConfig(hidden=np.array([8, 4])).hidden == (8, 4)
    rate = Schedule(start=np.float32(0.5), end=0, over=np.int64(5))
    assert rate == Schedule(start=0.5, end=0.0, over=5)
    # Where a number may change, a schedule is one; and None, where there need be none.
    assert PPOConfig(learning_rate=rate, max_grad_norm=None).learning_rate is rate
