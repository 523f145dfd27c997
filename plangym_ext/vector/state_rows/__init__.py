"""Vector-env backend whose rows are states, stepped by a native backend."""
