"""Documentation page of the env certificates: a Markdown table."""

from __future__ import annotations

import datetime
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

from plangym_ext.core.files.whole_file import contents, replacing
from plangym_ext.states.codec import METHODS

#: Seconds that the proof at `make` should take at most.
_LONG = 2.0
_BEGIN = "<!-- begin certificates: written by plangym-ext doctor --all -->\n"
_END = "<!-- end certificates -->\n"
_MEANINGS = """
"Way" is how a state is captured. Bytes are those of a row, envelope included. "Cost" is the time
to capture and restore a state 20 steps after a reset, in steps of the env; by replay, these 20
steps are played again. The proof is how far an env was played with states saved on the way, whose
futures came out the same. An env that does not run fails in the same way without this library.
Rows of exact envs without a cost are of an older version of it. `plangym-ext doctor ENV_ID` prints
the times.
"""
#: Folders of a path, which are those of one machine.
_FOLDERS = re.compile(r"(?<!\w)/(?:[\w.@+-]+/)+")
#: Where the reason of a way begins: its name, and an error's class with the name again.
_A_WAY = re.compile(rf"(?:^| )({'|'.join(METHODS)}): (?:\w+: \1: )?")
_WHERE = {
    "fork": "in a copy of the process",
    "worker": "in another process, where it was constructed again",
    "library": "codec of the library",
}


def write_page(page: Path, results: dict[str, Any]) -> None:
    """Put the certificates in their place on a page, or at its end; the rest stays."""
    old = contents(page).decode() if page.exists() else ""
    before, found, rest = old.partition(_BEGIN)
    after = rest.partition(_END)[2] if found else ""
    with replacing(page) as file:
        file.write(
            f"{before}{'' if found or not old else chr(10)}{_BEGIN}{text(results)}{_END}{after}"
        )


def outcomes(results: dict[str, Any]) -> Counter[str]:
    """Return the number of envs by outcome."""
    return Counter(one["outcome"] for one in results["envs"].values())


def text(results: dict[str, Any]) -> str:
    """Return the table, and the list of envs that did not run or install."""
    envs = {tuple(key.split(": ", 1)): one for key, one in results["envs"].items()}
    count = outcomes(results)
    packages = {package for package, _ in envs}
    exact, refused = count.pop("exact", 0), count.pop("refused", 0)
    lines = [
        "## Certificates of public envs",
        "",
        f"`plangym-ext doctor --all`, {datetime.datetime.now(datetime.UTC).date()}: {len(envs)} "
        f"envs of {len(packages)} packages; {exact} exact as far as was tried, {refused} refused"
        + "".join(f", {number} {outcome}" for outcome, number in sorted(count.items()))
        + ".",
        _MEANINGS + _proof_times(envs),
        "| package | env | way | bytes | cost | proof, or the reason |",
        "|---|---|---|---:|---:|---|",
    ]
    for (package, env), one in sorted(envs.items(), key=lambda item: item[0][0].lower()):
        version = results["groups"][one["group"]]["versions"].get(package, "")
        name = f"{package} {version}".strip()
        if one["outcome"] == "exact":
            cells = [one["way"], f"{one['width']:,}", _cost(one), _proof(one)]
        else:
            cells = [f"**{one['outcome']}**", "", "", _reason(one["reason"])]
        lines.append(f"| {' | '.join((name, f'`{_escaped(env)}`', *cells))} |")
    missing = {g: one["refused"] for g, one in results["groups"].items() if one.get("refused")}
    if missing:
        lines += ["", "Not installed:", ""]
        lines += [f"- {group}: {_escaped(reason)}" for group, reason in sorted(missing.items())]
    return "\n".join(lines) + "\n"


def _proof_times(envs: dict[tuple[str, ...], dict[str, Any]]) -> str:
    """Return a paragraph on what the proof at `make` took, of the envs whose rows have it."""
    times = {env: one["proof_s"] for (_, env), one in envs.items() if "proof_s" in one}
    if not times:
        return ""
    long = [f"`{_escaped(env)}` {time:.1f} s" for env, time in times.items() if time > _LONG]
    middle, most = statistics.median(times.values()), max(times.values())
    return (
        f"\nThe proof at `make` was timed for {len(times)} of them. It took {middle:.1f} s of the "
        f"processor in the middle and {most:.1f} s at most; more than {_LONG:g} s: "
        f"{', '.join(sorted(long)) or 'none'}.\n"
    )


def _cost(one: dict[str, Any]) -> str:
    # A folder of results from before costs were measured has none.
    if "microseconds" not in one:
        return ""
    step, *others = one["microseconds"].values()
    return f"{sum(others) / step:.2g}"


def _proof(one: dict[str, Any]) -> str:
    episodes = f"{one['episodes']:,} episode" + "s" * (one["episodes"] != 1)
    where = _WHERE[one["proved"]]
    why = one.get("no_second", "")
    again = f", no second instance ({_escaped(why)})" if why else ""
    return f"{one['steps']:,} steps, {episodes}, {where}{again}"


def _reason(text: str) -> str:
    """Return a reason, a line for each way, without what errors of all envs say."""
    told = text.partition("cannot be captured exactly. ")[2].partition(" Give the env ")[0] or text
    return _A_WAY.sub(r"<br>\1: ", _escaped(told)).removeprefix("<br>")


def _escaped(words: str) -> str:
    return _FOLDERS.sub("…/", words).replace("|", "\\|").replace("<", "&lt;")
