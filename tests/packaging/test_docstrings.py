"""Public methods have a docstring: their own, or that of the method they override.

ruff's D102 knows no inheritance; it is replaced by this. A subclass's docstring says what differs.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
Classes = dict[str, list[ast.ClassDef]]


def classes_of(trees) -> Classes:
    """Return the modules' classes by name: of a name that several have, a base may be any."""
    found: Classes = {}
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def functions(cls: ast.ClassDef) -> list[ast.FunctionDef]:
    return [one for one in cls.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def bases(cls: ast.ClassDef):
    for base in cls.bases:
        name = base.value if isinstance(base, ast.Subscript) else base
        yield name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")


def is_documented(cls: ast.ClassDef, method: str, classes: Classes) -> bool:
    if any(one.name == method and ast.get_docstring(one) for one in functions(cls)):
        return True
    others = (other for base in bases(cls) for other in classes.get(base, ()))
    return any(other is not cls and is_documented(other, method, classes) for other in others)


def undocumented(trees) -> list[str]:
    """Return the public methods of public classes without a docstring."""
    classes = classes_of(trees)
    return [
        f"{cls.name}.{one.name}"
        for named in classes.values()
        for cls in named
        if not cls.name.startswith("_")
        for one in functions(cls)
        # Names of tests say what they test.
        if not one.name.startswith(("_", "test_")) and not is_documented(cls, one.name, classes)
    ]


def test_public_methods_have_a_docstring_or_override_one_that_has():
    paths = [
        path for top in ("plangym_ext", "planners", "envs") for path in (ROOT / top).rglob("*.py")
    ]
    assert len(paths) > 400
    assert undocumented(ast.parse(path.read_text()) for path in paths) == []


def test_a_method_without_any_is_found():
    source = '''
class Base:
    def told(self):
        """Say it."""
    def _own(self): ...
class Derived(Base):
    def told(self): ...
    def untold(self): ...
class _Private:
    def untold(self): ...
'''
    assert undocumented([ast.parse(source)]) == ["Derived.untold"]
