"""How worker processes are started and ended: as forks of a server, or as programs."""
