"""The former place of `plangym_ext.vector.adapters.tianshou`."""

from plangym_ext.vector.adapters.tianshou import TianshouVectorEnv as TianshouVectorEnv
