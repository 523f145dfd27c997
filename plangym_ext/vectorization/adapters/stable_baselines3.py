"""The former place of `plangym_ext.vector.adapters.stable_baselines3`."""

from plangym_ext.vector.adapters.stable_baselines3 import (
    StableBaselines3VecEnv as StableBaselines3VecEnv,
)
