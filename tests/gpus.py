"""Tests that need a GPU."""

from __future__ import annotations

import pytest
import torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
#: For `parametrize`.
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]
