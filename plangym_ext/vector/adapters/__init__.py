"""Vector envs as other frameworks want them: one file each, which imports its framework."""
