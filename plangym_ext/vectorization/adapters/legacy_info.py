"""The former place of `plangym_ext.vector.adapters.legacy_info`."""

from plangym_ext.vector.adapters.legacy_info import LegacyInfo as LegacyInfo
