"""The former place of `plangym_ext.run.evaluating.paired`."""

from plangym_ext.run.evaluating.paired import difference as difference
