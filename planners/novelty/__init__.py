"""Searches that go on where they see something new: IW(1) and Rollout-IW."""
