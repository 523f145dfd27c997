"""Replay buffers: rows of experience that batches are drawn from."""
