"""Novelty search planners: IW(1) and Rollout-IW."""
