"""Program that tests one env's state capture in its own process, with a JSON result.

    python -m plangym_ext.run.certificates.certificate TASK FILE

TASK is JSON: `env`, a gymnasium id or a Python expression that constructs an env; `setup`, code
that is executed before it; `steps` that it plays at most; `plain`, whether the env is
only played, without this library.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plangym_ext.core.files.whole_file import contents, replacing
from plangym_ext.errors import plural
from plangym_ext.states.codec import METHODS

#: Steps of an env that is played without this library.
_PLAIN_STEPS = 50
#: For the comparison of futures.
_SECONDS = 5.0
_MOST_LETTERS = 800
#: Steps after a reset at which operations are timed; how often, unless that takes too long.
_DEPTH = 20
_REPEATS, _LEAST_REPEATS, _MOST_SECONDS = 200, 5, 2.0


def constructor(task: dict[str, Any]) -> str | Callable[[], Any]:
    """Return the id of an env, or a function that constructs it."""
    names: dict[str, Any] = {}
    exec(task["setup"], names)
    env: str = task["env"]
    # Of the list that comes with the library, or of the caller's.
    return (lambda: eval(env, names)) if "(" in env else env


def certificate(task: dict[str, Any]) -> dict[str, Any]:
    """Return the result for an env: its `outcome`, and figures or the `reason`."""
    import plangym_ext
    from plangym_ext.errors import PlangymExtError

    try:
        build = constructor(task)
        begun = _worked()
        with plangym_ext.make(build, backend="serial") as env:
            made = _worked()
            found = _examined(env, task["steps"])
        again = _worked()
        # With what was proved before: what is left is imports and the constructor.
        plangym_ext.make(build, backend="serial").close()
        return found | {"proof_s": round(made - begun - (_worked() - again), 2)}
    except PlangymExtError as error:
        return {"outcome": "refused", "reason": _short(error)}
    except Exception as error:
        return {"outcome": "error", "reason": f"{type(error).__name__}: {_short(error)}"}


def _worked() -> float:
    """Return the seconds of the processor that this process and its forks took."""
    return sum(os.times()[:4])


def played(task: dict[str, Any]) -> dict[str, Any]:
    """Play an env without states, and return the result."""
    import plangym_ext
    from plangym_ext.registry import constructor_of

    try:
        # Names of families of this library are no names of gymnasium.
        build, *_ = constructor_of(plangym_ext.make, constructor(task), "auto", None, {})
        env = build()
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(_PLAIN_STEPS):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
    except Exception as error:
        return {"outcome": "does not run", "reason": f"{type(error).__name__}: {_short(error)}"}
    return {"outcome": "runs", "reason": ""}


def operation_costs(env: Any, seed: int) -> dict[str, float]:
    """Return the microseconds of a step, and of a state's capture and restore after it.

    They are the least of many calls, in turn: other work on the machine only adds to them.
    """
    state, *_ = env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(_DEPTH):
        # Of gymnasium's env: `env.step` captures the state too, which is measured by itself.
        *_, terminated, truncated, _ = env.gym_env.step(env.sample_action())
        if terminated or truncated:
            break
        state = env.get_state()
    env.set_state(state)
    action = env.sample_action()
    calls: dict[str, Callable[[], Any]] = {
        "step": lambda: env.gym_env.step(action),
        "get state": env.get_state,
        "set state": lambda: env.set_state(state),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    begun = time.perf_counter()
    for count in range(_REPEATS):
        if count >= _LEAST_REPEATS and time.perf_counter() - begun > _MOST_SECONDS:
            break
        for name, call in calls.items():
            before = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - before)
    return {name: min(found) * 1e6 for name, found in times.items()}


def _examined(env: Any, steps: int) -> dict[str, Any]:
    from plangym_ext.core.check_env import check_env

    report = check_env(env, num_steps=steps, seconds=_SECONDS)
    trip = report.round_trip
    if not trip.exact:
        return {"outcome": "refused", "reason": f"found by doctor: {_short(trip.difference)}"}
    proof, costs = env.exactness, operation_costs(env, 0)
    return {
        "outcome": "exact",
        "way": proof.method,
        "proved": proof.proved,
        "steps": proof.steps,
        "episodes": proof.episodes,
        "transitions": proof.transitions,
        "instances": trip.instances,
        "no_second": _short(report.no_second),
        "width": env.state_width,
        "microseconds": {name: round(time, 2) for name, time in costs.items()},
    }


def _short(error: Exception | str) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def main() -> None:
    """Write the certificate."""
    task = json.loads(sys.argv[1])
    found = played(task) if task["plain"] else certificate(task)
    with replacing(Path(sys.argv[2])) as file:
        json.dump(found, file)
    sys.stdout.flush()
    os._exit(0)  # whatever threads and handles an env has left


# Documentation page of the env certificates: a Markdown table -----------------


#: Seconds that the proof at `make` should take at most.
_LONG = 2.0
_BEGIN = "<!-- begin certificates: written by plangym-ext doctor --all -->\n"
_END = "<!-- end certificates -->\n"
_MEANINGS = """
"Way" is how a state is captured. Bytes are those of a row, envelope included. "Cost" is the time
to capture and restore a state 20 steps after a reset, in steps of the env; by replay, these 20
steps are played again. The proof is how far an env was played with states saved on the way, whose
futures came out the same. An env that does not run fails in the same way without this library.
Rows of exact envs without figures are of an older version of it. `plangym-ext doctor ENV_ID` prints
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
        if one["outcome"] == "exact" and "microseconds" in one:
            cells = [one["way"], f"{one['width']:,}", _cost(one), _proof(one)]
        elif one["outcome"] == "exact":
            # A folder of results from before costs were measured: other figures are as old.
            cells = [one["way"], "", "", "by an older version"]
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
    step, *others = one["microseconds"].values()
    return f"{sum(others) / step:.2g}"


def _proof(one: dict[str, Any]) -> str:
    episodes = f"{one['episodes']:,} {plural('episode', one['episodes'])}"
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


if __name__ == "__main__":
    main()
