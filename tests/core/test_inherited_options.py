"""Signatures and docstrings that hold what bases take and say as well."""

from __future__ import annotations

import inspect
import pydoc
from dataclasses import dataclass, field

import pytest

from plangym_ext.core.inherited_options import InheritedOptions, described, parameters_of
from plangym_ext.planners import PLANNERS, Planner, load_planner


def public_classes():
    from plangym_ext import learn, planners

    for package in (planners, learn):
        for name in package.__all__:
            found = getattr(package, name)
            if isinstance(found, type) and issubclass(found, InheritedOptions):
                yield found


def test_every_option_of_planners_algorithms_and_settings_is_in_signature_and_docstring():
    pytest.importorskip("torch")
    classes = list(public_classes())
    assert len(classes) > 60
    for cls in classes:
        names = list(inspect.signature(cls).parameters)
        assert "options" not in names, cls
        assert [name for name in names if name not in described(cls)] == [], cls
        assert [name for name in described(cls) if name not in names] == [], cls


@pytest.mark.parametrize("name", PLANNERS)
def test_signatures_of_planners_have_the_defaults_and_help_shows_them(name):
    planner = load_planner(name)
    signature = inspect.signature(planner)
    assert signature.parameters["discount"].default == 0.99
    # As the constructor's, with plain types for those that have bounds.
    plain = inspect.Parameter.empty
    _, *parameters = inspect.signature(planner.__init__).parameters.values()
    assert [one.replace(annotation=plain) for one in signature.parameters.values()] == [
        one.replace(annotation=plain) for one in parameters
    ]
    assert signature.parameters["num_simulations"].annotation == "int | None"
    text = pydoc.render_doc(planner, renderer=pydoc.plaintext)
    assert "discount: 'float' = 0.99" in text
    assert "gamma in [0, 1]" in text


def test_what_is_said_of_an_option_by_the_nearest_class_counts():
    @dataclass
    class Near(Planner):
        """Plans.

        Args:
            discount: mine.

        Source: a book.
        """

        _plan_batch = None

    assert described(Near)["discount"] == "mine."
    assert described(Near)["max_model_steps"].startswith("maximum of control steps")
    assert inspect.getdoc(Near).endswith("\n\nSource: a book.")


def test_a_field_that_the_constructor_does_not_take_is_not_described():
    @dataclass
    class Fixed(Planner):
        """Plans."""

        discount: float = field(default=1.0, init=False)
        _plan_batch = None

    assert "discount" not in described(Fixed)
    assert "discount" not in inspect.signature(Fixed).parameters


def test_options_that_are_passed_on_are_those_of_the_next_constructor():
    class Passing(Planner):
        """Plans.

        Args:
            depth: of it.
        """

        def __init__(self, depth: int = 3, **options):
            super().__init__(**options)
            self.depth = depth

        _plan_batch = None

    found = parameters_of(Passing)
    assert next(iter(found)) == "depth"
    assert "options" not in found
    assert found["max_seconds"].kind is inspect.Parameter.KEYWORD_ONLY
    assert list(described(Passing))[:2] == ["depth", "num_simulations"]


def test_a_class_that_passes_nothing_on_has_what_it_takes_alone():
    class Alone(Planner):
        """Plans.

        Args:
            depth: of it.
        """

        def __init__(self, depth: int = 3):
            super().__init__()
            self.depth = depth

        _plan_batch = None

    assert list(described(Alone)) == list(inspect.signature(Alone).parameters) == ["depth"]


def test_a_class_without_a_docstring_has_that_of_its_base():
    class Bare(Planner):
        _plan_batch = None

    assert described(Bare) == described(Planner)
