"""Curves: which runs belong together, what is drawn of them, and the command."""

from __future__ import annotations

import argparse
import subprocess
import sys

import numpy as np
import pytest

from plangym_ext.errors import UnknownName
from plangym_ext.run.cli import main
from plangym_ext.run.commands import plot
from plangym_ext.run.commands.plot import aggregated
from plangym_ext.run.figures import WIDTHS, load_pyplot, styled
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


def test_a_folder_as_the_figure_is_refused_before_runs_are_read(tmp_path, capsys):
    folder = tmp_path / "curves.png"
    folder.mkdir()
    assert main(["plot", str(tmp_path), "--out", str(folder)]) == 2
    assert f"--out must be the file to write; got the folder {folder}" in capsys.readouterr().err


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


def test_the_fewest_params_name_a_group(tmp_path):
    for env in ("A-v0", "B-v0"):
        for name, rate in (("ppo", 1), ("dqn", 2)):
            params = {"algorithm": {"name": name, "rate": rate, "same": 0}, "env": {"id": env}}
            write_run(tmp_path / f"{env}-{name}", [1.0], seed=0, **params)
    found = {group.label for group in find_groups([tmp_path])}
    assert found == {"A-v0, ppo", "A-v0, dqn", "B-v0, ppo", "B-v0, dqn"}


def test_runs_of_different_lengths_are_one_group(tmp_path):
    for seed, rounds in enumerate((2, 3)):
        write_run(tmp_path / str(seed), [1.0] * rounds, seed=seed, rounds=rounds, rate=1)
    (group,) = find_groups([tmp_path])
    assert len(group.runs) == 2


def test_counts_tell_where_seeds_end_and_begin():
    x = np.array([0.0, 1.0, 2.0])
    curve = aggregated([(x, x), (x[:2], x[:2])], "none")
    assert curve.seeds.tolist() == [2, 2, 1]
    apart = aggregated([(x, x), (x + 10, x)], "none", points=12)
    assert (apart.seeds > 0).all()
    assert not ((apart.x > 2) & (apart.x < 10)).any(), "where no run has a point there is none"


def test_interquartile_means_and_smoothing_by_hand():
    x = np.array([1.0, 2.0, 3.0])
    runs = [(x, np.full(3, value)) for value in (0.0, 1.0, 2.0, 900.0)]
    assert aggregated(runs, "none", "iqm").mean.tolist() == [1.5] * 3
    curve = aggregated([(x, np.array([1.0, 3.0, 8.0]))], "none", smooth=2)
    assert curve.mean.tolist() == [1, 2, 5.5]


def test_many_points_are_thinned_out_and_keep_their_ends():
    x = np.arange(1000.0)
    curve = aggregated([(x, 2 * x)], "none", points=11)
    assert len(curve.x) == 11
    assert np.allclose(curve.mean, 2 * curve.x)
    assert curve.x[[0, -1]].tolist() == [0, 999]


@pytest.mark.parametrize(
    ("asked", "panels"),
    [([], ["return", "eval/return"]), (["--y", "all"], ["return", "loss", "eval/return"])],
)
def test_returns_are_drawn_unless_others_are_asked_for(tmp_path, asked, panels, monkeypatch):
    pytest.importorskip("matplotlib")
    with Logger(tmp_path, show=False, tensorboard=False) as logger:
        logger.log(1, {"return": 1.0, "loss": 2.0, "eval/return": 3.0})
    seen = []
    monkeypatch.setattr(plot, "drawn", lambda _, names, *__: seen.extend(names))
    monkeypatch.setattr(plot, "save", lambda _, path: seen.append(path))
    assert main(["plot", str(tmp_path), *asked]) == 0
    assert seen == [*panels, tmp_path / "curves.png"]


def test_a_curve_goes_on_dotted_where_seeds_have_ended(tmp_path):
    pytest.importorskip("matplotlib")
    for seed, rounds in enumerate((2, 4)):
        write_run(tmp_path / str(seed), [1.0] * rounds, seed=seed, env={"id": "A-v0"})
    options = argparse.Namespace(
        x="step", band="bootstrap", statistic="mean", smooth=1, width="column"
    )
    with styled("column"):
        figure = plot.drawn(find_groups([tmp_path]), ["loss"], options)
        (axis,) = figure.axes
        whole, rest = axis.lines
        assert (whole.get_xdata().tolist(), rest.get_xdata().tolist()) == ([10, 20], [20, 30, 40])
        assert rest.get_linestyle() == ":"
        assert axis.get_title() == "A-v0"
        assert figure.get_size_inches()[0] == WIDTHS["column"]
        load_pyplot("a test").close(figure)


def test_a_group_keeps_its_colour_in_panels_that_others_are_missing_in(tmp_path):
    pytest.importorskip("matplotlib")
    for name, column in (("a", "loss"), ("b", "return"), ("c", "return")):
        with Logger(tmp_path / name, params={"env": name}, show=False, tensorboard=False) as logger:
            for step in (1, 2) if column == "loss" else (2, 3):
                logger.log(step, {column: 1.0})
    options = argparse.Namespace(
        x="step", band="bootstrap", statistic="mean", smooth=1, width="column"
    )
    with styled("column"):
        figure = plot.drawn(find_groups([tmp_path]), ["loss", "return"], options)
        loss, returns = figure.axes
        assert loss.get_xlim() == returns.get_xlim()
        colors = {line.get_label(): line.get_color() for line in loss.lines}
        # Their legend, in the first panel, names all three.
        assert [label.get_text() for label in loss.get_legend().get_texts()] == [
            f"env={name} (1 seed)" for name in ("a", "b", "c")
        ]
        drawn = {line.get_label(): line.get_color() for line in returns.lines}
        for label in ("env=b (1 seed)", "env=c (1 seed)"):
            assert drawn[label] == colors[label]
        assert len({*colors.values()}) >= 3
        load_pyplot("a test").close(figure)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["curves.png", "new/curves.svg", "curves.pdf"])
def test_curves_are_drawn_if_matplotlib_is_there(runs, name):
    pytest.importorskip("matplotlib")
    target = runs / name
    command = [sys.executable, "-P", "-m", "plangym_ext.run.cli", "plot", str(runs)]
    done = subprocess.run(
        [*command, "--out", str(target)], capture_output=True, text=True, timeout=300, check=True
    )
    assert "trainer.rate=0.1: 3 runs" in done.stdout
    content = target.read_bytes()
    begins = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert content.startswith(begins[target.suffix])
    if target.suffix == ".svg":
        # Text is drawn as outlines; their names are in comments.
        assert b"<!-- trainer.rate=0.2 (3 seeds) -->" in content
        assert b"<!-- double -->" in content


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--y", "los"], "no run has a column 'los' (did you mean 'loss'?); columns"),
        (["--x", "steps"], "did you mean 'step'?"),
        (["--out", "curves.gif"], "--out must end in .png or .svg or .pdf; got curves.gif"),
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


@pytest.mark.parametrize("content", ["{half", "[1, 2]", ""])
@pytest.mark.parametrize(("command", "status"), [("plot", 2), ("report", 0)])
def test_params_that_are_damaged_are_named(runs, command, status, content, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = next(runs.rglob("progress.csv")).with_name("params.json")
    path.write_text(content)
    # A curve without params would be of other runs; a page shows what is left.
    assert main([command, str(runs), "--out", str(tmp_path / "out.png")]) == status
    error = capsys.readouterr().err
    assert f"{path}: it must hold the params of a run" in error
    assert error.count("\n") == 1


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(UnknownName, match=r"must be a folder with a progress\.csv"):
        find_groups([tmp_path])
