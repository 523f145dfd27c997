"""Logs of runs: what is in the files, what a kill leaves, what others read in them."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plangym_ext.errors import FolderTaken, InvalidOption, MissingExtra
from plangym_ext.run.logs.logger import Logger, tensorboard_is_there
from plangym_ext.run.logs.runs import read_run
from plangym_ext.run.logs.table import STEP_RATE, LiveTable
from plangym_ext.run.progress import ProgressLine


def quiet(folder, **options):
    return Logger(folder, **{"show": False, "tensorboard": False, **options})


def row(step):
    """What a run computes at a step: columns come one after the other."""
    values = {"train/loss": 1 / step}
    if step >= 4:
        values["eval/return, mean"] = step * 10
    if step % 3 == 0:
        values["third"] = float("nan") if step == 6 else float("inf")
    if step >= 7:
        values = {"new": -0.0, **values}
    return values


def progress(folder):
    return {
        name: (folder / name).read_bytes()
        for name in ("progress.csv", "progress.jsonl")
        if (folder / name).exists()
    }


def uninterrupted(folder, last):
    with quiet(folder) as logger:
        for step in range(1, last + 1):
            logger.log(step, row(step))
    return progress(folder)


# What is in the files ---------------------------------------------------------------------


def test_columns_that_come_later_have_no_numbers_before(tmp_path):
    with quiet(tmp_path, params={"seed": 3, "planner": {"name": "mcts"}}) as logger:
        logger.log(1, {"loss": 0.1})
        logger.log(5, {"loss": np.float32(0.5), "solved": True, "n": np.int64(7)})
        # What was logged can be read at once.
        assert (tmp_path / "progress.csv").read_text().endswith("5,0.5,1,7\n")
        logger.log(6, {"n": np.array([8])})
    text = (tmp_path / "progress.csv").read_text()
    assert text == "step,loss,solved,n\n1,0.1,NaN,NaN\n5,0.5,1,7\n6,NaN,NaN,8\n"
    assert (tmp_path / "progress.jsonl").read_text().splitlines() == [
        '{"step": 1, "loss": 0.1}',
        '{"step": 5, "loss": 0.5, "solved": 1, "n": 7}',
        '{"step": 6, "n": 8}',
    ]
    params = json.loads((tmp_path / "params.json").read_text())
    assert params == {"seed": 3, "planner": {"name": "mcts"}}


def test_what_clocks_say_is_kept_apart(tmp_path):
    with quiet(tmp_path) as logger:
        logger.log(1, {"loss": 1}, timings={"steps_per_second": 10.5})
        logger.log(2, {"loss": 2})
    assert (tmp_path / "progress.csv").read_text() == "step,loss\n1,1\n2,2\n"
    found = read_table_of(tmp_path / "timings.csv")
    assert found[0] == ["step", "seconds", "steps_per_second"]
    assert [line[2] for line in found[1:]] == ["10.5", "NaN"]
    first, second = (float(line[1]) for line in found[1:])
    assert 0 <= first <= second
    # Seconds of a resumed run go on from those it had.
    (tmp_path / "timings.csv").write_text("step,seconds\n1,500.0\n2,1000.0\n")
    with quiet(tmp_path, resume=True) as logger:
        logger.truncate_after(1)
        logger.log(2, {"loss": 2})
    assert float(read_table_of(tmp_path / "timings.csv")[2][1]) >= 500
    assert float(read_table_of(tmp_path / "timings.csv")[2][1]) < 1000


def read_table_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_numbers_that_are_not_finite_stay_readable(tmp_path):
    uninterrupted(tmp_path, 6)
    columns = read_run(tmp_path).columns
    assert columns["third"][2] == np.inf
    assert np.isnan(columns["third"][[0, 5]]).all()
    lines = (tmp_path / "progress.jsonl").read_text().splitlines()
    # Standard JSON: no NaN, no Infinity.
    read = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert read[5]["third"] is None
    assert "third" not in read[4]


def test_viskit_reads_it(tmp_path):
    # The way its core.py loads an experiment: every cell is a float or counts as 0.
    with quiet(tmp_path, params={"seed": 1, "trainer": {"rate": 0.1}}) as logger:
        logger.log(1, {"a": 0.5})
        logger.log(2, {"a": 1.5, "b, c": 2})
    entries: dict[str, list[float]] = {}
    with (tmp_path / "progress.csv").open() as file:
        for line in csv.DictReader(file):
            for name, cell in line.items():
                try:
                    value = float(cell)
                except ValueError:
                    value = 0.0
                entries.setdefault(name, []).append(value)
    # A point is left out where it has no number.
    np.testing.assert_equal(entries, {"step": [1, 2], "a": [0.5, 1.5], "b, c": [np.nan, 2]})
    assert isinstance(json.loads((tmp_path / "params.json").read_text()), dict)


# After a kill -----------------------------------------------------------------------------


@pytest.mark.slow
@given(
    kept=st.integers(0, 9),
    lost=st.integers(0, 4),
    tails=st.tuples(*[st.sampled_from(["", "10", "10,0.1", '{"step": 10, "tr'])] * 2),
)
@settings(max_examples=15, deadline=None)
def test_a_resumed_log_is_that_of_a_run_never_interrupted(tmp_path_factory, kept, lost, tails):
    folder = tmp_path_factory.mktemp("run")
    if kept + lost:
        uninterrupted(folder, kept + lost)
        for name, tail in zip(("progress.csv", "progress.jsonl"), tails, strict=True):
            with (folder / name).open("a") as file:
                file.write(tail)
    with quiet(folder, resume=True) as logger:
        logger.truncate_after(kept)
        for step in range(kept + 1, 13):
            logger.log(step, row(step))
    assert progress(folder) == uninterrupted(tmp_path_factory.mktemp("whole"), 12)


def test_a_text_log_of_a_resumed_run_is_that_of_a_whole_one(tmp_path):
    with quiet(tmp_path, loggers=["text"]) as logger:
        for step in (1, 2, 3):
            logger.log(step, {"loss": 1 / step, "moves": 10**6 * step}, timings={"rate": step})
    path = tmp_path / "progress.txt"
    whole = path.read_text()
    assert whole.splitlines()[3:6] == ["step 2", "  loss   0.5", "  moves  2000000"]
    path.write_text(whole + "step 4\n  lo")
    with quiet(tmp_path, resume=True, loggers=["text"]) as logger:
        logger.truncate_after(2)
        logger.log(3, {"loss": 1 / 3, "moves": 3 * 10**6})
    assert path.read_text() == whole


def test_more_shows_all_numbers_and_nothing_shows_none(tmp_path):
    for show, shown in ((0, ""), (2, "step 7\n  loss  0.25\n  rate  3\n")):
        stream = io.StringIO()
        with quiet(tmp_path / str(show), show=show, columns=["x"], stream=stream) as logger:
            logger.log(7, {"loss": 0.25}, timings={"rate": 3})
        assert stream.getvalue().startswith(shown)
        assert bool(stream.getvalue()) == bool(shown)


CHILD = """
import sys
from pathlib import Path
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.logs.table import STEP_RATE, LiveTable

folder, checkpoint = Path(sys.argv[1]), Path(sys.argv[1]) / "checkpoint"
done = int(checkpoint.read_text()) if checkpoint.exists() else 0
with Logger(folder, resume=True, show=False, tensorboard=False) as logger:
    logger.truncate_after(done)
    for step in range(done + 1, 101):
        logger.log(step, {"a": 1 / step, **({f"column {step // 20}": step} if step % 7 else {})})
        if step % 10 == 0:
            logger.flush()
            partial = checkpoint.with_suffix(".partial")
            partial.write_text(str(step))
            partial.replace(checkpoint)
        print(step, flush=True)
    sys.stdin.read()  # one that is to be killed does not end before
"""


def run_child(folder, kill_at):
    """Run until the line of a step appears, then kill; the moment itself is left to chance.

    None: run to the end.
    """
    command = [sys.executable, "-P", "-c", CHILD, str(folder)]
    stdin = subprocess.DEVNULL if kill_at is None else subprocess.PIPE
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if kill_at is not None and int(line) >= kill_at:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.read()
        return process.wait(timeout=300)


@pytest.mark.slow
def test_a_run_killed_again_and_again_leaves_the_same_bytes(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_child(whole, None) == 0
    for kill_at in (3, 31, 58, 59, 90):
        assert run_child(killed, kill_at) == -signal.SIGKILL
    assert run_child(killed, None) == 0
    assert progress(killed) == progress(whole)
    assert not list(killed.glob(".*"))


def test_a_log_of_another_run_is_never_written_over(tmp_path):
    before = uninterrupted(tmp_path, 3)
    with pytest.raises(FolderTaken, match=r"must have no log; there is .*progress.csv"):
        quiet(tmp_path, params={"seed": 9})
    assert progress(tmp_path) == before
    assert not (tmp_path / "params.json").exists()


@pytest.mark.parametrize(
    ("step", "values", "text"),
    [
        (3, {}, "step must be greater than the one before, 3; got 3"),
        (-1, {}, "step must be an integer >= 0; got -1"),
        (4.0, {}, "step must be an integer >= 0; got 4.0"),
        (4, {"a": "text"}, "'a' must be one number; got str 'text'"),
        (4, {"a": np.zeros(2)}, "'a' must be one number; got ndarray"),
        (4, {"step": 4}, "step must be passed once"),
    ],
)
def test_rows_that_cannot_be_are_refused_and_nothing_is_written(tmp_path, step, values, text):
    before = uninterrupted(tmp_path, 3)
    with quiet(tmp_path, resume=True) as logger, pytest.raises(InvalidOption, match=text):
        logger.log(step, values)
    assert progress(tmp_path) == before


def test_closing_twice_is_closing(tmp_path):
    logger = quiet(tmp_path)
    logger.log(1, {"a": 1})
    logger.close()
    logger.close()


# TensorBoard ------------------------------------------------------------------------------


@pytest.mark.slow
def test_tensorboard_reads_the_scalars_and_forgets_what_was_cut_off(tmp_path):
    pytest.importorskip("tensorboard")
    # In a process of its own: it brings in much, with warnings.
    script = """
import sys
from pathlib import Path
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.logs.table import STEP_RATE, LiveTable

folder = Path(sys.argv[1])
with Logger(folder, show=False) as logger:
    for step in (1, 2, 3, 4):
        logger.log(step, {"loss": step / 2, "large": -1e300}, timings={"rate": 8})
with Logger(folder, show=False, resume=True) as logger:
    logger.truncate_after(2)
    logger.log(3, {"loss": 9})
assert "torch" not in sys.modules and "tensorflow" not in sys.modules
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(str(folder))
events.Reload()
print([(event.step, event.value) for event in events.Scalars("loss")])
print(sorted(events.Tags()["scalars"]))
"""
    command = [sys.executable, "-P", "-W", "ignore", "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-2:] == ["[(1, 0.5), (2, 1.0), (3, 9.0)]", "['large', 'loss', 'timings/rate']"]


def test_tensorboard_that_is_asked_for_and_not_there_is_named(tmp_path):
    if tensorboard_is_there():
        pytest.skip("it is installed")
    with pytest.raises(MissingExtra, match=r"pip install .*\.\[tensorboard\]"):
        quiet(tmp_path, tensorboard=True)
    with quiet(tmp_path, tensorboard=None) as logger:
        logger.log(1, {"a": 1})


# Weights & Biases -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_on_wandb_has_every_row_and_is_gone_on_with(tmp_path):
    pytest.importorskip("wandb")
    # In a process of its own, which it starts another one from. That one has written all of a run
    # once this one has ended, and not before: it is not waited for where a run is finished.
    writing = """
import sys, time
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.logs.table import STEP_RATE, LiveTable

folder = sys.argv[1]
with Logger(folder, params={"seed": 7}, wandb="games", show=False) as logger:
    for step in (1, 2, 3):
        logger.log(step, {"loss": step / 2}, timings={"rate": 8})
# wandb names its folders by the second: the next one would be the same.
time.sleep(1.1)
with Logger(folder, params={"seed": 7}, wandb="games", show=False, resume=True) as logger:
    logger.truncate_after(2)
    logger.log(3, {"loss": 1.5})
"""
    reading = """
import json, struct, sys
from pathlib import Path
from wandb.proto.wandb_internal_pb2 import Record

def records(data):
    # Blocks of 32 kB; a record is a checksum, a length and a kind (whole or a part), and data.
    at, found = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        _, size, kind = struct.unpack_from("<IHB", data, at)
        found += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield Record.FromString(found)
            found = b""

for file in sorted(Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")):
    for record in records(file.read_bytes()):
        if record.WhichOneof("record_type") == "run":
            config = {item.key: item.value_json for item in record.run.config.update}
            print("run", record.run.project, record.run.run_id, config["seed"])
        if record.WhichOneof("record_type") == "history":
            row = {(i.key or i.nested_key[0]): json.loads(i.value_json)
                   for i in record.history.item}
            print("row", {name: row[name] for name in sorted(row) if name[0] != "_"}, row["_step"])
"""
    # Nothing of the user's is read or written, and no server is asked.
    own = {"WANDB_MODE": "offline", "HOME": str(tmp_path), "WANDB_SILENT": "true"}
    printed = ""
    for script in (writing, reading):
        done = subprocess.run(
            [sys.executable, "-P", "-W", "ignore", "-c", script, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, **own},
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    lines = printed.splitlines()
    identity = json.loads((tmp_path / "wandb.json").read_text())["id"]
    assert [line for line in lines if line.startswith("run")] == [f"run games {identity} 7"] * 2
    rows = [f"row {{'loss': {step / 2}, 'timings/rate': 8}} {step}" for step in (1, 2, 3)]
    assert [line.replace(": 1,", ": 1.0,") for line in lines if line.startswith("row")] == [
        *rows,
        "row {'loss': 1.5} 3",
    ]


def test_wandb_that_is_asked_for_and_not_there_is_named(tmp_path):
    if importlib.util.find_spec("wandb"):
        pytest.skip("it is installed")
    with pytest.raises(MissingExtra, match=r"pip install .*\.\[wandb\]"):
        quiet(tmp_path, wandb="games")


# What is shown ----------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_screen(text):
    """The lines that a terminal shows at the end."""
    lines = [""]
    for character in text:
        if character == "\n":
            lines.append("")
            at = 0
        elif character == "\r":
            at = 0
        else:
            at = len(lines[-1]) if lines[-1] == "" else at
            lines[-1] = lines[-1][:at] + character + lines[-1][at + 1 :]
            at += 1
    return [line.rstrip() for line in lines]


def test_a_table_grows_above_the_bar(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    # All of it within the moment for which the bar is not moved again.
    monkeypatch.setattr("plangym_ext.run.progress.time", SimpleNamespace(monotonic=lambda: 1.0))
    screen = Terminal()
    with Logger(tmp_path, tensorboard=False, total=1000, stream=screen) as logger:
        logger.progress(0)
        logger.log(250, {"loss": 0.123456789, "eval/return": 10})
        logger.log(500, {"loss": 2.0, "eval/return": 20, "more": 1})
    lines = on_screen(screen.getvalue())
    assert lines[0].split() == ["step", "loss", "eval/return"]
    assert lines[1].split() == ["250", "0.123457", "10"]
    assert lines[2].split() == ["step", "loss", "eval/return", "more"]
    assert lines[3].split() == ["500", "2", "20", "1"]
    assert lines[4].startswith("step 0/1,000 [........................]   0%")
    assert lines[5:] == [""]


def test_where_there_is_no_terminal_rows_are_plain_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = io.StringIO()
    with Logger(tmp_path, tensorboard=False, stream=shown, columns=["b"]) as logger:
        logger.log(1, {"a": 1, "b": 2})
        logger.log(2, {"a": 1})
    assert "\r" not in shown.getvalue()
    rows = [line.split() for line in shown.getvalue().splitlines()]
    assert rows == [["step", "b"], ["1", "2"], ["step", "1"], ["2"]]


def test_no_more_columns_are_shown_than_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = io.StringIO()
    with Logger(tmp_path, tensorboard=False, stream=shown) as logger:
        logger.log(1, {f"column {i}": i for i in range(9)})
    assert shown.getvalue().splitlines()[0].split("  ")[-1].strip() == "column 1"
    assert all(len(line) <= 40 for line in shown.getvalue().splitlines())


def test_a_table_and_its_bar_fit_80_columns(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    screen, names = Terminal(), ["round", "episodes", "return", "length", "train/loss"]
    names += ["eval/return", "eval/length"]
    values = dict.fromkeys(names, -123.4567)
    with Logger(
        tmp_path, tensorboard=False, total=10_000_000, stream=screen, columns=names
    ) as logger:
        logger.log(1_000_000, values)
        monkeypatch.setattr("plangym_ext.run.progress.ProgressLine.is_due", True)
        logger.progress(9_000_000)
        logger.progress(9_000_001, "evaluating")
    lines = on_screen(screen.getvalue())
    assert lines[0].split() == ["step", *names[:-1]]
    assert lines[1].split() == ["1000000", *["-123.457"] * 6]
    assert max(map(len, lines)) <= 80
    assert len(lines[0]) == len(lines[1])


def test_a_log_on_a_full_disk_is_closed_all_the_same(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    logger = Logger(tmp_path, tensorboard=False)
    logger.log(1, {"a": 1})
    # A device in the place of the file would be refused: the disk is full from here on.
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, logger._lines._file.fileno())
    os.close(full)
    with pytest.raises(OSError, match="No space left"):
        logger.log(2, {"a": 1})
    logger.close()


def test_lines_above_leave_the_progress_where_it_was():
    screen = Terminal()
    line = ProgressLine(screen, interval=0)
    line.update("a long text")
    line.above("kept")
    line.update("short")
    line.end("over")
    assert on_screen(screen.getvalue()) == ["kept", "over", ""]


def test_a_text_that_is_wider_than_the_terminal_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    screen = Terminal()
    line = ProgressLine(screen, interval=0)
    line.update("nineteen characters")
    line.update("a text that would be wrapped")
    assert on_screen(screen.getvalue()) == ["a text that would …"]


class Clock:
    """Stands for `time`: each look is some seconds later than the one before."""

    def __init__(self, seconds):
        self.now, self.seconds = 0.0, seconds

    def monotonic(self):
        self.now += self.seconds
        return self.now


def shown_rows(tmp_path, monkeypatch, rows, seconds, **options):
    """Return the lines of a table on a terminal whose rows come so many seconds apart."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("plangym_ext.run.logs.table.time", Clock(seconds))
    screen = Terminal()
    with Logger(tmp_path, tensorboard=False, stream=screen, **options) as logger:
        for step, values in rows:
            logger.log(step, values)
    lines = [line.split() for line in on_screen(screen.getvalue())]
    return [line for line in lines if line and line[0].isdigit()]


def test_rows_that_come_fast_are_shown_as_one_a_second(tmp_path, monkeypatch):
    rows = [(step, {"episodes": 1, "return": float(step)}) for step in range(1, 1001)]
    rows[500] = (501, {"episodes": 1, "eval/return": 7.0})
    columns = ["episodes", "return", "eval/return"]
    found = shown_rows(tmp_path, monkeypatch, rows, 0.005, columns=columns)
    assert 4 < len(found) < 15
    # Nothing is lost: episodes are counted, the newest return and every evaluation shown.
    assert sum(int(row[1]) for row in found) == 1000
    assert found[-1][0] == "1000"
    assert [row[3] for row in found if len(row) > 3] == ["7"]
    assert len((tmp_path / "progress.csv").read_text().splitlines()) == 1001


def test_rows_that_come_slowly_are_all_shown(tmp_path, monkeypatch):
    rows = [(step, {"return": 1.0}) for step in range(1, 8)]
    assert len(shown_rows(tmp_path, monkeypatch, rows, 1.0)) == 7


def test_the_loss_that_an_algorithm_has_is_shown_with_steps_a_second(tmp_path, monkeypatch):
    rows = [(16, {"round": 1}), (116, {"round": 2, "train/critic_loss": 0.5})]
    columns = ["round", ("train/loss", "train/critic_loss"), STEP_RATE]
    first, second = shown_rows(tmp_path, monkeypatch, rows, 2.0, columns=columns)
    assert first[:2] == ["16", "1"]
    assert second[:3] == ["116", "2", "0.5"]
    assert 10 <= int(second[3]) <= 50  # 100 steps in what a few looks at the clock take


def test_what_is_printed_after_the_table_begins_a_line():
    screen = Terminal()
    table = LiveTable(100, stream=screen)
    table.progress(10, "playing")
    table.row(20, {"a": 1})
    table.row(30, {"a": 2})
    table.leave()
    table.leave()
    screen.write("interrupted")
    lines = on_screen(screen.getvalue())
    assert lines[-1] == "interrupted"
    assert lines[-3].split() == ["30", "2"]
