"""plangym's names over this library's exact states: `make`, classes and hooks.

`import plangym_ext.compat.plangym as plangym` is meant to be the only line of a program that
changes. States are `[S]` uint8 that restore bit for bit; the page "Coming from another library"
lists what differs.
"""

from plangym_ext.compat.plangym.core import PlanEnv, PlangymEnv
from plangym_ext.compat.plangym.registry import make

__all__ = ["PlanEnv", "PlangymEnv", "make"]
