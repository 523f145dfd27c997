"""Contracts of envs, backends, planners, vector envs, agents and algorithms, as classes for pytest.

class TestCorridor(EnvContract):
    name = "my_package.envs:Corridor-v0"
"""

from plangym_ext.errors import MissingExtra
from plangym_ext.lazy_names import lazy_names, names_of

try:
    import pytest
except ImportError as error:
    raise MissingExtra(
        "plangym_ext.testing: pytest must be installed; it is not. Install it with: "
        "pip install pytest"
    ) from error

# Before they are imported: so a failed assertion shows its values.
pytest.register_assert_rewrite(f"{__name__}.episode", *names_of(__file__).values())

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
