"""In-place states: envs with a simulator object whose objects are restored in place."""
