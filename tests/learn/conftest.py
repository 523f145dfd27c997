from __future__ import annotations

import importlib.util

# The extra `test` brings torch; without it what needs none is tested.
if importlib.util.find_spec("torch") is None:
    collect_ignore = [
        f"test_{name}.py" for name in ("distributions", "evaluator", "network_policy", "networks")
    ]
