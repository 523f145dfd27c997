"""Large parts of replays beside checkpoints: what is written, what is read, what is damaged."""

from __future__ import annotations

import numpy as np
import pytest
from training_runs import log, weights

from plangym_ext.errors import DamagedCheckpoint
from plangym_ext.learn import tensor_file
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training import block_files
from plangym_ext.run.training.block_files import BlockFiles, files_of
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.checkpoints import Checkpoints, read_checkpoint
from plangym_ext.run.training.runner import Runner

BLOCK = 64


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of some bytes, so that small arrays have several."""
    monkeypatch.setattr(block_files, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(block_files, "FILE_BLOCKS", 20)
    monkeypatch.setattr(block_files, "LEAST_BYTES", 2 * BLOCK)


def sizes(folder):
    return {path.name: path.stat().st_size for path in folder.glob("blocks-*")}


def save(files, content):
    """Save, and drop what it does not need."""
    packed = files.save(content)
    files.drop_all_but(files_of(packed))
    return packed


def test_what_is_read_is_what_was_saved(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    content = {
        "ring": {"obs": rng.standard_normal((21, 3)), "valid": rng.random(1001) < 0.5},
        "masses": np.asfortranarray(rng.standard_normal((16, 5))),
        "small": np.arange(3),
        "nothing": np.zeros((0, 4)),
        "count": 7,
        "kind": "StepReplay",
    }
    packed = BlockFiles(tmp_path).save(content)
    tensor_file.save(tmp_path / "a.pt", packed)
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 100)  # as a later version may have it
    found = BlockFiles(tmp_path).load(tensor_file.load(tmp_path / "a.pt"))
    np.testing.assert_equal(found, content)
    assert found["ring"]["obs"].dtype == np.float64
    assert found["ring"]["valid"].dtype == np.bool_


def test_a_ring_costs_what_was_written_to_it_and_no_more(tmp_path):
    rng, files = np.random.default_rng(0), BlockFiles(tmp_path)
    ring = rng.integers(0, 255, 100 * BLOCK).astype(np.uint8)
    kept = [save(files, {"ring": ring})]
    cursor, written, changed = 0, 0, len(ring)
    for _ in range(300):
        count = int(rng.integers(0, 7 * BLOCK))
        ring[(cursor + np.arange(count)) % len(ring)] = rng.integers(0, 255, count)
        cursor += count
        before = set(sizes(tmp_path))
        kept.append(save(files, {"ring": ring}))
        written += sum(size for name, size in sizes(tmp_path).items() if name not in before)
        changed += count + 2 * BLOCK  # blocks that were begun or left in the middle
        assert sum(sizes(tmp_path).values()) <= 2 * len(ring)
        np.testing.assert_array_equal(files.load(kept[-1])["ring"], ring)
    assert cursor > 5 * len(ring)
    # Less than half of a file is ever written again, and so of all that was written.
    assert written + len(ring) <= 2 * changed


def test_what_has_not_changed_is_not_written_again(tmp_path, monkeypatch):
    content = {"ring": np.arange(1000.0)}
    packed = save(BlockFiles(tmp_path), content)
    names = sizes(tmp_path)
    other = BlockFiles(tmp_path)
    other.go_on_from(packed)
    save(other, content)
    assert sizes(tmp_path) == names
    content["ring"][500] = -1.0
    packed = save(other, content)
    assert sum(sizes(tmp_path).values()) == sum(names.values()) + BLOCK
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 2 * BLOCK)
    other.go_on_from(packed)
    np.testing.assert_equal(other.load(save(other, content)), content)


def test_memory_is_not_copied(tmp_path, monkeypatch):
    tracemalloc = pytest.importorskip("tracemalloc")
    content = {"ring": np.zeros(1 << 22, np.uint8)}
    monkeypatch.setattr(block_files, "BLOCK_BYTES", 1 << 18)
    tracemalloc.start()
    BlockFiles(tmp_path).save(content)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize("how", ["bit", "cut", "gone"])
def test_damage_is_told(tmp_path, how):
    files = BlockFiles(tmp_path)
    packed = files.save({"ring": np.arange(100.0)})
    (path,) = tmp_path.glob("blocks-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data if how == "bit" else data[:-9])
    with pytest.raises(DamagedCheckpoint, match=r"blocks-00000000\.bin: it"):
        files.load(packed)


# Checkpoints ------------------------------------------------------------------------


def content_of(value):
    return {"config": {}, "replay": {"ring": np.full(100, value)}}


def test_a_save_that_breaks_off_leaves_what_was_there(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, content_of(1))
    with monkeypatch.context() as patch:
        patch.setattr(tensor_file, "save", lambda *_: 1 / 0)  # after the blocks
        with pytest.raises(ZeroDivisionError):
            checkpoints.save(2, content_of(2))
    assert len(sizes(checkpoints.folder)) == 2
    (path,) = checkpoints.paths()
    np.testing.assert_array_equal(read_checkpoint(path)["replay"]["ring"], 1)
    other = Checkpoints(tmp_path)  # as in the process that goes on
    other.save(2, content_of(3))
    found = [read_checkpoint(path)["replay"]["ring"][0] for path in other.paths()]
    assert found == [1, 3]
    other.save(3, content_of(3))
    other.save(4, content_of(3))
    assert len(sizes(other.folder)) == 1
    path = other.latest()
    for file in other.folder.glob("blocks-*"):
        file.unlink()
    with pytest.raises(DamagedCheckpoint, match="Keep files of blocks beside"):
        read_checkpoint(path)
    assert read_checkpoint(path, replay=False)["format"] == 2


class Fails(Callback):
    """Raises in the middle of a round."""

    def on_episodes(self, runner, records):
        if runner.round == 9:
            raise RuntimeError("in the middle of a round")


@pytest.mark.slow
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_run_goes_on_bit_for_bit_from_blocks(tmp_path, prioritized):
    changed = {
        "agent": {"hidden": [8]},
        "algorithm": {
            "capacity": 300,
            "learning_starts": 20,
            "batch_size": 8,
            "prioritized": prioritized,
        },
        "rounds": 12,
        "checkpoint_every": 2,
        "evaluation": {"every": 0},
    }
    config = compose(["dqn_cartpole", changed])
    with Runner(config, tmp_path / "whole") as whole:
        whole.run()
    with (
        Runner(config, tmp_path / "broken", callbacks=[Fails()]) as runner,
        pytest.raises(RuntimeError, match="in the middle"),
    ):
        runner.run()
    with Runner(config, tmp_path / "broken", resume=True) as runner:
        assert runner.round == 8
        runner.run()
    assert weights(runner.network) == weights(whole.network)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")
    found = [read_checkpoint(one.newest_checkpoint)["replay"] for one in (runner, whole)]
    np.testing.assert_equal(*found)
    assert len(sizes(tmp_path / "broken" / "checkpoints")) > 1
