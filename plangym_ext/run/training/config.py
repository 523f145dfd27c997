"""The former place of `plangym_ext.run.settings.config`."""

from plangym_ext.run.settings.config import RunConfig as RunConfig
