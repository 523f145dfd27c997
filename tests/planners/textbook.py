"""PUCT as it is usually written: plain dictionaries, one object per node."""

from __future__ import annotations

import math
from collections import deque

import numpy as np


def textbook(model, evaluator, root, order, *, sims, c, gamma, wave=1, flying=1):
    """Search from a state of a `TableModel`; return visits and q of the root.

    Sequential by default. `wave` leaves are chosen one after the other, each seeing
    those before it as visits without a return (Liu et al. 2020), and `flying` waves
    before the first of them is backed up.
    """

    def node(index):
        prior, value = evaluator(np.array([[index]], np.float32))
        return {"index": index, "prior": prior[0], "value": value[0], "edges": {}}

    def choose(here):
        edges = here["edges"]
        known = [(e["n"], e["q"]) for e in edges.values() if e["n"]]
        if here is not tree:
            known.append((1, here["value"]))
        n = sum(e["n"] + e["open"] for e in edges.values())
        mean = sum(k * q for k, q in known) / max(1, sum(k for k, _ in known))
        mean = mean if known else here["value"]
        width = 1 / (bounds[1] - bounds[0]) if bounds[1] > bounds[0] else 0.0
        base = bounds[0] if width else 0.0

        def score(a):
            edge = edges.get(a, {"n": 0, "open": 0})
            bonus = c * math.sqrt(max(1, n)) * float(here["prior"][a])
            bonus /= 1 + edge["n"] + edge["open"]
            return ((edge["q"] if edge["n"] else mean) - base) * width + bonus

        free = [a for a in order if a not in edges or not edges[a]["pending"]]
        return max(free, key=score) if free else None  # the first of equals

    def select():
        """The edges from the root to a leaf; None if all ways on are in flight."""
        path, here = [], tree
        while True:
            action = choose(here)
            if action is None:
                return None
            if action not in here["edges"]:
                index, reward = model._advance(here["index"], action)
                over, cut = model.over[index], model.cut[index]
                edge = {"n": 0, "open": 0, "q": 0.0, "r": reward, "over": over}
                edge |= {"stop": over or cut, "pending": True, "child": node(index)}
                here["edges"][action] = edge
                return [*path, edge]
            path.append(here["edges"][action])
            if path[-1]["stop"]:
                return path
            here = path[-1]["child"]

    def take_off():
        paths = []
        while len(paths) < min(wave, sims - done - sum(map(len, flights))):
            path = select()
            if path is None:
                break
            for edge in path:
                edge["open"] += 1
            paths.append(path)
        return paths

    def land(paths):
        for path in paths:
            path[-1]["pending"] = False
        for path in paths:
            ret = path[-1]["child"]["value"]
            for edge in reversed(path):
                ret = edge["r"] + (0.0 if edge["over"] else gamma) * ret
                edge["n"], edge["open"] = edge["n"] + 1, edge["open"] - 1
                edge["q"] = float(np.float32(edge["q"] + (ret - edge["q"]) / edge["n"]))
                bounds[:] = min(bounds[0], edge["q"]), max(bounds[1], edge["q"])

    tree, bounds, flights, done = node(root), [math.inf, -math.inf], deque(), 0
    while done < sims:
        # A wave may be empty: everything there is to choose is in flight.
        while len(flights) < flying:
            flights.append(take_off())
        done += len(flights[0])
        land(flights.popleft())
    visits, q = np.zeros(len(order), int), np.full(len(order), np.nan)
    for a, edge in tree["edges"].items():
        visits[a], q[a] = edge["n"], edge["q"]
    return visits, q
