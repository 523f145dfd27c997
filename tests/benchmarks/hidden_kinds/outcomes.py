"""The outcome of one kind, from its roles; and the page of all of them."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hidden_kinds.children import emptied, run_role
from hidden_kinds.kinds import is_early, named

#: Outcome -> what it means.
OUTCOMES = {
    "exact": "accepted, and right in every comparison",
    "refused": "refused at `make`, with the name of what is missing or the way it was seen",
    "refused, not named": "refused at `make`, with another name",
    "told in use": "accepted, and refused with a typed error when a state was used",
    "audit": "accepted, and an audit told within the bound",
    "noted": "accepted with its cause in `exactness.notes`, and wrong past the proof's steps",
    "wrong elsewhere": "accepted, right in its session, and wrong in silence in another one",
    "wrong, late": "accepted and wrong in silence, shows past the proof's steps",
    "wrong": "accepted and wrong in silence, within the proof's steps",
    "broken": "the trial itself came to no result",
}


def outcome_of(kind: str, seconds: float, steps: int, *, forked: bool) -> dict[str, Any]:
    """Try a kind in processes of its own.

    Args:
        kind: of env.
        seconds: for which states are used before an audit must have told what is wrong.
        steps: that are played before.
        forked: see `run_role`.
    """
    folder = Path(tempfile.mkdtemp(prefix="hidden_kind"))
    try:
        found: dict[str, Any] = {}
        for role in ("live", "fresh", "audit"):
            why = run_role(role, kind, folder, seconds, steps, forked=forked)
            path = folder / f"{role}.json"
            if why or not path.exists():
                text = (folder / f"{role}.txt").read_text(errors="replace")[-400:]
                return {**found, "outcome": "broken", "message": f"{role} {why}: {text}"}
            found = {**found, **json.loads(path.read_text())}
            is_last = {"live": found["outcome"] not in ("exact", "wrong"), "fresh": False}
            if is_last.get(role) or (role == "fresh" and found["outcome"] != "wrong"):
                break
            if role == "live" and found["outcome"] == "wrong":
                # What the same process has shown is enough.
                found["difference"] = found["message"]
                why = run_role("audit", kind, folder, seconds, steps, forked=forked)
                if why:
                    return {**found, "outcome": "broken", "message": f"audit {why}"}
                found |= json.loads((folder / "audit.json").read_text())
                break
            if role == "fresh":
                found["difference"] = found["message"]
        if found["outcome"] == "wrong" and "another process" in found.get("difference", ""):
            found["outcome"] = "wrong elsewhere"
        if found["outcome"] == "wrong" and not is_early(kind):
            is_noted = any(re.search(named(kind) or "$^", note) for note in found["notes"])
            found["outcome"] = "noted" if is_noted else "wrong, late"
        return found
    finally:
        emptied(folder)


def page(found: dict[str, dict[str, Any]], seconds: float) -> str:
    """Return the section: counts, and the kinds that are not exact."""
    counts = Counter(one["outcome"] for one in found.values())
    places = len({kind.partition(",")[0] for kind in found})
    lines = [
        "## Envs with hidden state",
        "",
        f"`tests/benchmarks/hidden_state.py`: {len(found)} kinds of small envs keep a number in",
        f"{places} places: attributes, closures, iterators, C objects, classes, modules, settings",
        "of the process, files, threads and others. They show it at once, late, at endings, or",
        "never. Each is played for 4,000 steps; its states are restored in the same and in a new",
        "process, and 200 steps from each compared with the real ones. Where they differ, states",
        "are used until an",
        f"audit tells, for {seconds:g} s at most.",
        "",
        "| outcome | kinds |",
        "|---|---:|",
    ]
    lines += [f"| {text} | {counts[name]} |" for name, text in OUTCOMES.items() if counts[name]]
    for name, text in OUTCOMES.items():
        these = [kind for kind, one in found.items() if one["outcome"] == name]
        if name == "exact" or not these:
            continue
        lines += ["", f"**{text[:1].upper()}{text[1:]}**", ""]
        lines += [_line(kind, found[kind]) for kind in these] if name in _TOLD else [_short(these)]
    return "\n".join(lines)


#: Outcomes of which each kind gets a line of its own.
_TOLD = ("audit", "wrong", "wrong elsewhere", "wrong, late", "told in use", "broken")


def _short(these: list[str]) -> str:
    moments: dict[str, list[str]] = {}
    for kind in these:
        place, _, when = kind.partition(", ")
        moments.setdefault(place, []).append(when)
    return "; ".join(f"{place} ({', '.join(whens)})" for place, whens in moments.items()) + "."


def _line(kind: str, one: dict[str, Any]) -> str:
    if one["outcome"] == "audit":
        return f"- {kind}: after {one['steps']:,} steps, {one['after']:g} s"
    text = one.get("difference") if "wrong" in one["outcome"] else one.get("message", "")
    return f"- {kind}: {' '.join(str(text).split())[:160].replace('<', '&lt;')}"
