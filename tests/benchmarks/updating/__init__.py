"""Updates of rollout algorithms: ours and those of a peer."""
