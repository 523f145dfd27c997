"""Planners (public names): tree search, graph search and shooting over env states.

Names are loaded when they are first used: the kernels bring numba with them,
which a command line that only lists planners should not wait for.
"""

from plangym_ext.lazy_names import lazy_names

if __name__ != "plangym_ext.planners":  # with the checkout's folder first in the module path
    raise ModuleNotFoundError(
        f"there is no module {__name__!r}: this folder of a checkout is plangym_ext.planners",
        name=__name__,
    )

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
