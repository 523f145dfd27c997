"""Many runs as one: what is varied, the queue that runs it, and what came of it."""
