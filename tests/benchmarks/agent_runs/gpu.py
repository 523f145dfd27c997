"""Which GPU a run has learned on."""

from __future__ import annotations

import torch


def gpu_of(device: str) -> dict[str, str]:
    """Return the name of a device of torch as "gpu"; nothing, if it is no GPU."""
    return {"gpu": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {}
