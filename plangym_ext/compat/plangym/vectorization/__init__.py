"""plangym's vectorized envs: batches on worker processes or Ray actors."""
