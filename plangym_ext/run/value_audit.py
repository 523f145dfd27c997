"""The former place of `plangym_ext.run.evaluating.value_audit`."""

from plangym_ext.run.evaluating.value_audit import audit_values as audit_values
