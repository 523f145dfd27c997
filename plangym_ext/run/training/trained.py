"""Trained: env, network and player loaded from a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import DamagedCheckpoint
from plangym_ext.learn.transforms.rewards import reward_deviation
from plangym_ext.planners.episode import Episode, Move
from plangym_ext.planners.options import options_of
from plangym_ext.run.pretrained import checkpoint_path
from plangym_ext.run.run_page.content import ShownRun
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build, free
from plangym_ext.run.training.checkpoints import (
    BEST,
    Checkpoints,
    check_not_former,
    check_same_spaces,
    checked_count,
    read_checkpoint,
)
from plangym_ext.run.training.evaluation import played
from plangym_ext.run.training.own_parts import OWN_STATE, check_own_parts, load_agent
from plangym_ext.run.training.parts import MakeEnv, MakeNetwork, Parts

#: What an algorithm saves, besides networks, that is read of it here.
_LEARNED = ("updates", "steps", "rewards")


class Trained(ShownRun, Closing):
    """Env, network and player of a checkpoint, as in the run's evaluations.

    The network is where it was while it learned, or on the CPU if that was a GPU that is not here.
    Until `close` torch computes on as many threads as in the run.

    Args:
        checkpoint: a file, or the folder of a run, of which the newest one is taken, or the name
            of a pretrained agent.
        env: arguments of the env that differ.
        planner: options of the planner that differ, of a run that has one.
        player: "network" or, of a run with a planner, "planner"; None: as the run was evaluated.
        sample: whether an agent draws its actions from its policy; None: as the run was evaluated.
        seed: of the first episode; None: the run's.
        make_env: makes the env, if it is your own; see `Parts`.
        make_network: makes the network, if it is your own; see `Parts`.

    Attributes:
        path: of the checkpoint.
        folder: of its run.
        config: settings of the run, with what differs.
        env: where to play.
        network: what was trained.
        player: a planner; plays the network, or searches with it.
        max_steps: moves after which an episode is cut.

    Raises:
        DamagedCheckpoint: the checkpoint is not there, was cut short or altered.
        ForeignCheckpoint: the env has other observations or actions; or the run had an env or a
            network of your own, which is not given.
        ForeignNetwork: the weights are those of another network.
        ConcurrentUse: a run in another thread computes on another number of threads.
    """

    @checking_arguments
    def __init__(
        self,
        checkpoint: Path | str,
        *,
        env: Mapping[str, Any] | None = None,
        planner: Mapping[str, Any] | None = None,
        player: str | None = None,
        sample: bool | None = None,
        seed: int | None = None,
        make_env: MakeEnv | None = None,
        make_network: MakeNetwork | None = None,
    ) -> None:
        from plangym_ext.learn import load_network_state
        from plangym_ext.learn.repeatable import THREADS

        self.path, saved, own = _read(checkpoint)
        above = self.path.absolute().parent
        self.folder = above.parent if above.name == "checkpoints" else above
        evaluation = dataclasses.replace(
            own.evaluation,
            env={**own.evaluation.env, **free(env or {})},
            planner={**own.evaluation.planner, **(planner or {})},
            player=own.evaluation.player if player is None else player,
            sample=own.evaluation.sample if sample is None else sample,
            seed=own.evaluation.seed if seed is None else seed,
        )
        self.config = dataclasses.replace(own, evaluation=evaluation)
        way = saved.get("captured_by", "auto")
        parts = Parts(self.config, make_env, make_network, capture=way)
        check_own_parts(str(self.path), saved, parts.own)
        self.max_steps = self.config.env.max_steps
        self._held = ExitStack()
        # As in the run's evaluations: sums over another number of threads round otherwise.
        THREADS.hold(self.config.threads)
        self._held.callback(THREADS.release, self.config.threads)
        try:
            self.env = self._held.enter_context(parts.env(self.config.evaluation.env))
            check_same_spaces(str(self.path), saved, self.env)
            self.network = parts.network(self.env)
            load_network_state(self.network, saved["trainer"]["network"], str(self.path))
            agent = parts.agent(self.network)
            load_agent(agent, saved, str(self.path))
            self.player = parts.player(agent)
            #: What the algorithm has saved, but for replay, networks and optimisers; None each of a
            #: file of weights that has none of it.
            self.learned = {key: saved["trainer"].get(key) for key in _LEARNED}
            # Agents play anything before their first update. Files of weights had no number of
            # updates once, and are of what was trained.
            updates = self.learned["updates"]
            agent.version = self.player.updates = 1 if updates is None else int(updates)
        except BaseException:
            # Ctrl-C too: the caller has no object yet with which to close the env.
            self._held.close()
            raise

    def play(self, episodes: int, callback: Callable[[Move], None] | None = None) -> list[Episode]:
        """Play several episodes; `callback` is called after each move."""
        return played(
            self.env,
            self.player,
            seed=self.config.evaluation.seed,
            max_steps=self.max_steps,
            num_episodes=episodes,
            callback=callback,
        )

    def close(self) -> None:
        self._held.close()


def to_play(learned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the playing part of an algorithm's saved state, without training data."""
    found = {key: learned[key] for key in ("network", *_LEARNED) if key in learned}
    critics = learned.get("modules", {}).get("critics")
    return found if critics is None else {**found, "modules": {"critics": critics}}


def checked_best(saved: Mapping[str, Any]) -> dict[str, float]:
    """Return a checkpoint's best evaluation, "round" and "return"; {} for none yet.

    Raises:
        DamagedCheckpoint: it is neither.
    """
    found = saved.get("best", {})
    if isinstance(found, dict) and not found:
        return found
    try:
        return {"round": checked_count(found, "round"), "return": float(found["return"])}
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpoint(
            f"best: expected the number of a round and its return; got {found!r:.40}. Use an "
            f"unchanged checkpoint of this library."
        ) from error


def playing_part(checkpoint: Path | str) -> dict[str, Any]:
    """Return the part of a checkpoint for playing: settings, spaces and weights.

    Args:
        checkpoint: as of `Trained`.
    """
    _, saved, _ = _read(checkpoint)
    texts = ("format", "config", "versions", "spaces", "space_values", "own", "captured_by")
    found = {name: saved[name] for name in (*texts, "round", "steps") if name in saved}
    found["best"] = checked_best(saved)
    own = {"agent": saved[OWN_STATE]["agent"]} if "agent" in saved.get(OWN_STATE, {}) else {}
    return {**found, OWN_STATE: own, "trainer": to_play(saved["trainer"])}


def load_weights(network: Any, env: Any, checkpoint: Path | str) -> None:
    """Load a run's weights and observation moments into a network.

    Args:
        network: of the same kind; it is changed in place.
        env: that it is for.
        checkpoint: a file, or the folder of a run, of which the newest one is taken.

    Raises:
        DamagedCheckpoint: the checkpoint is not there, was cut short or altered.
        ForeignCheckpoint: the run's env has other observations or actions.
        ForeignNetwork: the weights are those of another network.
    """
    from plangym_ext.learn import load_network_state

    path, saved, _ = _read(checkpoint)
    check_same_spaces(str(path), saved, env)
    load_network_state(network, saved["trainer"]["network"], str(path))


def settings_of(checkpoint: Path | str) -> tuple[RunConfig, str]:
    """Return the settings of a checkpoint's run, and the name of its env's constructor.

    The latter is the name of a function of the caller's own; empty if the settings name the env.

    Args:
        checkpoint: as of `Trained`.

    Raises:
        DamagedCheckpoint: the checkpoint is not there, was cut short or altered.
    """
    _, saved, config = _read(checkpoint)
    return config, saved.get("own", {}).get("make_env", "")


def asking(
    cls: type[Any], checkpoint: Path | str, env: Any, options: Mapping[str, Any] | None = None
) -> Any:
    """Make a planner with the network of a run as its evaluator, for a given env.

    The policy of an agent with continuous actions becomes the planner's `policy` as well, if the
    planner takes one.

    Args:
        cls: of the planner; it has the option `evaluator`.
        checkpoint: see `trained_evaluator`.
        env: likewise.
        options: others of the planner. Defaults are those of one with an evaluator.
    """
    evaluator, plays = _asked(checkpoint, env)
    asked = {"evaluator": evaluator}
    if plays and any(option.name == "policy" for option in options_of(cls)):
        asked["policy"] = evaluator.actions
    return cls(**{**(options or {}), **asked})


def trained_evaluator(checkpoint: Path | str, env: Any) -> Any:
    """Return the network of a run as an evaluator for a given env.

    Of an agent, that is its policy and its value, its Q values, or what its critics say of the
    actions that it plays.

    Args:
        checkpoint: a file, or the folder of a run, of which the newest one is taken.
        env: with the spaces of the one that it was trained in.

    Raises:
        DamagedCheckpoint: the checkpoint is not there, was cut short or altered.
        ForeignCheckpoint: the env has other observations or actions.
        InvalidOption: an agent was trained that looks at more than observations.
    """
    return _asked(checkpoint, env)[0]


def _asked(checkpoint: Path | str, env: Any) -> tuple[Any, bool]:
    """Return the evaluator, and whether its network plays continuous actions."""
    from plangym_ext.learn import load_network_state

    path, saved, config = _read(checkpoint)
    check_own_parts(str(path), saved, ("make_env",))  # the env is given
    check_same_spaces(str(path), saved, env)
    parts = Parts(config)
    network = parts.network(env)
    load_network_state(network, saved["trainer"]["network"], str(path))
    asked = _of_observations(config, network, saved["trainer"], str(path))
    # What plays continuous actions by itself is an agent's policy.
    plays = asked is not network and network.distribution.num_actions is None
    return parts.evaluator(asked), plays


def _of_observations(
    config: RunConfig, network: Any, learned: Mapping[str, Any], where: str
) -> Any:
    """Make the network of an agent one that planners ask, with the critics that rate it."""
    from plangym_ext.learn import load_network_state
    from plangym_ext.learn.networks.critics import OfCritics, make_critics
    from plangym_ext.learn.networks.quick_forward import OfObservations

    assert config.algorithm is not None
    settings: Any = config.algorithm.config
    theirs = learned.get("modules", {}).get("critics")
    if theirs is not None:
        critics = make_critics(network, **settings.critic_layers(), precision="float32")
        load_network_state(critics, theirs, where)
        return OfCritics(network, critics)
    if not hasattr(network, "inputs_used"):
        return network
    # It may have learned from scaled rewards: planners add what it says to those of the env.
    return OfObservations(network, reward_deviation(settings, learned))


def _read(checkpoint: Path | str) -> tuple[Path, dict[str, Any], RunConfig]:
    """Return the file of a checkpoint, what is in it, and the settings of its run."""
    path = _file(checkpoint_path(checkpoint))
    # A replay may take more memory than this machine has, and playing needs none of it.
    saved = read_checkpoint(path, replay=False)
    if "spaces" not in saved:
        raise DamagedCheckpoint(
            f"{path}: this is the file of one of several learners, which has no settings. Name the "
            f"folder of their run."
        )
    check_not_former(str(path), saved["config"])
    config: RunConfig = build(RunConfig, saved["config"])
    if saved.get("narrow"):  # of a pretrained agent, whose weights take half of the bytes
        _widen(saved)
    return path, saved, _here(config)


def _widen(saved: dict[str, Any]) -> None:
    """Make float32 of the weights of float16; what is none is refused where it is loaded."""
    trainer = saved.get("trainer")
    network = trainer.get("network") if isinstance(trainer, dict) else None
    if not isinstance(network, dict):
        return
    for name, one in network.items():
        if str(getattr(one, "dtype", "")) == "torch.float16":
            network[name] = one.float()


def _here(config: RunConfig) -> RunConfig:
    """Return settings that play here: on the CPU, if the GPU of the training is not here."""
    from plangym_ext.learn.torch_extra import is_missing_gpu

    return dataclasses.replace(config, device="cpu") if is_missing_gpu(config.device) else config


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = Checkpoints(path).latest()
    if found is None and (path / BEST).exists():  # of `plangym-ext export --format folder`
        return path / BEST
    if found is None:
        raise DamagedCheckpoint(
            f"{path}: there is no checkpoint in this folder. Name a file, or the folder of a run."
        )
    return found
