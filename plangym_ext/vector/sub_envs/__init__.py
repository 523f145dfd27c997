"""Vector-env backend whose rows are live envs, in this process or in workers."""
