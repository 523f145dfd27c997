"""What becomes of one kind: accepted or not, and compared by hand over thousands of steps."""

from __future__ import annotations

import json
import pickle
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

import plangym_ext
from hidden_kinds.kinds import is_early, made, named
from plangym_ext.errors import IncompleteState, InexactState, PlangymExtError

#: Steps between two states, and that are played from each.
APART = 100
PLAYED_AGAIN = 200


def _make(kind: str, **kwargs: Any) -> Any:
    return plangym_ext.make(
        made(*kind.split(", ", 1)), backend="serial", autoreset=False, trust=True, **kwargs
    )


def _record(found: Any) -> Any:
    """Return what a step has shown: a transition of the library's."""
    info = {k: v for k, v in dict(found.info).items() if k == "hidden"}
    return (
        np.asarray(found.obs).tobytes(),
        float(found.reward),
        bool(found.terminated),
        bool(found.truncated),
        str(info),
    )


def _play(env: Any, action: int) -> Any:
    """Return what came of an action, and of the reset after an ending."""
    found = _record(env.step(action))
    if found[2] or found[3]:
        return (*found, np.asarray(env.reset()[1]).tobytes())
    return found


def _actions(steps: int) -> list[int]:
    """Return actions: drawn, and held for a while."""
    rng, found = random.Random(7), []
    while len(found) < steps:
        found += [rng.randrange(3)] * rng.choice((1, 1, 1, 1, 12))
    return found[:steps]


def live(kind: str, folder: Path, steps: int) -> dict[str, Any]:
    """Make a kind, play it, and go back in this process; keep states for another one."""
    begun = time.monotonic()
    try:
        env = _make(kind, audit="off")
    except IncompleteState as error:
        right = re.search(named(kind) or "$^", str(error)) is not None
        text = str(error)[:1200]
        return {"outcome": "refused" if right else "refused, not named", "message": text}
    exactness = env.exactness
    told = {
        "method": exactness.method,
        "proved": exactness.steps,
        "seconds": round(time.monotonic() - begun, 2),
        "notes": [*exactness.notes],
    }
    env.reset(seed=5)
    actions, shown, states = _actions(steps), [], {}
    try:
        for step, action in enumerate(actions):
            if step % APART == 0:
                states[step] = env.get_state()
            shown.append(_play(env, action))
    except PlangymExtError as error:
        return {**told, "outcome": "told in use", "message": str(error)[:600]}
    (folder / "live.pickle").write_bytes(pickle.dumps((actions, shown, states)))
    return {**told, **compared(env, actions, shown, states, "the same process")}


def fresh(kind: str, folder: Path) -> dict[str, Any]:
    """Go back to the states in a process that has played nothing."""
    actions, shown, states = pickle.loads((folder / "live.pickle").read_bytes())
    return compared(_make(kind, audit="off"), actions, shown, states, "another process")


def compared(
    env: Any, actions: list[int], shown: list[Any], states: dict[int, Any], where: str
) -> dict[str, Any]:
    """Restore the states in another order, play on, and compare with what was shown."""
    order = [*states]
    random.Random(3).shuffle(order)
    for point in order:
        try:
            env.set_state(states[point])
            got: Any = [_play(env, action) for action in actions[point : point + PLAYED_AGAIN]]
        except PlangymExtError as error:
            return {"outcome": "told in use", "message": f"{where}: {error}"[:600]}
        except Exception as error:
            return {"outcome": "wrong", "message": f"{where}: {type(error).__name__}: {error}"}
        expected = shown[point : point + PLAYED_AGAIN]
        if got != expected:
            after = next(i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b)
            text = f"{where}, {after + 1} steps after the state of step {point}"
            return {"outcome": "wrong", "message": text}
    return {"outcome": "exact"}


def audited(kind: str, seconds: float) -> dict[str, Any]:
    """Use states for a time; return after how many steps and seconds an audit tells."""
    begun, steps = time.monotonic(), 0
    rng = random.Random(11)
    try:
        env = _make(kind)
        env.reset(seed=5)
        before = env.get_state()
        while time.monotonic() - begun < seconds:
            steps += 1
            found = env.step(rng.randrange(3), return_state=True)
            if found.terminated or found.truncated:
                env.reset()
            elif steps % 200 == 0:
                env.set_state(before)
            elif steps % 200 == 150:
                before = env.get_state()
    except PlangymExtError as error:
        passed = round(time.monotonic() - begun, 1)
        # A way may refuse a state by itself; and an env may be refused by chance.
        word = "audit" if isinstance(error, InexactState) else "told in use"
        return {"outcome": word, "steps": steps, "after": passed, "message": str(error)[:600]}
    text = "in silence" if is_early(kind) else "in silence, shows past the proof"
    return {"outcome": "wrong", "steps": steps, "after": seconds, "message": text}


def written(role: str, kind: str, folder: Path, seconds: float, steps: int) -> None:
    """Play one role of a kind's trial, and write what came of it."""
    if role == "live":
        found = live(kind, folder, steps)
    elif role == "fresh":
        found = fresh(kind, folder)
    else:
        found = audited(kind, seconds)
    (folder / f"{role}.json").write_text(json.dumps(found))
