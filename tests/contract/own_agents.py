"""Agents as people write them, which keep what they learn in every way that Python has."""

from __future__ import annotations

import functools
import threading

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from plangym_ext.learn import Acted, ActorCriticAgent, Agent, NetworkOutput, distribution_of


def acted(inputs, carry, right):
    rows = len(inputs.obs)
    # As of a policy that draws: branches begin with what is drawn.
    return Acted(np.full(rows, int(right)), {"log_prob": np.zeros(rows, np.float32)}, carry)


def worth(inputs):
    return np.zeros(len(inputs.obs), np.float32)


def bias(net):
    return float(net.bias.detach())


def turn(net, action):
    with torch.no_grad():
        net.bias.fill_(2.0 * action - 1.0)


class Plain(Agent):
    """Has `self.right()` say whether it pushes right."""

    def step(self, inputs, carry):
        return acted(inputs, carry, self.right())

    def value(self, inputs, carry):
        return worth(inputs)


class Held(Plain):
    def __init__(self):
        self.net = nn.Linear(1, 1)

    def right(self):
        return bias(self.net) > 0

    def learn(self, action):
        turn(self.net, action)


class Nested(Plain):
    """A module in a tuple in a dict in a list."""

    def __init__(self):
        self.parts = [{"nets": (nn.Linear(1, 1), "a name")}]

    def right(self):
        return bias(self.parts[0]["nets"][0]) > 0

    def learn(self, action):
        turn(self.parts[0]["nets"][0], action)


class Closure(Plain):
    def __init__(self):
        net = nn.Linear(1, 1)
        self.right = lambda: bias(net) > 0
        self.learn = lambda action: turn(net, action)


def _is_right(net):
    return bias(net) > 0


class Partial(Plain):
    def __init__(self):
        net = nn.Linear(1, 1)
        self.right, self.learn = functools.partial(_is_right, net), functools.partial(turn, net)


class BoundMethod(Held):
    """Holds a method of its own, and so itself."""

    def __init__(self):
        super().__init__()
        self.chosen = self.right

    def step(self, inputs, carry):
        return acted(inputs, carry, self.chosen())


class Numpy(Plain):
    def __init__(self):
        self.weights = np.zeros((3, 2), np.float64)

    def right(self):
        return self.weights[2, 1] > 0

    def learn(self, action):
        self.weights += 0.25  # others change, too
        self.weights[2, 1] = 2 * action - 1


class Number(Plain):
    def __init__(self):
        self.preference = 0.0

    def right(self):
        return self.preference > 0

    def learn(self, action):
        self.preference = 2.0 * action - 1.0


class Table(Plain):
    """A dict that grows as it learns."""

    def __init__(self):
        self.q = {}

    def right(self):
        return max(self.q.values(), default=0.0) > 0

    def learn(self, action):
        self.q = {(len(self.q), "key"): 0.0, **self.q}
        self.q = dict.fromkeys(self.q, 2.0 * action - 1.0)


class Slots:
    """Of no base class, with slots and without a dict."""

    __slots__ = ("__private", "mode", "net")

    def __init__(self):
        self.mode, self.net, self.__private = "sample", nn.Linear(1, 1), np.zeros(1)

    def initial_carry(self, num_rows):
        return None

    def set_mode(self, mode):
        self.mode = mode

    def value(self, inputs, carry):
        return worth(inputs)

    def step(self, inputs, carry):
        return acted(inputs, carry, bias(self.net) * self.__private[0] > 0)

    def learn(self, action):
        turn(self.net, action)
        self.__private[0] = 1.0


class WithOptimizer(Held):
    """Learns by gradients, of an optimiser that it holds; and holds a lock that it leaves out."""

    def __init__(self):
        super().__init__()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1.0)
        self.lock = threading.Lock()

    def __getstate__(self):
        return {name: one for name, one in self.__dict__.items() if name != "lock"}

    def learn(self, action):
        while self.right() != bool(action):
            self.optimizer.zero_grad()
            (self.net.bias.sum() * (1 - 2 * action)).backward()
            self.optimizer.step()


class Team(Plain):
    """Two agents that share one module; the second is asked."""

    def __init__(self):
        self.first, self.second = Held(), Held()
        self.second.net = self.first.net

    def right(self):
        return self.second.right()

    def learn(self, action):
        self.first.learn(action)


class HalfSaved(Plain):
    """Whose `state_dict` leaves out the one of its two networks that matters."""

    def __init__(self):
        self.body, self.head = nn.Linear(1, 1), nn.Linear(1, 1)

    def right(self):
        return bias(self.head) > 0

    def learn(self, action):
        turn(self.body, action)
        turn(self.head, action)

    def state_dict(self):
        return {"version": self.version, "bias": self.body.bias.detach().numpy()}

    def load_state_dict(self, state):
        self.version = int(state["version"])
        with torch.no_grad():
            self.body.bias.copy_(torch.from_numpy(np.array(state["bias"])))


class Tensors(Held):
    """Whose `state_dict` is the module's, of tensors."""

    def state_dict(self):
        return {"version": self.version, **self.net.state_dict()}

    def load_state_dict(self, state):
        self.version = int(state["version"])
        self.net.load_state_dict({name: state[name] for name in ("weight", "bias")})


class NestedStates(Held):
    """Whose `state_dict` has that of its module inside."""

    def state_dict(self):
        return {"version": self.version, "net": self.net.state_dict()}

    def load_state_dict(self, state):
        self.version = int(state["version"])
        self.net.load_state_dict(state["net"])


class Refuses(NestedStates):
    """Whose `load_state_dict` does not take what its `state_dict` returns."""

    def load_state_dict(self, state):
        self.net.load_state_dict(state)


class IsModule(nn.Module):
    """A module that is the agent."""

    def __init__(self):
        super().__init__()
        self.mode, self.net = "sample", nn.Linear(1, 1)

    def initial_carry(self, num_rows):
        return None

    def set_mode(self, mode):
        self.mode = mode
        self.train(mode == "train")

    def value(self, inputs, carry):
        return worth(inputs)

    def step(self, inputs, carry):
        return acted(inputs, carry, bias(self.net) > 0)

    def learn(self, action):
        turn(self.net, action)


class Replaced(Held):
    """Makes a new network each time that it learns."""

    def learn(self, action):
        self.net = nn.Linear(1, 1)
        turn(self.net, action)


class Lazy(Plain):
    """Makes its network in its first step."""

    net = None

    def made(self):
        if self.net is None:
            self.net = nn.Linear(1, 1)
        return self.net

    def right(self):
        return bias(self.made()) > 0

    def learn(self, action):
        turn(self.made(), action)


class Drawing(Number):
    """Has a generator of its own, which goes on in the workers."""

    def __init__(self):
        super().__init__()
        self.brain = {"rng": np.random.default_rng(3), "weight": 0.0}

    def right(self):
        return self.brain["rng"].random() < self.brain["weight"]

    def learn(self, action):
        self.brain["weight"] = float(action)


GLOBAL_NET = nn.Linear(1, 1)
GLOBAL_TABLE = np.zeros(2)


class UsesGlobal(Plain):
    def right(self):
        return bias(GLOBAL_NET) > 0

    def learn(self, action):
        turn(GLOBAL_NET, action)


class UsesArray(Plain):
    def right(self):
        return GLOBAL_TABLE[1] > 0

    def learn(self, action):
        GLOBAL_TABLE[1] = 2 * action - 1


class OfTheClass(Plain):
    net = nn.Linear(1, 1)

    def right(self):
        return bias(self.net) > 0

    def learn(self, action):
        turn(self.net, action)


def of_a_function():
    """Return an agent of a class of this function, whose methods use a variable of it."""
    net = nn.Linear(1, 1)

    class Local(Plain):
        def right(self):
            return bias(net) > 0

        def learn(self, action):
            turn(net, action)

    return Local()


class Locked(Held):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Forgetful(Held):
    """Whose pickle leaves the network out, and makes another one."""

    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        Forgetful.__init__(self)


class LeavesOut(Held):
    """Whose pickle leaves the network out."""

    def __getstate__(self):
        return {}

    def right(self):
        return hasattr(self, "net") and super().right()


class OwnNetwork(nn.Module):
    """A network of one's own: what it has learned is a buffer that its `state_dict` leaves out."""

    inputs_used = frozenset({"obs"})
    value_scale = 1.0

    def __init__(self):
        super().__init__()
        self.observation_space = self.action_space = None
        self.distribution = distribution_of(spaces.Discrete(2))
        self.tied = nn.Linear(4, 4)
        self.also_tied = self.tied
        self.register_buffer("shift", torch.zeros(2), persistent=False)

    def initial_carry(self, num_rows):
        return None

    def forward(self, inputs, carry=None):
        obs = getattr(inputs, "obs", inputs)
        logits = 0 * self.also_tied(obs)[..., :2] + self.shift
        out = NetworkOutput(logits, 0 * obs[..., 0], None)
        return (out, None) if hasattr(inputs, "obs") else out

    def learn(self, action):
        self.shift[:] = torch.tensor([-50.0, 50.0]) * (2 * action - 1)


class Louder(ActorCriticAgent):
    """An agent of the library with a learned array besides."""

    def __init__(self, network):
        super().__init__(network)
        self.bonus = np.zeros((1, 2), np.float32)

    def step(self, inputs, carry):
        found = super().step(inputs, carry)
        return found._replace(action=np.full_like(found.action, self.bonus[0, 1] > 0))
