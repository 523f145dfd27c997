"""Agents of one's own in every place where agents play."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from contract import own_agents
from contract.agent_contract import ROWS, STEPS, AgentContract, rows_of
from contract.own_parts import OwnEvaluator

from plangym_ext.errors import WrongKind
from plangym_ext.learn import (
    ActorCriticAgent,
    EvaluatorAgent,
    NetworkEvaluator,
    PlannerAgent,
    SerialSampler,
    WorkerSampler,
)
from plangym_ext.learn.packed_values import packed, unpacked
from plangym_ext.planners import MCTS

pytestmark = pytest.mark.slow  # workers are started


class OwnAgent(AgentContract):
    """One of `own_agents`."""

    make: type

    def agent(self):
        return type(self).make()

    def learn(self, agent, action):
        agent.learn(action)


class TestHeld(OwnAgent):
    make = own_agents.Held
    ahead_too = True
    here_alone = False


class TestNested(OwnAgent):
    make = own_agents.Nested
    ahead_too = True


class TestClosure(OwnAgent):
    make = own_agents.Closure


class TestPartial(OwnAgent):
    make = own_agents.Partial


class TestBoundMethod(OwnAgent):
    make = own_agents.BoundMethod


class TestNumpy(OwnAgent):
    make = own_agents.Numpy


class TestNumber(OwnAgent):
    make = own_agents.Number


class TestTable(OwnAgent):
    make = own_agents.Table


class TestSlots(OwnAgent):
    make = own_agents.Slots


class TestWithOptimizer(OwnAgent):
    make = own_agents.WithOptimizer


class TestTeam(OwnAgent):
    make = own_agents.Team


class TestHalfSaved(OwnAgent):
    make = own_agents.HalfSaved


class TestTensors(OwnAgent):
    make = own_agents.Tensors
    ahead_too = True


class TestNestedStates(OwnAgent):
    make = own_agents.NestedStates


class TestRefuses(OwnAgent):
    make = own_agents.Refuses
    refused = r"load_state_dict of Refuses must take the result of its state_dict.*RuntimeError"


class TestIsModule(OwnAgent):
    make = own_agents.IsModule


class TestReplaced(OwnAgent):
    make = own_agents.Replaced


class TestLazy(OwnAgent):
    make = own_agents.Lazy


class TestDrawing(OwnAgent):
    make = own_agents.Drawing


class TestUsesGlobal(OwnAgent):
    make = own_agents.UsesGlobal
    refused = r"the global GLOBAL_NET, which UsesGlobal uses, is not held.*self.x"


class TestOfTheClass(OwnAgent):
    make = own_agents.OfTheClass
    refused = r"OfTheClass.net, which OfTheClass uses, is not held"


class TestOfAFunction(OwnAgent):
    make = staticmethod(own_agents.of_a_function)
    refused = r"net, which Local uses, is not held"


class TestLocked(OwnAgent):
    make = own_agents.Locked
    refused = r"its attribute lock cannot be pickled.*__getstate__"


class TestForgetful(OwnAgent):
    make = own_agents.Forgetful


class TestLeavesOut(OwnAgent):
    make = own_agents.LeavesOut
    refused = r"leaves out its attribute net, which holds what is learned.*state_dict"


class TestOwnNetwork(AgentContract):
    def agent(self):
        return ActorCriticAgent(own_agents.OwnNetwork())

    def learn(self, agent, action):
        agent.network.learn(action)


class TestOwnNetworkOfAnEvaluator(AgentContract):
    def agent(self):
        return EvaluatorAgent(NetworkEvaluator(own_agents.OwnNetwork(), outputs="policy-value"))

    def learn(self, agent, action):
        agent.evaluator.network.learn(action)

    @pytest.mark.parametrize("kind", ["serial"])  # it tells no likelihood, which branches need
    def test_in_this_process(self, kind):
        super().test_in_this_process(kind)


class TestOwnEvaluator(AgentContract):
    def agent(self):
        return EvaluatorAgent(OwnEvaluator(own_agents.OwnNetwork(), outputs="policy-value"))

    def learn(self, agent, action):
        agent.evaluator.told["logits"][:] = 50.0 * np.array([1 - 2 * action, 2 * action - 1])

    @pytest.mark.parametrize("kind", ["serial"])
    def test_in_this_process(self, kind):
        super().test_in_this_process(kind)


class TestLouder(AgentContract):
    def agent(self):
        return own_agents.Louder(own_agents.OwnNetwork())

    def learn(self, agent, action):
        agent.bonus[0, 1] = 2 * action - 1


def test_an_array_that_no_agent_holds_is_noticed_when_it_changes():
    agent = own_agents.UsesArray()
    with WorkerSampler(rows_of, agent, STEPS, ROWS, n_workers=1) as sampler:
        sampler.collect(version=1)
        agent.learn(1)
        with pytest.raises(WrongKind, match=r"the global GLOBAL_TABLE.*has changed"):
            sampler.collect(version=2)
        agent.learn(0.5)  # as it was
        sampler.collect(version=3)


def test_a_generator_goes_on_where_its_copy_was():
    agent = own_agents.Drawing()
    with (
        WorkerSampler(rows_of, agent, 40, 1, n_workers=1) as workers,
        SerialSampler(rows_of(range(1)), own_agents.Drawing(), 40) as serial,
    ):
        for version in range(1, 4):
            weight = 0.5 + version / 100
            agent.brain["weight"] = serial._agent.brain["weight"] = weight
            found, wanted = (one.collect(version=version).data for one in (workers, serial))
            np.testing.assert_array_equal(
                found["action"].to_ndarray(), wanted["action"].to_ndarray()
            )


@pytest.mark.parametrize("kind", ["Table", "Nested", "Numpy", "Held", "IsModule", "Slots"])
def test_what_is_played_ahead_with_more_than_arrays_is_played_again(kind):
    def sampler_of(agent):
        return WorkerSampler(rows_of, agent, STEPS, ROWS, n_workers=1, ahead=True)

    agent = getattr(own_agents, kind)()
    with sampler_of(agent) as sampler:
        agent.learn(0)
        sampler.collect(version=1)
        agent.learn(1)
        sampler.collect(version=2)  # begins the third with what was learned last
        saved = packed(sampler.state_dict())
        later = getattr(own_agents, kind)()
        later.learn(1)  # as it is saved with what learns
        with sampler_of(later) as other:
            other.load_state_dict(unpacked(saved))
            for one in (agent, later):
                one.learn(0)
            found = other.collect(version=3)
        assert np.unique(found.data["action"].to_ndarray()).tolist() == [1]
        assert found.version == 2
        wanted = sampler.collect(version=3).data
        for name in ("obs", "action", "reward", "version"):
            np.testing.assert_array_equal(found.data[name].to_ndarray(), wanted[name].to_ndarray())


def test_a_planner_that_nothing_makes_elsewhere_does_not_travel():
    from plangym_ext import make

    with make("CartPole-v1") as env, rows_of(range(ROWS)) as venv:
        venv.reset(seed=0)
        agent = PlannerAgent(MCTS(4), env)
        with pytest.raises(WrongKind, match="PlannerAgent"):
            WorkerSampler(rows_of, agent, STEPS, ROWS, n_workers=1)
