"""ExpertAgent: student policy and planner teacher combined, for expert iteration."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, rows_of, write_rows
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs, Mode, needed_noise
from plangym_ext.learn.agents.network_agent import NetworkAgent
from plangym_ext.learn.agents.teacher import Lessons, Teacher

#: As many bits as a uniform number has.
_SEEDS = 2.0**53


@final
class ExpertAgent(Agent):
    """Plays the student or the teacher, and queries the teacher in every visited state.

    Each step of each row is the teacher's with the probability `share`, the student's otherwise
    (DAgger's mixture); the states that are taught are those of this mixture.

    The infos of a step are "value" `[B]` float32 of the student, if it has values; and of the
    teacher "expert_policy" `[B, P]` float32, "expert_value" `[B]` float32, NaN where it knows
    none, "expert_cost" `[B, 3]` int64 (see `Lessons`) and "expert_played" `[B]` bool.

    An agent is shown observations, a teacher needs states: `visit` tells it which.

    Source: Ross, Gordon & Bagnell 2011, "A reduction of imitation learning and structured
    prediction to no-regret online learning"; Anthony, Tian & Barber 2017, "Thinking fast and
    slow with deep learning and tree search".

    Args:
        student: carries nothing.
        teacher: searches.

    Attributes:
        share: in [0, 1], how likely a step is the teacher's.
        visited: states `[B, S]` of all steps since it was cleared; None: they are not kept.
    """

    def __init__(self, student: NetworkAgent, teacher: Teacher) -> None:
        self.student, self.teacher, self.share = student, teacher, 0.0
        self.looks_at = student.looks_at | {"first"}
        self.visited: list[npt.NDArray[np.uint8]] | None = None
        self._states: npt.NDArray[np.uint8] | None = None

    def check_spaces(self, observation_space: Any, action_space: Any) -> None:
        """Let the student refuse spaces other than its own."""
        self.student.check_spaces(observation_space, action_space)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode of the student."""
        super().set_mode(mode)
        self.student.set_mode(mode)

    def visit(self, states: npt.NDArray[np.uint8]) -> None:
        """Receive the states `[B, S]` of the next step."""
        self._states = states
        if self.visited is not None:
            self.visited.append(states)

    def step(self, inputs: Inputs, carry: Any) -> Acted:
        """Choose actions; see `Agent.step`."""
        acted = self.student.step(inputs, carry)
        noise = needed_noise(inputs, type(self).__name__)
        # After the student's own numbers, and as many in each step, played or not.
        drawn = noise.uniform(2)
        seeds = (drawn[:, 0] * _SEEDS).astype(np.uint64)
        lessons = self._lessons(inputs, acted.action, seeds)
        played = drawn[:, 1] < self.share
        action = acted.action  # the student's own copy
        write_rows(action, played, rows_of(lessons.action, played))
        # The kept subtree belongs to the teacher's action: drop it where another was played.
        self.teacher.planner.forget_rows(np.flatnonzero(_differs(action, lessons.action)))
        info = {
            **{name: rows for name, rows in acted.info.items() if name == "value"},
            "expert_policy": lessons.policy,
            "expert_value": lessons.value,
            "expert_cost": lessons.cost,
            "expert_played": played,
        }
        return Acted(action, info, acted.carry)

    def _lessons(self, inputs: Inputs, action: Any, seeds: npt.NDArray[np.uint64]) -> Lessons:
        """Ask the teacher about the states that were told, which are then forgotten."""
        states, self._states = self._states, None
        if states is None:  # an example step, before anything is played
            count, width = len(seeds), self.teacher.target_width
            policy, value = np.zeros((count, width), np.float32), np.zeros(count, np.float32)
            return Lessons(action, policy, value, np.zeros((count, 3), np.int64))
        if np.any(inputs.first):
            self.teacher.planner.forget_rows(np.flatnonzero(inputs.first))
        return self.teacher.lessons(states, inputs.obs, inputs.legal, seeds)

    def value(self, inputs: Inputs, carry: Any) -> Any:
        """Return the student's values; see `Agent.value`."""
        return self.student.value(inputs, carry)

    def as_planner(self) -> Any:
        """Return a planner that plays the student without a search."""
        return self.student.as_planner()


def _differs(mine: Any, theirs: Any) -> npt.NDArray[np.bool_]:
    """Return `[B]`, whether two actions are unlike."""
    parts = zip(leaves(mine), leaves(theirs), strict=True)
    return np.any([(a != b).reshape(len(a), -1).any(axis=1) for a, b in parts], axis=0)
