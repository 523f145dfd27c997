"""What a state of a small game is worth, found by trying everything."""

from __future__ import annotations

import numpy as np


class Minimax:
    """Values of the states of a deterministic gymnasium env with two players.

    Attributes:
        known: state as bytes -> what the player who moves there wins, undiscounted.
    """

    def __init__(self, env):
        self.env, self.known = env, {}

    def actions(self, state):
        """What each legal action of a state [S] is worth to the player who moves there."""
        found = {}
        self.env.set_state(state)
        for action in np.flatnonzero(self.env.infos()["action_mask"]).tolist():
            self.env.set_state(state)
            _, reward, over, _, info = self.env.step(action)
            sign = 1 if info["player"] == info["to_play"] else -1
            found[action] = reward + (0 if over else sign * self.value(self.env.get_state()))
        return found

    def value(self, state):
        """What a state [S] is worth to the player who moves there."""
        key = state.tobytes()
        if key not in self.known:
            self.known[key] = max(self.actions(state).values())
        return self.known[key]

    def positions(self):
        """The states [N, S] whose values were found, in the order of their bytes."""
        return np.array([np.frombuffer(key, np.uint8) for key in sorted(self.known)])
