"""Every published command runs; what takes long runs at reduced size.

Takes minutes, so it runs where PYTEST_COMMANDS is set: `tox -e commands`. That every command
is known here is tested always.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from docs_fences import read_fences
from published import ROOT, Command, published, tox_environments

from plangym_ext.run.cli import build_parser

#: Options that make a program short: the last one given counts.
REDUCED: dict[str, str] = {
    "agents.py": "--rounds 1",
    "arrays.py": "--rounds 2",
    "asynchronous.py": "--only sac_halfcheetah --rounds 2",
    "atari_games.py": "--games Freeway --calls 2 --seeds 0 --processes 1 --out games.json",
    "audit_cost.py": "--only Python --seconds 1",
    "audit.py": "--quick --only CartPole",
    "boxoban.py": "--rounds 1 --problems 4 --levels 2 --few 1 --expansions 20",
    "control.py": "--tasks cheetah-run --steps 4",
    "cores.py": "--only scores --rounds 1 --seconds 0.02",
    "evaluator.py": "--backends kernel --repeats 1",
    "everything.py": "--envs CartPole-v1 --rows 16 --rounds 1 --seconds 0.02",
    "expert.py": "--quick --only NarrowPath --seeds 0",
    "explore.py": "--only memory --frames 6400 --rows 16",
    "first_plans.py": "--only cem --backends kernel --rounds 1",
    "forge.py": "--count 10",
    "forged.py": "--rows 20 --files 20 --only Maze states",
    "forked.py": "--quick --only CartPole --seeds 0",
    "hidden_state.py": "--only ModuleDict --steps 200 --bound 5",
    "kills.py": "--kills 3 --envs cartpole",
    "learners.py": "--only sac_halfcheetah --rounds 1",
    "learn.py": "--only cartpole --seeds 0 --slice 1",
    "meta_learning.py": "--only PEARL --seeds 1 --rounds 1",
    "pretrained.py": "--no-train --only narrow_path",
    "paired.py": "--quick --only CartPole",
    "planned_agents.py": "--tasks walker-run --rounds 2 --moves 2 --seeds 0",
    "quality.py": "--tasks Pendulum-v1 --planners random-shooting --seeds 1",
    "ratios.py": "--out ratios.svg",
    "ray_kills.py": "--kills 2",
    "ray_peer.py": "--rounds 1 --seconds 0.1",
    "ray_scaling.py": "--rounds 2 --actors 2",
    "regret.py": "--only tree --seeds 2 --simulations 8",
    "replay.py": "--rows 4000 --frames 4000 --rounds 2",
    "resume.py": "--presets dqn_cartpole --kills 1 --rounds 4",
    "returns.py": "--rounds 2",
    "sampling.py": "--only CartPole --rounds 1 --seconds 0.02",
    "scores.py": "--envs CartPole-v1 --seeds 0 --num-simulations 4 --max-steps 5",
    "search.py": "--only cartpole --rounds 1 --seconds 0.02",
    "states.py": "--envs CartPole-v1 --seconds 0.02",
    "starts.py": "--only NarrowPath --seeds 0 --steps 2000",
    "step_batch.py": "--only overhead --rounds 1 --seconds 0.02",
    "selfplay.py": "--minutes 0.05 --games 2 --simulations 4 --boards 1",
    "shares.py": "--quick --only a2c --rounds 1",
    "time_to_return.py": "--quick --only CartPole --seeds 0 --who ours",
    "training.py": "--quick --only ppo_cartpole --seeds 0 --who ours",
    "updates_from_replay.py": "--only sac --who ours --rounds 1 --seconds 0.1",
    "updates.py": "--only A2C --rounds 1 --seconds 0.02",
    "summary.py": "",
    "vector.py": "--only CartPole --rounds 1 --seconds 0.02 --stop-after 1",
    "vector_kills.py": "--kills 3 --envs cartpole",
}
#: The same for the command line, by subcommand.
REDUCED_CLI: dict[str, str] = {
    "plan": "--max-steps 2",
    "compare": "--model-steps 100 --seeds 1 --max-steps 3",
    "train": "--rounds 2",
    "sweep": "--rounds 1 --seeds 1",
    "eval": "--episodes 2 --max-steps 20",
    "play": "--max-steps 20",
    "export": "",
    "explore": "--max-steps 2000",
    "states": "--count 10",
    "audit": "--rollouts 1 --max-steps 20",
    "doctor": "--steps 5",
    "compile": "--steps 1000",
    "plot": "",
    "report": "",
    "watch": "--port 0",
    "list": "",
    "new": "",
    "completion": "",
    "--help": "",
}
#: What stands for the reader's own choice.
#: The reader's own module.
OWN_AGENTS = """
from plangym_ext.learn import RandomAgent


def my_agent(env):
    return RandomAgent(env.action_space)
"""
OWN_ENVS = """
import gymnasium
from plangym_ext.envs.rules.narrow_path import NarrowPathEnv

class Corridor(NarrowPathEnv):
    def __init__(self, length=5):
        super().__init__(length)

gymnasium.register("Corridor-v0", Corridor)
"""
PLACEHOLDERS = {"ENV_ID": "CartPole-v1", "NAME": "mcts"}
LEVELS = ROOT.parent / "shared" / "data" / "boxoban" / "unfiltered_test_000.txt"
#: What stands for PATH, by program; without a folder boxoban.py generates its levels.
PATHS = {"quality.py": str(LEVELS), "boxoban.py": ""}
_EXIT_MISSED = ("evaluator.py",)  # says with its exit status that an aim was missed

COMMANDS = published()


def program_of(command: Command) -> str:
    """Return the name of the benchmark that a command runs; "" if none."""
    found = [Path(word).name for word in command.words if word.startswith("tests/benchmarks/")]
    return found[0] if found else ""


def cli_words(command: Command) -> list[str]:
    """Return the arguments of `plangym-ext`; empty if another program is run."""
    is_cli = Path(command.words[0]).name == "plangym-ext"
    return command.words[1:] if is_cli else []


def is_install(command: Command) -> bool:
    return "pip" in command.words or command.words[1:3] == ["-m", "venv"]


def is_tox(command: Command) -> bool:
    return Path(command.words[0]).name == "tox"


def ids(command: Command) -> str:
    return f"{command.place} {shlex.join(command.words)}"


@pytest.mark.parametrize("command", COMMANDS, ids=ids)
def test_a_published_command_is_known(command):
    cli = cli_words(command)
    if cli:
        assert cli[0] in REDUCED_CLI
    elif program_of(command):
        assert program_of(command) in REDUCED
    elif is_tox(command):
        chosen = command.words[command.words.index("-e") + 1] if "-e" in command.words else ""
        assert set(filter(None, chosen.split(","))) <= tox_environments()
    else:
        assert is_install(command), f"{command.place}: how is this to be run?"


@pytest.mark.parametrize("command", [c for c in COMMANDS if len(cli_words(c)) > 1], ids=ids)
def test_a_published_line_is_taken_by_the_parser(command, read_folder, monkeypatch):
    monkeypatch.chdir(read_folder)
    words = filled_in(cli_words(command), PLACEHOLDERS)
    if "--help" in words:
        with pytest.raises(SystemExit, match=r"^0$"):
            build_parser(words).parse_args(words)
    else:
        build_parser(words).parse_args(words)


def test_every_benchmark_says_how_it_is_run():
    programs = {path.name for path in (ROOT / "tests" / "benchmarks").glob("*.py")}
    assert programs == set(REDUCED)
    assert programs == {program_of(command) for command in COMMANDS} - {""}


@pytest.mark.parametrize("command", [c for c in COMMANDS if is_install(c)], ids=ids)
def test_extras_of_an_install_exist(command):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(known["optional-dependencies"])
    for word in command.words:
        if word.endswith("]"):
            assert set(word.partition("[")[2].rstrip("]").split(",")) <= extras


_MODULES = sorted((ROOT / "tests" / "benchmarks").rglob("*.py"))


@pytest.mark.slow  # imports all that programs import
@pytest.mark.parametrize("path", _MODULES, ids=lambda path: path.stem)
def test_a_program_imports_names_that_are_there(path):
    pytest.importorskip("torch")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("plangym_ext"):
            try:
                module = importlib.import_module(node.module)
            except ModuleNotFoundError as error:  # of a framework that is not installed
                if (error.name or "").startswith("plangym_ext"):
                    raise
                continue
            for name in (alias.name for alias in node.names):
                there = hasattr(module, name) or find_spec(f"{node.module}.{name}")
                assert there, f"line {node.lineno}: {node.module} has no {name}"


#: Commands that refuse a place with results of another call.
BEGINNING = {"plan", "compare", "train", "sweep", "explore", "states"}
#: What keeps a command from beginning anything.
_NO_BEGIN = {"--help", "--list", "--dry-run", "..."}


def places(command: Command) -> list[str]:
    """Return where a command puts new results; none if it begins none, or is a form to fill in."""
    words = cli_words(command)
    if len(words) < 2 or (_NO_BEGIN | set(PLACEHOLDERS)) & set(words):
        return []
    options = build_parser(words).parse_args(words)
    if words[0] == "eval" and len(options.players) > 1:
        return [str(options.out or "runs/eval")]
    if words[0] not in BEGINNING:
        return []
    # A page of trees too: it is written over without a question.
    return [str(place) for place in (options.out, getattr(options, "tree", None)) if place]


def test_published_commands_begin_results_in_places_of_their_own(read_folder, monkeypatch):
    monkeypatch.chdir(read_folder)  # where the files lie that settings are read from
    begun: dict[str, list[str]] = {}
    kinds: dict[str, set[str]] = {}
    for command in COMMANDS:
        for place in places(command):
            kinds.setdefault(place, set()).add(cli_words(command)[0])
            if "--resume" not in command.words:
                begun.setdefault(place, []).append(ids(command))
    assert len(begun) > 20
    # A reader follows the pages from the first to the last in one folder: none may be refused.
    assert not {place: found for place, found in begun.items() if len(found) > 1}
    # What is resumed is there, or begins: either way it is of one kind.
    assert not {place: found for place, found in kinds.items() if len(found) > 1}


def test_the_extra_all_brings_all_that_the_page_lists_above_it():
    rows = (ROOT / "docs/getting_started.md").read_text().partition("| extra |")[2].splitlines()
    names = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in rows[2:10]]
    above = names[: names.index(["all"])]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (brought,) = extras["optional-dependencies"]["all"]
    found = re.fullmatch(r"plangym-ext\[(.+)\]", brought)[1].split(",")
    assert sorted(found) == sorted(name for row in above for name in row)


# Running them -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Return where a page's commands run: some read what others wrote, none another page's."""
    return with_files(tmp_path)


@pytest.fixture(scope="module")
def read_folder(tmp_path_factory):
    """Return the same where nothing is run: all commands are parsed in one."""
    return with_files(tmp_path_factory.mktemp("read"))


def with_files(tmp_path: Path) -> Path:
    """Return a folder in which a reader's files are."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    # Programs write their tables into pages: what a reduced run finds is not for the checkout's.
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    for copied in ("README.md", "docs/examples/own_planner.py", "docs/examples/scaled.py"):
        shutil.copy(ROOT / copied, tmp_path)
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "envs.py").write_text(OWN_ENVS)
    (tmp_path / "my_package" / "agents.py").write_text(OWN_AGENTS)
    # What `doctor --all` tries is in this environment, and installed in no other.
    (tmp_path / "here.toml").write_text("[here.packages.gymnasium]\nenvs = ['CartPole-v1']\n")
    (tmp_path / "runs/certificates/venvs").mkdir(parents=True)
    (tmp_path / "runs/certificates/venvs/here").symlink_to(sys.prefix)
    shown = (fence for fence in read_fences(ROOT / "docs/learning.md") if fence.tag == "toml")
    (tmp_path / "mine.toml").write_text(next(shown).code)
    # Its runs are what `plot runs` reads on that page.
    blocks = (fence.code for fence in read_fences(ROOT / "docs/collecting.md"))
    logs = next(code for code in blocks if "Logger(f" in code)
    subprocess.run(
        [sys.executable, "-c", logs], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL
    )
    return tmp_path


#: Runs a command, and interrupts it once it has said something.
_ENDED_WHEN_TOLD = """
import signal, subprocess, sys
with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True) as child:
    print(child.stdout.readline())
    child.send_signal(signal.SIGINT)
    print(child.stdout.read())  # its last words need a reader
sys.exit(child.returncode)
"""


def reduced(command: Command) -> list[str]:
    """Return the command at reduced size, with this interpreter."""
    cli, program = cli_words(command), program_of(command)
    if cli:
        run = [sys.executable, "-P", "-m", "plangym_ext.run.cli"]
        if len(cli) == 1:  # the text names the command
            return [*run, cli[0], "--help"]
        less = [] if "--help" in cli else REDUCED_CLI[cli[0]].split()
        if "--all" in cli:
            less += ["--list", "here.toml"]
        if cli[0] == "watch":  # ends with Ctrl-C alone
            run = [sys.executable, "-c", _ENDED_WHEN_TOLD, *run]
        return [*run, *filled_in(cli, PLACEHOLDERS), *less]
    start = command.words.index(f"tests/benchmarks/{program}")
    path = PATHS.get(program, sys.executable)
    given = filled_in(command.words[start:], {"PATH": path})
    return [sys.executable, *given, *REDUCED[program].split()]


def filled_in(words: list[str], values: dict[str, str]) -> list[str]:
    """Put values where a command has placeholders."""
    return [values.get(word, word) for word in words if word != "..."]


def group(command: Command) -> str:
    """Return what the command runs with, one after the other: a page's read each other's files.

    Those that start Ray are one group: a machine holds one cluster at a time.
    """
    page = command.place.partition(":")[0]
    starts_ray = "--ray" in command.words or program_of(command).startswith("ray_")
    return "ray" if starts_ray or page == "docs/scaling.md" else page


GROUPS: dict[str, list[Command]] = {"ray": []}  # first, as it takes longest
for one in COMMANDS:
    if cli_words(one) or program_of(one):
        GROUPS.setdefault(group(one), []).append(one)


@pytest.mark.parametrize("commands", GROUPS.values(), ids=GROUPS)
def test_a_command_reads_runs_that_its_page_has_begun(commands):
    """A page's commands run alone, in its order: what they read has to come from it."""
    begun: set[str] = set()
    for command in commands:
        words = cli_words(command)
        if words and not _NO_BEGIN & set(words):
            read = {word for word in words if re.fullmatch(r"runs/\w+", word)} - begun
            given = {
                words[i + 1] for i, word in enumerate(words[:-1]) if word in ("--out", "--tree")
            }
            assert not read - given, ids(command)
            begun |= given


@pytest.mark.slow
@pytest.mark.timeout(0)  # each command has a limit of its own
@pytest.mark.skipif("PYTEST_COMMANDS" not in os.environ, reason="runs in tox -e commands")
@pytest.mark.parametrize("commands", GROUPS.values(), ids=GROUPS)
def test_published_commands_run(commands, folder):
    failures = [f"{ids(command)}: {why}" for command in commands if (why := run(command, folder))]
    assert not failures, "\n\n".join(failures)


def run(command: Command, folder: Path) -> str:
    """Run a command at reduced size; return why it failed, "" if it did not."""
    try:
        done = subprocess.run(
            reduced(command),
            cwd=folder,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=280,  # the shortest training of learn.py takes a minute
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return str(error)
    missed = program_of(command) in _EXIT_MISSED and done.returncode == 1 and not done.stderr
    if done.returncode and not missed:
        return f"exit status {done.returncode}\n{done.stderr[-4000:]}"
    return "" if done.stdout.strip() + done.stderr.strip() else "it said nothing"
