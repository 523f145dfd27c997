"""Curves: which runs belong together, what is drawn of them, and the command."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from plangym_ext.errors import UnknownName
from plangym_ext.run.cli import main
from plangym_ext.run.curves import aggregated
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.logs.runs import find_groups, read_run


def write_run(folder, values, **params):
    with Logger(folder, params=params or None, show=False, tensorboard=False) as logger:
        for step, value in enumerate(values, start=1):
            logger.log(10 * step, {"loss": value, "double": 2 * value})


@pytest.fixture
def runs(tmp_path):
    for seed in range(3):
        for rate in (0.1, 0.2):
            folder = tmp_path / f"rate-{rate}" / f"seed-{seed}"
            write_run(folder, [rate, seed], seed=seed, env="CartPole-v1", trainer={"rate": rate})
    return tmp_path


def test_runs_that_differ_in_their_seed_alone_are_one_group(runs):
    groups = find_groups([runs])
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("trainer.rate=0.1", 3),
        ("trainer.rate=0.2", 3),
    ]
    # A folder that is named twice, or lies in another one, is not counted twice.
    assert len(find_groups([runs, runs / "rate-0.1"])[0].runs) == 3
    (alone,) = find_groups([runs / "rate-0.1"])
    assert alone.label == "rate-0.1"


def test_runs_without_params_belong_to_the_folder_that_was_named(tmp_path):
    for name in ("one/a", "one/b", "two"):
        write_run(tmp_path / name, [1.0])
    groups = find_groups([tmp_path / "one", tmp_path / "two"])
    assert [(group.label, len(group.runs)) for group in groups] == [("one", 2), ("two", 1)]


def test_a_run_is_read_while_it_is_written(tmp_path):
    write_run(tmp_path, [1.0, 2.0])
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("30,3")
    assert read_run(tmp_path).columns["loss"].tolist() == [1, 2]


def test_csv_files_of_other_programs_are_read(tmp_path):
    (tmp_path / "progress.csv").write_bytes(b"Iteration,Name,Return\r\n1,x,5\r\n2,y,\r\n")
    columns = read_run(tmp_path).columns
    assert columns["Iteration"].tolist() == [1, 2]
    assert np.isnan(columns["Name"]).all()
    assert columns["Return"][0] == 5


def test_mean_and_band_by_hand():
    x = np.array([0.0, 2.0])
    curve = aggregated([(x, np.array([1.0, 3.0])), (x + 1, np.array([4.0, 8.0]))], "std")
    # The first alone at 0, both at 1 (2 and 4) and 2 (3 and 6), the second alone at 3.
    assert curve.x.tolist() == [0, 1, 2, 3]
    assert curve.mean.tolist() == [1, 3, 4.5, 8]
    assert curve.low.tolist() == [1, 2, 3, 8]
    assert curve.high.tolist() == [1, 4, 6, 8]
    none = aggregated([(x, x), (x, x + 2)], "none")
    assert none.low.tolist() == none.mean.tolist() == [1, 3]


def test_band_is_the_bootstrap_interval_of_the_mean():
    x, values = np.array([5.0]), [1.0, 2.0, 3.0, 4.0]
    curve = aggregated([(x, np.array([value])) for value in values], "bootstrap")
    assert curve.mean[0] == 2.5
    # Of resampled means: between 1.25 and 1.75 below, the same above.
    assert 1.25 <= curve.low[0] <= 1.75
    assert 3.25 <= curve.high[0] <= 3.75


def test_points_without_a_number_are_left_out():
    x = np.array([3.0, 1.0, 2.0])
    curve = aggregated([(x, np.array([30.0, 10.0, np.nan]))], "std")
    assert curve.x.tolist() == [1, 3]
    assert curve.mean.tolist() == [10, 30]
    assert len(aggregated([(x, x * np.nan)], "std").x) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["curves.png", "new/curves.svg"])
def test_curves_are_drawn_if_matplotlib_is_there(runs, name):
    pytest.importorskip("matplotlib")
    target = runs / name
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "plot", str(runs)]
    done = subprocess.run(
        [*command, "--out", str(target)], capture_output=True, text=True, timeout=100, check=True
    )
    assert "trainer.rate=0.1: 3 runs" in done.stdout
    content = target.read_bytes()
    assert content.startswith(b"\x89PNG" if target.suffix == ".png" else b"<?xml")
    if target.suffix == ".svg":
        # Text is drawn as outlines; their names are in comments.
        assert b"<!-- trainer.rate=0.2 (3) -->" in content
        assert b"<!-- double -->" in content


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--y", "los"], "no run has a column 'los'; did you mean 'loss'?"),
        (["--x", "steps"], "did you mean 'step'?"),
        (["--out", "curves.gif"], "--out must end in .png or .svg; got curves.gif"),
        (["--band", "sdt"], "invalid choice: 'sdt'"),
    ],
)
def test_mistakes_are_one_line(runs, arguments, text, capsys):
    pytest.importorskip("matplotlib")
    try:
        status = main(["plot", str(runs), *arguments])
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err
    assert status == 2
    assert text in error
    assert error.count("\n") == 1


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(UnknownName, match=r"must be a folder with a progress\.csv"):
        find_groups([tmp_path])
