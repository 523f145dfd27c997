"""Actors: option of a run to play its games elsewhere, such as on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass

from plangym_ext.errors import InvalidOption
from plangym_ext.run.settings.config import CollectorSettings, RunConfig
from plangym_ext.workers.workplace import Workplace


@dataclass(frozen=True)
class Actors:
    """The workplace of a run's games, and the number of actors.

    They are no setting: what is played does not depend on where, and a run may go on with others.

    Args:
        workplace: where the actors run, such as a `RayCluster`. It stays open.
        count: how many; None for `collector.n_workers`, and if that is 0 for one per processor.
    """

    workplace: Workplace
    count: int | None = None

    def number(self, settings: CollectorSettings) -> int:
        """Return the number of actors, at most one per game."""
        wanted = self.count or settings.n_workers or self.workplace.default_workers()
        return min(wanted, settings.num_envs)

    def check(self, config: RunConfig) -> None:
        """Refuse a run whose games these actors cannot play.

        Raises:
            InvalidOption: it has several learners, or there is more to step than its games.
        """
        how = getattr(config.learner, "advantages", None)
        alone = {
            "algorithm.advantages": how is not None and how.forked,
            "algorithm 'expert'": config.planner is not None and not config.learns_episodes,
            "collector.kind 'solutions'": config.collector.kind == "solutions",
        }
        for what in (name for name, given in alone.items() if given):
            raise InvalidOption(
                f"settings: {what} is of runs that search or branch in their own process; actors "
                f"only play games. Leave out --ray."
            )
        if config.learners > 1:
            raise InvalidOption(
                f"settings: learners must be 1 in a run whose games actors play; got "
                f"{config.learners}. Leave out --ray, or learners."
            )
