"""Action distributions: the outputs of policy heads."""
