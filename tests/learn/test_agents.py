"""The protocol of agents, the random one, and what is refused; numpy alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from plangym_ext.errors import InvalidAnswer, InvalidOption, WrongKind
from plangym_ext.learn import Acted, Agent, GeneratorNoise, RandomAgent, check_agent
from plangym_ext.learn.agents.inputs import example_inputs, first_inputs

OBS = Box(0.5, 1.0, (3,), np.float32)
EVERYTHING = Dict(
    {
        "one": Discrete(3, start=5),
        "many": Tuple((MultiDiscrete([2, 3], start=[1, -1]), MultiBinary((2, 2)))),
        "box": Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32)),
        "half": Box(0.0, np.inf, (2,), np.float64),
        "whole": Box(-1, 2, (3,), np.int32),
    }
)


def noise(count, seed=0):
    return GeneratorNoise(np.random.default_rng(seed).spawn(count))


def venv(action=EVERYTHING, obs=OBS):
    return SimpleNamespace(single_observation_space=obs, single_action_space=action)


def test_random_actions_are_elements_of_any_space_and_cover_it():
    agent = RandomAgent(EVERYTHING)
    acted = agent.step(first_inputs(None, EVERYTHING, 300, noise=noise(300)), None)
    rows = acted.action
    for i in range(300):
        row = {key: rows[key][i] for key in ("one", "box", "half", "whole")}
        row["many"] = tuple(part[i] for part in rows["many"])
        assert EVERYTHING.contains(row)
    # Four standard deviations of a share of 300 draws are 0.11.
    np.testing.assert_allclose(np.bincount(rows["one"])[5:] / 300, 1 / 3, atol=0.11)
    assert rows["box"].mean(axis=0) == pytest.approx([0, 5], abs=0.7)
    assert set(rows["whole"].ravel().tolist()) == {-1, 0, 1, 2}


def test_random_actions_are_legal_and_even_among_these():
    space = Discrete(4, start=2)
    legal = np.tile([[True, False, True, True], [False, True, False, False]], (300, 1))
    inputs = first_inputs(None, space, 600, noise=noise(600), legal=legal)
    drawn = RandomAgent(space).step(inputs, None).action
    assert set(drawn[1::2].tolist()) == {3}
    np.testing.assert_allclose(
        np.bincount(drawn[::2])[2:] / 300, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.11
    )


def test_chance_without_random_numbers_is_refused():
    with pytest.raises(InvalidOption, match=r"RandomAgent.step: inputs.noise .* got None"):
        RandomAgent(OBS).step(first_inputs(None, OBS, 2), None)


def test_examples_lie_in_the_spaces():
    inputs = example_inputs(Dict({"o": OBS, "d": Discrete(2, start=7)}), Discrete(2), 4)
    assert inputs.obs["o"].tolist() == [[0.5] * 3] * 4
    assert inputs.obs["d"].tolist() == [7] * 4
    assert inputs.first.all()


class Own(Agent):
    """An agent of one's own: plays 0, and counts the steps of each row."""

    def __init__(self, **wrong):
        self.wrong = wrong

    def initial_carry(self, num_rows):
        return {"steps": np.zeros(self.wrong.get("rows", num_rows), np.int64)}

    def step(self, inputs, carry):
        if "inplace" in self.wrong:
            carry["steps"] += 1
        steps = np.where(inputs.first, 0, carry["steps"]) + 1
        action = np.zeros(len(steps), np.int64)
        return Acted(
            self.wrong.get("action", action),
            self.wrong.get("info", {"steps": steps}),
            self.wrong.get("carry", {"steps": steps}),
        )


def test_an_agent_of_ones_own_passes():
    own = Own()
    assert isinstance(own, Agent)
    acted = check_agent(own, venv(Discrete(2)), 3)
    assert acted.info["steps"].tolist() == [1, 1, 1]
    check_agent(RandomAgent(EVERYTHING), venv(), 3, noise(3))
    with pytest.raises(InvalidOption, match="Own: it estimates no value"):
        own.value(None, None)
    own.set_mode("eval")
    assert own.mode == "eval"
    with pytest.raises(InvalidOption, match=r"Own: mode must be one of .* 'evil'.*did you mean"):
        own.set_mode("evil")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": 2}, r"initial_carry\(3\): a carry must be .* \(3, ...\); got an array \(2,\)"),
        ({"action": np.zeros(4, int)}, r"actions must be \(3,\) int64.*got \(4,\) int64"),
        ({"action": np.zeros(3)}, r"actions must be whole.* int64.*got \(3,\) float64"),
        ({"action": np.array([0, 2, 0])}, r"must lie in Discrete\(2\); got .*2.* at index \(1,\)"),
        ({"info": None}, r"info must be a dict of arrays by name; got None"),
        ({"info": {"a": np.zeros(2)}}, r"info\['a'\] must be an array .*\(3, ...\); got an array"),
        ({"carry": None}, r"laid out as initial_carry's, {'steps': '\(3,\) int64'}; got None"),
        ({"inplace": True}, "must not change the carry"),
    ],
)
def test_what_does_not_fit_is_named(wrong, message):
    with pytest.raises(InvalidAnswer, match=f"Own.*{message}"):
        check_agent(Own(**wrong), venv(Discrete(2)), 3)


def test_what_is_no_agent_is_named():
    with pytest.raises(WrongKind, match=r"got the class Own. Write Own\(...\)"):
        check_agent(Own, venv(), 3)
    with pytest.raises(WrongKind, match=r"dict lacks initial_carry, step, set_mode"):
        check_agent({}, venv(), 3)
    with pytest.raises(InvalidOption, match=r"num_rows must be an integer >= 1; got 0"):
        check_agent(Own(), venv(Discrete(2)), 0)
    tree = venv(Dict({"a": Discrete(2)}))
    with pytest.raises(InvalidAnswer, match=r"nested as Dict.* got ndarray"):
        check_agent(Own(), tree, 3)
