"""Checkpoints of a run: atomic writing, reading, compatibility checks."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plangym_ext.arrays.nested import content as nested_content
from plangym_ext.errors import DamagedCheckpoint, FolderTaken, ForeignCheckpoint, PlangymExtError
from plangym_ext.run.files import CONFIG, check_kind, read_json
from plangym_ext.run.logs.logger import PROGRESS
from plangym_ext.run.logs.runs import read_columns
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build, differences, plain
from plangym_ext.run.training.block_files import BlockFiles, files_of

#: Format of a checkpoint; raised when an older program could not read it.
FORMAT = 2
#: How many are kept.
KEPT = 2
#: In a run's folder: the weights of its best evaluation.
BEST = "best.pt"
#: Settings that may differ when a run goes on: they change how long it is, how fast, or where
#: episodes begin from now on, which is a curriculum.
FREE = (
    "rounds",
    "max_seconds",
    "callbacks",
    "loggers",
    "checkpoint_every",
    "weights_every",
    "wandb",
    "starts.share",
    "env.trust",  # of runs from before; see `check_no_trust`
    "env.n_workers",
    "collector.timeout",
    "evaluation.record",
    "evaluation.stop_at",
)

#: Of anything that a run counts.
_MOST_COUNTED = 1 << 53
#: Parts of a checkpoint whose numbers are no counts.
_ANY_NUMBERS = frozenset({"config", "rng", "state", "inc", "seed", "versions", "own_state"})

#: Parts of a checkpoint that are read before anything is made of it.
_TEXTS = ("own", "spaces", "versions")

_NAME = re.compile(r"checkpoint-(\d{8})\.pt")
#: The part of a checkpoint whose large arrays are in files of blocks beside it.
_REPLAY = "replay"


class Checkpoints:
    """The checkpoints in a run's folder, with their shared block files.

    Args:
        folder: of the run; they lie in its subfolder "checkpoints".
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute() / "checkpoints"
        self._blocks = BlockFiles(self.folder)
        #: By the name of a checkpoint, the files of blocks that it needs; None: not yet known.
        self._needed: dict[str, set[int]] | None = None

    def paths(self) -> list[Path]:
        """Return the paths of all checkpoints, the oldest first."""
        if not self.folder.is_dir():
            return []
        # Numbers in names are padded with zeros, so this is the order of rounds.
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def latest(self) -> Path | None:
        """Return the newest checkpoint; None if there is none."""
        found = self.paths()
        return found[-1] if found else None

    def path(self, round_number: int) -> Path:
        """Return the path of a round's checkpoint."""
        return self.folder / f"checkpoint-{round_number:08}.pt"

    @property
    def begun(self) -> bool:
        """Whether a run can resume from here; not before the first round's checkpoint."""
        latest = self.latest()
        return latest is not None and latest > self.path(0)

    def check_unused(self) -> None:
        """Refuse a folder with results that a new run would overwrite.

        Raises:
            FolderTaken: there are checkpoints or a log of another run, or other results.
        """
        run, latest = self.folder.parent, self.latest()
        if latest is not None and self.begun:
            raise FolderTaken(
                f"{self.folder} must have no checkpoints of another run; there is {latest.name}. "
                "Resume that run, or choose another folder."
            )
        check_kind(run, CONFIG)
        if any(map(len, read_columns(run / PROGRESS).values())):
            raise FolderTaken(
                f"{run / PROGRESS} has rows of a run without a checkpoint, which cannot be "
                "resumed. Choose another folder, or remove it."
            )
        if (run / CONFIG).exists() and not _is_run(run / CONFIG):
            raise FolderTaken(
                f"{run / CONFIG} must be the settings of a run; it holds something else. Choose "
                "another folder."
            )

    def without(self, path: Path, why: str) -> str:
        """Return advice for resuming without the newest, unreadable checkpoint."""
        others = [other for other in self.paths() if other < path]
        if not others:
            return f"{why} There is no older one: begin again in another folder."
        return (
            f"{why} {others[-1]} is older: move {path.name} out of the folder, and resume again. "
            "The rounds since then are played again."
        )

    def read(self, path: Path, config: RunConfig) -> dict[str, Any]:
        """Return the content of the checkpoint from which a run with these settings resumes.

        Raises:
            DamagedCheckpoint: it cannot be read.
            ForeignCheckpoint: it is of other settings.
        """
        try:
            saved = read_checkpoint(path)
        except DamagedCheckpoint as error:
            raise DamagedCheckpoint(self.without(path, str(error))) from error
        check_not_former(str(path), saved["config"])
        # A setting that was not known then has its default.
        saved["config"] = plain(build(RunConfig, saved["config"]))
        check_same_run(str(path), saved["config"], plain(config))
        return saved

    def drop_after(self, round_number: int) -> None:
        """Remove checkpoints of later rounds, which a resumed run plays again."""
        for path in self.paths():
            if path > self.path(round_number):
                path.unlink()

    def save(self, round_number: int, content: Mapping[str, Any]) -> Path:
        """Write a checkpoint, then remove all except the newest.

        Of a large replay it writes what the last one does not have. At any moment the
        checkpoints that are there have all that they need.
        """
        from plangym_ext.learn import tensor_file

        self.folder.mkdir(parents=True, exist_ok=True)
        needed = self._begun() if self._needed is None else self._needed
        path = self.path(round_number)
        content = {"format": FORMAT, **content}
        if _REPLAY in content:
            content[_REPLAY] = self._blocks.save(content[_REPLAY])
        # After the blocks that it names, and under another name until it is whole: a kill in
        # between leaves blocks that the next one drops.
        tensor_file.save(path, content)
        # Only now that the new one is there; the one before it stays, in case the new one is
        # damaged.
        for old in self.paths()[:-KEPT]:
            old.unlink()
        needed[path.name] = files_of(content.get(_REPLAY, {}))
        self._needed = {path.name: needed[path.name] for path in self.paths()}
        # Last: the blocks of a checkpoint go when the checkpoint is gone, never before.
        self._blocks.drop_all_but(set().union(*self._needed.values()))
        return path

    def weights_path(self, round_number: int) -> Path:
        """Return the path of a round's playing weights; all such files are kept."""
        return self.folder.with_name("weights") / f"weights-{round_number:08}.pt"

    def _begun(self) -> dict[str, set[int]]:
        """Return the block files of another process's checkpoints, and continue from the last."""
        found: dict[str, set[int]] = {}
        for path in self.paths():
            try:
                replay = read_checkpoint(path, replay=False).get(_REPLAY, {})
                found[path.name] = files_of(replay)
            except DamagedCheckpoint:
                # Nothing is kept for it; if it is the newest, the next save writes all blocks anew.
                replay, found[path.name] = {}, set()
            # The newest comes last, and each call forgets the one before.
            self._blocks.go_on_from(replay)
        return found


def save_weights(path: Path, content: Mapping[str, Any]) -> None:
    """Write playing weights without training state."""
    from plangym_ext.learn import tensor_file

    path.parent.mkdir(parents=True, exist_ok=True)
    tensor_file.save(path, {"format": FORMAT, **content})


def _is_run(config: Path) -> bool:
    """Return whether a file has the settings of a run."""
    try:
        build(RunConfig, read_json(config, "settings"))
    except (OSError, ValueError, PlangymExtError):
        return False
    return True


def read_checkpoint(path: Path | str, *, replay: bool = True) -> dict[str, Any]:
    """Read a checkpoint.

    Args:
        path: of the file; large parts of a replay are in others beside it.
        replay: whether these are read too. Without, what stands for them means nothing.

    Raises:
        DamagedCheckpoint: it was cut short or altered, or is something else.
        ForeignCheckpoint: a later version of the library wrote it.
    """
    from plangym_ext.learn import tensor_file

    path = Path(path)
    try:
        content = tensor_file.load(path)
    except FileNotFoundError:
        raise DamagedCheckpoint(f"{path}: there is no such checkpoint.") from None
    number = content.get("format")
    if not isinstance(number, int) or "config" not in content:
        raise DamagedCheckpoint(
            f"{path}: expected a checkpoint of a training run; it holds {sorted(content)[:8]}."
        )
    for name in _TEXTS:
        texts = content.get(name, {})
        if not (isinstance(texts, dict) and all(map(_is_text, (*texts, *texts.values())))):
            raise DamagedCheckpoint(
                f"{path}: {name} must map names to strings; it holds {texts!r:.80}."
            )
    if number > FORMAT:
        raise ForeignCheckpoint(
            f"{path}: its format is {number}; this version reads up to {FORMAT}. Upgrade "
            f"plangym-ext to {content.get('versions', {}).get('plangym-ext', 'a later version')}."
        )
    if replay and _REPLAY in content:
        content[_REPLAY] = BlockFiles(path.parent).load(content[_REPLAY])
    return content


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def check_counts(saved: Any, where: str = "") -> None:
    """Refuse implausibly large whole numbers.

    Args:
        saved: what a checkpoint holds, nested; states of random generators have any numbers.
        where: in it, for the message.

    Raises:
        ValueError: there are some.
    """
    if isinstance(saved, Mapping):
        for key, one in saved.items():
            if key not in _ANY_NUMBERS:
                check_counts(one, f"{where}/{key}")
    elif isinstance(saved, list | tuple):
        for i, one in enumerate(saved):
            check_counts(one, f"{where}/{i}")
    elif isinstance(saved, int) and abs(saved) >= _MOST_COUNTED:
        raise ValueError(f"{where} is {saved}")


def checked_count(saved: Mapping[str, Any], name: str) -> int:
    """Return a number of a checkpoint that counts something.

    Raises:
        ValueError: it is none.
    """
    found = saved[name]
    if type(found) is not int or found < 0:
        raise ValueError(f"{name} must be a whole number of at least 0; got {found!r:.40}")
    return found


def check_same_run(where: str, saved: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuse to resume from the checkpoint of another run.

    Raises:
        ForeignCheckpoint: they differ; the message says in what.
    """
    found = [line for line in differences(config, saved) if line.partition(": ")[0] not in FREE]
    if found:
        raise ForeignCheckpoint(
            f"{where}: it belongs to other settings: {'; '.join(found[:6])}. Resume with its "
            f"settings, or begin in another folder."
        )


def check_not_former(where: str, config: Any) -> None:
    """Refuse the checkpoint format of earlier planner runs.

    Raises:
        ForeignCheckpoint: it is one.
    """
    former = {"trainer", "network", "replay", "teacher"} & set(config)
    if former:
        raise ForeignCheckpoint(
            f"{where}: its settings have the sections {', '.join(sorted(former))} of an earlier "
            f"format of planner runs, which cannot be resumed or played. Train again, or use the "
            f"version of plangym-ext that wrote it."
        )


def check_same_spaces(where: str, saved: Mapping[str, Any], env: Any) -> None:
    """Refuse an env whose spaces differ from those of the training.

    Args:
        where: the checkpoint, for the message.
        saved: what is in it; older ones have the texts of the spaces alone.
        env: with the spaces of now.

    Raises:
        ForeignCheckpoint: they differ.
    """
    here = spaces_of(env)
    # By value, where that is known: a text depends on numpy's print options, and may leave out
    # the middle of the bounds.
    compared = "space_values" if "space_values" in saved else "spaces"
    for kind, value in here[compared].items():
        if saved[compared][kind] != value:
            raise ForeignCheckpoint(
                f"{where}: it was trained on the {kind} space {saved['spaces'][kind]}; the env "
                f"{env.name} has {here['spaces'][kind]}. Take the env that it was trained on."
            )


def spaces_of(env: Any) -> dict[str, dict[str, str]]:
    """Return the spaces as texts for messages, and digests of their values for comparison."""
    found = {"observation": env.observation_space, "action": env.action_space}
    return {
        "spaces": {kind: str(space) for kind, space in found.items()},
        "space_values": {
            kind: hashlib.blake2b(nested_content(_values(space)), digest_size=16).hexdigest()
            for kind, space in found.items()
        },
    }


def _values(space: Any) -> Any:
    """Return the defining values of a space, nested, without its generator."""
    # Here: help of commands does without.
    from gymnasium import spaces

    name = type(space).__name__
    if isinstance(space, spaces.Dict):
        # In order, as observations are laid out.
        return name, [(key, _values(part)) for key, part in space.spaces.items()]
    if isinstance(space, spaces.Tuple | spaces.OneOf):
        return name, [_values(part) for part in space.spaces]
    if isinstance(space, spaces.Sequence):
        return name, space.stack, _values(space.feature_space)
    if isinstance(space, spaces.Graph):
        edges = None if space.edge_space is None else _values(space.edge_space)
        return name, _values(space.node_space), edges
    if isinstance(space, spaces.Text):
        return name, space.min_length, space.max_length, sorted(space.character_set)
    # Boxes have bounds, MultiDiscrete counts, Discrete both of them as numbers.
    named = {key: getattr(space, key, None) for key in ("low", "high", "n", "nvec", "start")}
    return name, str(space.dtype), space.shape, named


def asks_for_more(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether settings extend a run beyond its earlier ones."""
    goals = [config["evaluation"]["stop_at"] for config in (before, now)]
    first, second = (math.inf if goal is None else goal for goal in goals)
    ends = [math.inf if one["rounds"] is None else one["rounds"] for one in (now, before)]
    return bool(ends[0] > ends[1] or second > first)
