"""Native backends: env rows run in compiled kernels or on MuJoCo's threads."""
