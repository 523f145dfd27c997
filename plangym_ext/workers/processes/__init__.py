"""Start and end of worker processes: forks of a server, or new programs."""
