"""Backends that run rows in native code."""
