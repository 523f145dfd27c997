"""Learning (public names): networks, agents, samplers, and the algorithms that train them.

Names are loaded when they are first used: torch, and numba, only by those that need them.
"""

from plangym_ext.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
