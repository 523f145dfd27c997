"""SamplerOptions: options that all samplers share; check of their vector env."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from plangym_ext.arrays.items import itemized
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.numbers import at_least, finite_between
from plangym_ext.errors import InvalidOption, UnknownName, WrongKind, suggestion
from plangym_ext.learn.sampling.league import OPPONENT, Opponents
from plangym_ext.learn.sampling.starts import Starts
from plangym_ext.planners.players import PLAYER, TO_PLAY, check_one_player
from plangym_ext.vector.vector_env import PlanVectorEnv

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
        episode_sums: names of `env_info` that are added up over the steps of an episode, which
            become columns too; of an array "name.0", "name.1" and so on.
        action_mask: whether the info "action_mask" is heeded, which says what may be played next
            in a Discrete space: agents see it, and the tree has it.
        window: how many episodes the online statistics are of.
        starts: stored states that episodes begin from; None: all begin by a reset. The table of
            episodes then has "start", the index of the state; -1 for a reset.
        recover: whether states of the envs are kept when a fragment begins, so that one which
            failed is played again; without, new episodes begin after a failure.
        max_steps: steps after which an episode is truncated, and its env reset; None: the envs'
            own limits count alone.
        opponents: play the other side of an env with two players, which is then an env of one; the
            table of episodes then has "opponent". None: there are none.
        first_row: number of the first row. What a row draws depends on its number, so samplers
            whose rows have other numbers play as parts of one sampler would.
    """

    seed: int = 0
    on_end: str = "reset"
    random_steps: int = 0
    discount: float = 0.99
    env_info: Mapping[str, Any] = field(default_factory=dict)
    episode_fields: Sequence[str] = ()
    episode_sums: Sequence[str] = ()
    action_mask: bool = True
    window: int = 100
    recover: bool = True
    starts: Starts | None = None
    first_row: int = 0
    max_steps: int | None = None
    opponents: Opponents | None = None

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
        if self.opponents is not None and (self.starts or self.env_info):
            raise InvalidOption(
                "sampler: opponents play from the first move of a game on and keep no infos; leave "
                "starts and env_info out."
            )
        if self.on_end not in ON_END:
            raise UnknownName(
                f"sampler: on_end must be one of {', '.join(ON_END)}; got {self.on_end!r}"
                f"{suggestion(str(self.on_end), ON_END)}."
            )

        if refused := set(self.episode_sums) - (set(self.env_info) - set(self.episode_fields)):
            raise InvalidOption(
                f"sampler: episode_sums must be infos that env_info keeps, "
                f"{sorted(self.env_info)}, without episode_fields; got {sorted(refused)}. Name "
                f"them in env_info, and not in episode_fields."
            )

    @property
    def told(self) -> tuple[str, ...]:
        """Names of the infos that are columns of the table of episodes."""
        return (*self.episode_fields, *((OPPONENT,) if self.opponents else ()))

    def numbers(self, rows: range) -> range:
        """Return the random-stream numbers of some rows."""
        return range(rows.start + self.first_row, rows.stop + self.first_row)


def no_opponents(where: str, options: SamplerOptions) -> None:
    """Refuse opponents where a sampler does not know them.

    Raises:
        InvalidOption: there are some.
    """
    if options.opponents is not None:
        raise InvalidOption(
            f"{where}: opponents must be None; got {options.opponents!r}. Use a SerialSampler."
        )


# Check that a vector env is suitable for sampling -----------------------------


class RowSpaces:
    """The spaces of one row of a vector env, or of an env.

    Attributes:
        single_observation_space, single_action_space: as vector envs call them.
        obs, action: layouts of their arrays; of a Graph those of its parts.

    Raises:
        TypeError: a space has no fixed-size array form.
    """

    def __init__(self, env: Any) -> None:
        vector = hasattr(env, "single_action_space")
        self.single_observation_space: spaces.Space[Any] = (
            env.single_observation_space if vector else env.observation_space
        )
        self.single_action_space: spaces.Space[Any] = (
            env.single_action_space if vector else env.action_space
        )
        self.obs = SpaceLayout(itemized(self.single_observation_space), items=True)
        self.action = SpaceLayout(self.single_action_space)


def check_vector_env(venv: Any, where: str, told: Container[str] = ()) -> None:
    """Refuse a vector env that cannot be sampled from.

    Args:
        venv: the vector env.
        where: for messages.
        told: infos that are kept. With those of who moved and who moves next, targets are of the
            player who moved.

    Raises:
        WrongKind: it is no vector env, or its envs have several players.
        InvalidOption: it does not reset in the step that ends an episode, or its envs have
            spaces of their own.
    """
    if not isinstance(venv, PlanVectorEnv):
        raise WrongKind(f"{where}: must be a vector env, as make_vec makes them; got {venv!r}.")
    if not (PLAYER in told and TO_PLAY in told):
        check_one_player(venv, where)
    mode = venv.autoreset_mode
    if mode is not AutoresetMode.SAME_STEP:
        raise InvalidOption(
            f"{where}: the vector env must reset in the step that ends an episode, or a reset "
            f"would count as a step; its autoreset mode is {mode.value}. "
            "Make it with autoreset_mode='same_step'."
        )
    for kind in ("observation", "action"):
        single, every = getattr(venv, f"single_{kind}_space"), getattr(venv, f"{kind}_space")
        if every != batch_space(single, venv.num_envs):
            raise InvalidOption(
                f"{where}: all envs must have one {kind} space, {single}; those of this vector "
                f"env differ: {every}. Bring them together in wrappers."
            )
