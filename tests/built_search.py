"""Searches of the built pages whose first answer is not the page that a reader needs.

    python tests/built_search.py docs/_build

The site's own search runs in Node. Without Node nothing is searched, and that is said.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

#: What a reader types, and the page that must come first.
QUESTIONS = {
    "install": "getting_started",
    "worker dies": "batches",
    "save state": "semantics",
    "IncompleteState": "exactness",
    "compile_env": "kernels",
    "stable-baselines3": "vector",
    "ray cluster": "scaling",
    "mcts": "generated/planners/mcts",
    "continuous actions": "planners",
    "search tree": "trees",
    "go-explore": "exploring",
    "compare planners": "evaluating",
    "hyperparameters": "learning",
    "ppo": "generated/algorithms/ppo",
    "replay buffer": "collecting",
    "pettingzoo": "several_agents",
    "muzero": "generated/algorithms/muzero",
    "resume": "runs",
    "slow start": "questions",
    "pickle": "security",
    "atari": "atari",
    "plangym": "coming_from",
    "lunarlander": "box2d",
    "cleanrl": "programs",
}
_SCRIPT = """
const [folder, ...questions] = process.argv.slice(1);
const {readFileSync} = require("fs"), vm = require("vm");
const scope = {
  _: (text) => text, _ready: () => {}, SPHINX_HIGHLIGHT_ENABLED: false, URLSearchParams, window: {},
  document: {getElementById: () => null, addEventListener: () => {}, readyState: "loading"},
};
vm.createContext(scope);
const run = (name) => vm.runInContext(readFileSync(`${folder}/${name}`, "utf8"), scope, name);
["_static/documentation_options.js", "_static/language_data.js"].forEach(run);
vm.runInContext("var Stemmer = window.Stemmer;", scope);
["_static/searchtools.js", "searchindex.js"].forEach(run);
const answers = questions.map((question) => {
  scope.question = question;
  const call = "Search._performSearch(...Search._parseQuery(question)).map((found) => found[0])";
  return vm.runInContext(call, scope).reverse();
});
console.log(JSON.stringify(answers));
"""


def first_answers(folder: Path, questions: list[str]) -> list[list[str]]:
    """Return the pages that the site's search finds for each question, the best first."""
    command = ["node", "-e", _SCRIPT, str(folder), *questions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found: list[list[str]] = json.loads(done.stdout)
    return found


def main() -> None:
    if shutil.which("node") is None:
        print("node is not installed: nothing was searched")
        return
    found = first_answers(Path(sys.argv[1]).resolve(), list(QUESTIONS))
    wrong = [
        f"{question!r} leads to {', '.join(pages[:3]) or 'nothing'}, not to {page}"
        for (question, page), pages in zip(QUESTIONS.items(), found, strict=True)
        if pages[:1] != [page]
    ]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
