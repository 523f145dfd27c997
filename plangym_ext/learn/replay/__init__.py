"""Replay buffers of experience."""
