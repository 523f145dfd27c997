"""Command line and training runs (public names).

Names are loaded when they are first used: `Runner` and `Trained` bring torch with them.
"""

from plangym_ext.lazy_names import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
