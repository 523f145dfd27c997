"""plangym's vectorized envs: workers that hold faces."""
