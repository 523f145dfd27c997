"""The memory of a vector env, which the processes of its rows share with the caller."""
