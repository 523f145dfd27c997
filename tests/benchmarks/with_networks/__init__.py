"""Searches with a network, beside mctx with the same one."""
