"""SamplerOptions: options that all samplers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plangym_ext.core.numbers import at_least, finite_between
from plangym_ext.errors import UnknownName, WrongKind, suggestion
from plangym_ext.learn.sampling.starts import Starts

#: What a row does when its episode has ended, until the fragment is full.
ON_END = ("reset", "wait", "sticky")


@dataclass(frozen=True)
class SamplerOptions:
    """The options that all samplers share.

    Args:
        seed: int >= 0; with the agent, it decides everything that is sampled.
        on_end: "reset" begins the next episode at once. Else the row waits for the next
            fragment, and `valid` is False: with "wait" everything is 0, with "sticky" the
            first observation of the next episode is shown again and again, with `first`.
        random_steps: at the start every row plays a random number of random steps, at most
            so many, so that the rows' episodes do not end together.
        discount: of the "discounted_return" of episodes.
        env_info: numeric infos that are kept, dtypes by name; or (dtype, shape). A row
            without that info has 0.
        episode_fields: names of numeric infos of the last step of an episode, which become
            columns of the table of episodes; "a.b" is b of the dict a.
        action_mask: whether the info "action_mask" is heeded, which says what may be played next
            in a Discrete space: agents see it, and the tree has it.
        window: how many episodes the online statistics are of.
        starts: stored states that episodes begin from; None: all begin by a reset. The table of
            episodes then has "start", the index of the state; -1 for a reset.
        recover: whether states of the envs are kept when a fragment begins, so that one which
            failed is played again; without, new episodes begin after a failure.
        max_steps: steps after which an episode is truncated, and its env reset; None: the envs'
            own limits count alone.
        first_row: number of the first row. What a row draws depends on its number, so samplers
            whose rows have other numbers play as parts of one sampler would.
    """

    seed: int = 0
    on_end: str = "reset"
    random_steps: int = 0
    discount: float = 0.99
    env_info: Mapping[str, Any] = field(default_factory=dict)
    episode_fields: Sequence[str] = ()
    action_mask: bool = True
    window: int = 100
    recover: bool = True
    starts: Starts | None = None
    first_row: int = 0
    max_steps: int | None = None

    def __post_init__(self) -> None:
        at_least("sampler: seed", self.seed, 0)
        at_least("sampler: first_row", self.first_row, 0)
        at_least("sampler: random_steps", self.random_steps, 0)
        at_least("sampler: window", self.window, 1)
        if self.max_steps is not None:
            at_least("sampler: max_steps", self.max_steps, 1)
        finite_between("sampler: discount", self.discount, 0.0, 1.0)
        if self.starts is not None and not isinstance(self.starts, Starts):
            raise WrongKind(
                f"sampler: starts must be Starts, such as StoredStarts(states); got a "
                f"{type(self.starts).__name__}."
            )
        if self.on_end not in ON_END:
            raise UnknownName(
                f"sampler: on_end must be one of {', '.join(ON_END)}; got {self.on_end!r}"
                f"{suggestion(str(self.on_end), ON_END)}."
            )

    def numbers(self, rows: range) -> range:
        """Return the random-stream numbers of some rows."""
        return range(rows.start + self.first_row, rows.stop + self.first_row)
