"""Who imports whom: the layers of the design, read from the source of every module."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "plangym_ext": "plangym_ext",
    "envs": "plangym_ext.envs",
    "planners": "plangym_ext.planners",
}

#: Layer -> layers that it may import. `errors, arrays <- states <- core <- envs, native,
#: workers, planners, explore <- vector <- learn <- run`; envs bring kernels for the native
#: backends; the registry joins envs with backends, and `vector_registry` vector envs with both.
_LOW = {"lazy_names", "errors", "arrays", "states", "core"}
_BACKENDS = {"native", "workers"}
_MAKERS = {"registry", "vector_registry"}
ALLOWED = {
    "lazy_names": set(),
    "errors": set(),
    "arrays": {"errors"},
    "states": {"errors", "arrays"},
    "core": {"errors", "arrays", "states"},
    "native": _LOW,
    "envs": _LOW | {"native"},
    "workers": _LOW,
    "planners": _LOW,
    "explore": _LOW,
    "vector": _LOW | {"workers"},
    "registry": _LOW | _BACKENDS | {"envs", "vector"},
    "vector_registry": _LOW | _BACKENDS | {"vector", "registry"},
    "learn": _LOW | _BACKENDS | {"envs", "vector", "planners", *_MAKERS},
    "run": _LOW
    | _BACKENDS
    | {"ids", "envs", "vector", "planners", "explore", *_MAKERS, "learn", ""},
    # Faces with other libraries' names: nothing imports them.
    "compat": _LOW | _BACKENDS | {"envs", "vector", "planners", "explore", *_MAKERS, "learn"},
    # Tests for its users' parts: likewise.
    "testing": _LOW | _BACKENDS | {"vector", "planners", *_MAKERS, "learn", "run", ""},
    "__main__": {"run"},
    # Of envs it knows the names.
    "ids": {"states"},
    # The package itself only names modules; it imports them when they are used.
    "": _LOW
    | _BACKENDS
    | {"ids", "envs", "vector", "planners", "explore", *_MAKERS, "learn", "run"},
}
#: Folder of `planners` -> folders that it may import. "" are the files on top, which all
#: share; they show plans and episodes as pages. `trees <- lockstep <- compiled <- mcts`;
#: `rollouts <- compiled, graphs, continuous`.
PLANNER_FOLDERS = {
    "pages": set(),
    "": {"pages"},
    "trees": {""},
    "rollouts": {""},
    "lockstep": {"", "trees"},
    "compiled": {"", "trees", "lockstep", "rollouts"},
    "mcts": {"", "trees", "lockstep", "rollouts", "compiled"},
    "novelty": {"", "trees", "lockstep"},
    "graphs": {"", "rollouts"},
    "continuous": {"", "rollouts"},
}


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return every module by its import name."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *(part for part in parts if part != "__init__")])
            found[name] = ast.parse(path.read_text(), str(path))
    return found


def imported(tree: ast.Module):
    """Yield the names of modules that a tree imports, wherever in it, for types or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules() else node.module


def named(tree: ast.Module):
    """Yield our modules that a tree imports by `import_module` with the name written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if called == "import_module" and str(node.args[0].value).startswith("plangym_ext"):
                yield node.args[0].value


def layer(module: str) -> str:
    return [*module.split("."), ""][1]


def planner_folder(module: str) -> str:
    """Return the folder of `planners` that a module of it lies in; "" for the files on top."""
    folder = [*module.split("."), ""][2]
    return folder if (ROOT / "planners" / folder).is_dir() else ""


@functools.cache
def edges() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports."""
    return {
        name: {target for target in imported(tree) if target.split(".")[0] == "plangym_ext"}
        for name, tree in modules().items()
    }


def test_all_folders_have_been_read():
    assert {layer(name) for name in modules()} >= {"", "arrays", "core", "envs", "planners", "run"}
    assert len(modules()) > 40


# One test of all modules, not one of each: a test costs more than what these rules ask.
def test_imports_point_down():
    above = {
        f"{name} may import {sorted(ALLOWED[layer(name)])}; it imports {target}"
        for name in modules()
        for target in edges()[name]
        if layer(target) not in ALLOWED[layer(name)] | {layer(name)}
    }
    assert not above, sorted(above)


def test_the_folders_of_planners_are_in_an_order():
    found = {planner_folder(name) for name in modules() if layer(name) == "planners"}
    assert found == set(PLANNER_FOLDERS)
    order = list(PLANNER_FOLDERS)
    for i, folder in enumerate(order):
        assert PLANNER_FOLDERS[folder] <= set(order[:i]), f"{folder} may import one below it"


# The package itself names modules for type checkers; it imports them when they are used.
def test_imports_between_planners_go_one_way():
    wrong = {
        f"{name} may import {sorted(PLANNER_FOLDERS[mine])} of planners; it imports {target}"
        for name in modules()
        if name.startswith("plangym_ext.planners.")
        for mine in [planner_folder(name)]
        for target in edges()[name]
        if layer(target) == "planners"
        and planner_folder(target) not in PLANNER_FOLDERS[mine] | {mine}
    }
    assert not wrong, sorted(wrong)


def test_imports_are_absolute_and_of_modules_that_exist():
    relative = {
        f"{name}: line {node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    }
    assert not relative, sorted(relative)
    unknown = {
        f"{name} imports {target}, which is no module of the package"
        for name, tree in modules().items()
        for target in imported(tree)
        if target.split(".")[0] in FOLDERS and target not in modules()
    }
    assert not unknown, sorted(unknown)


def reachable(name: str) -> set[str]:
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        new = edges().get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def test_there_are_no_cycles():
    # The package itself names modules for type checkers only.
    reach = {name: reachable(name) for name in modules() if name != "plangym_ext"}
    cycles = {
        frozenset(other for other in found if name in reach.get(other, ()))
        for name, found in reach.items()
        if name in found
    }
    assert not cycles, [sorted(cycle) for cycle in cycles]


def test_only_known_modules_are_imported_by_name_against_the_direction():
    # The table of families brings the built-in ones in when it is first asked.
    found = {
        (name, target)
        for name, tree in modules().items()
        for target in named(tree)
        if layer(target) not in ALLOWED[layer(name)] | {layer(name)}
    }
    assert found <= {("plangym_ext.states.families", "plangym_ext.envs")}


def test_only_learning_imports_torch():
    users = {
        name
        for name, tree in modules().items()
        if any(target.split(".")[0] == "torch" for target in imported(tree))
    }
    assert {layer(name) for name in users} <= {"learn"}, sorted(users)


def test_planners_need_numpy_and_numba_alone():
    used = {
        target.split(".")[0]
        for name, tree in modules().items()
        if layer(name) == "planners"
        for target in imported(tree)
    }
    assert used - set(sys.stdlib_module_names) <= {"plangym_ext", "numpy", "numba"}


def test_layers_below_the_envs_name_no_simulator():
    simulators = {"ale_py", "mujoco", "pygame", "Box2D", "dm_control", "minigrid"}
    for name, tree in modules().items():
        # One backend is a simulator's own.
        if name.startswith("plangym_ext.native.mujoco"):
            continue
        if layer(name) in {
            "errors",
            "arrays",
            "states",
            "core",
            "native",
            "workers",
            "vector",
            "planners",
        }:
            assert simulators.isdisjoint(target.split(".")[0] for target in imported(tree)), name


def test_a_program_runs_when_all_of_its_module_is_defined():
    for name, tree in modules().items():
        for after, statement in enumerate(tree.body, 1):
            if isinstance(statement, ast.If):
                is_main = ast.unparse(statement.test) == "__name__ == '__main__'"
                assert not is_main or after == len(tree.body), f"{name}: code after its program"
