"""The former place of `plangym_ext.run.settings.compose`."""

from plangym_ext.run.settings.compose import compose as compose
