"""Driver: import path, trust key and registrations that a Ray actor needs."""

from __future__ import annotations

import pickle
import sys
from typing import NamedTuple, Self

import cloudpickle

from plangym_ext.states import trust
from plangym_ext.states.families import custom_families, register_family
from plangym_ext.workers.processes.registrations import Registrations


class Driver(NamedTuple):
    """The sending process: import path, trust key, families, registrations.

    Attributes:
        path: its module path.
        key: of its session; see `states.trust`.
        families: pickle of the families that did not come with the library.
        registered: what it has registered with gymnasium.
    """

    path: list[str]
    key: bytes
    families: bytes
    registered: Registrations | None

    @classmethod
    def of_this_process(cls) -> Self:
        """Return this process's data for its actors."""
        return cls(
            [entry for entry in sys.path if entry],
            trust.session_key(),
            cloudpickle.dumps(custom_families()),
            Registrations.of_this_process(),
        )

    def meet(self) -> None:
        """Prepare this process, an actor's, to load the driver's pickles."""
        # Before families are loaded, whose modules may lie there; after the actor's own entries.
        sys.path += [entry for entry in self.path if entry not in sys.path]
        trust.join_session(self.key)
        for family in pickle.loads(self.families):
            register_family(family)
        if self.registered is not None:
            self.registered.install()
