"""A contestant's process: builds what it is told to and runs it when it is told to.

Requests and answers are lines of JSON. Run as `python -P -m table.serve MODULE:FUNCTION`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from stepping.rounds import rows_per_second

from table.contest import NotHere, Runner
from table.tasks import task_named


def main() -> None:
    module, _, name = sys.argv[1].partition(":")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # simulators print
    runner: Runner | None = None

    def built(env_id: str, rows: int, from_states: bool) -> dict[str, Any]:
        nonlocal runner
        make = getattr(importlib.import_module(module), name)
        try:
            runner = make(task_named(env_id), rows, from_states=from_states)
            for _ in range(runner.warm_up):
                runner.step()
        except NotHere as error:
            return {"not_here": str(error)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        return {}

    for line in sys.stdin:
        request = json.loads(line)
        if "seconds" in request:
            assert runner is not None
            answer = {"rate": rows_per_second(runner.step, runner.num_steps)(request["seconds"])}
        elif request:
            answer = built(**request)
        else:
            answer = {}
            if runner is not None:
                runner.close()
            runner = None
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
