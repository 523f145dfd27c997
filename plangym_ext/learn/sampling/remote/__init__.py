"""Remote actors: sampling in worker processes, and its data transfer."""
