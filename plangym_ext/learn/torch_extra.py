"""Import of torch, or an error that says how to install it.

Every module that needs torch takes it from here.
"""

from __future__ import annotations

from plangym_ext.errors import MissingExtra, installing

try:
    import torch as torch
    from torch import nn as nn
    from torch.nn import functional as functional
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingExtra(
        "plangym_ext.learn: networks and algorithms need torch; it is not installed. "
        + installing("learn")
    ) from error
