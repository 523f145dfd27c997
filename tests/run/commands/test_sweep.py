"""Sweeps: what is varied, the queue of runs, and the command."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.run.arguments import add_options
from plangym_ext.run.cli import main
from plangym_ext.run.commands import sweep
from plangym_ext.run.experiments import queue as queues
from plangym_ext.run.experiments.plan import (
    Range,
    Sweep,
    grid,
    jobs_of,
    read_over,
    read_sweep,
    sampled,
    write_outcome,
)
from plangym_ext.run.experiments.queue import JobQueue
from plangym_ext.run.experiments.summary import final_return, scores, share_done
from plangym_ext.run.logs.logger import Logger
from plangym_ext.workers.limits import RUN_RETRIES

pytest.importorskip("torch")
PRESET = "ppo_cartpole"


def over(**texts):
    return {key.replace("__", "."): read_over(key, text) for key, text in texts.items()}


def test_a_grid_has_every_combination_and_names_for_folders():
    levels = [[{"name": "small/one", "agent.hidden": [8]}, {"agent.hidden": [64, 64]}]]
    found = grid(over(a__x="1,2", b="p;q,r"), levels)
    assert [variant.name for variant in found] == [
        "small_one,x=1,b=p",
        "small_one,x=1,b=q_r".replace("_r", ",r"),
        "small_one,x=2,b=p",
        "small_one,x=2,b=q,r",
        "hidden=64+64,x=1,b=p",
        "hidden=64+64,x=1,b=q,r",
        "hidden=64+64,x=2,b=p",
        "hidden=64+64,x=2,b=q,r",
    ]
    assert found[1].settings == {"agent.hidden": [8], "a.x": "1", "b": "q,r"}


def test_ranges_are_drawn_from_as_they_say():
    values = over(rate="log(1e-5, 1e-2)", share="uniform(0,1)", count="int(1, 3)", kind="a,b")
    found = sampled(values, [], 200, seed=0)
    assert found[:50] == sampled(values, [], 50, seed=0), "more begins with the same"
    assert found != sampled(values, [], 200, seed=1)
    columns = {key: [variant.settings[key] for variant in found] for key in values}
    rates = np.log10(columns["rate"])
    assert rates.min() >= -5
    assert rates.max() <= -2
    assert abs(np.median(rates) + 3.5) < 0.3, "as many in each decade"
    assert {*columns["count"]} == {1, 2, 3}
    assert {*columns["kind"]} == {"a", "b"}
    assert all(isinstance(count, int) for count in columns["count"])
    assert len({variant.name for variant in found}) == 200


def test_no_variant_is_drawn_twice():
    assert len(sampled(over(kind="a,b"), [[{"x": 1}, {"x": 2}]], 50, seed=0)) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a list, or a range"),
        ("log(0, 1)", r"must have low < high, both above 0; got 0 and 1"),
        ("uniform(1, 1)", "must have low < high; got 1 and 1"),
        ("int(1, x)", "'x' is no number"),
    ],
)
def test_values_that_cannot_be_are_refused(text, message):
    with pytest.raises(InvalidOption, match=message):
        read_over("key", text)


def test_a_grid_refuses_ranges():
    with pytest.raises(InvalidOption, match="--sample"):
        grid({"rate": Range("log", 1e-5, 1e-2)})


def test_a_sweep_is_checked_before_anything_runs():
    jobs = jobs_of(Sweep([PRESET, {"seed": 5}], {"algorithm.epochs": [1, 2]}, seeds=2))
    assert [job.name for job in jobs] == [
        f"epochs={epochs}/seed-{seed}" for epochs in (1, 2) for seed in (5, 6)
    ]
    assert [job.settings["algorithm"]["epochs"] for job in jobs] == [1, 1, 2, 2]
    assert [job.settings["seed"] for job in jobs] == [5, 6, 5, 6]
    assert [job.name for job in jobs_of(Sweep([PRESET], {}, seeds=2))] == ["seed-0", "seed-1"]
    with pytest.raises(UnknownName, match="epoch"):
        jobs_of(Sweep([PRESET], {"algorithm.epoch": [1]}))
    with pytest.raises(InvalidOption, match="both be called 'x'"):
        jobs_of(Sweep([PRESET], {}, [[{"name": "x"}, {"name": "x", "rounds": 2}]]))


def test_settings_of_all_runs_are_those_of_every_algorithm():
    of_all = {"algorithm": {"learning_rate": 0.0123, "discount": 0.5}}
    jobs = jobs_of(Sweep([PRESET, of_all], {"algorithm.name": ["ppo", "a2c"]}))
    for job, name in zip(jobs, ("ppo", "a2c"), strict=True):
        found = job.settings["algorithm"]
        assert (found["name"], found["learning_rate"], found["discount"]) == (name, 0.0123, 0.5)
    # What one of them does not have is a mistake, as it is in `train`.
    with pytest.raises(UnknownName, match="epochs"):
        jobs_of(Sweep([PRESET, {"algorithm": {"epochs": 2}}], {"algorithm.name": ["ppo", "a2c"]}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("levels = [{rounds = 2}]", "levels in .* must be lists of rows"),
        ("levels = [[]]", "levels in .* must be lists of rows"),
        ('seeds = "3"', "seeds in .* must be a whole number, 1 or more; got '3'"),
        ("seeds = 0", "1 or more; got 0"),
        ("sample = -1", "1 or more; got -1"),
        ("over = [1]", r"over in .* must be values by key; got \[1\]"),
        ("settings = 3", "settings in .* must be settings by key; got 3"),
        ("preset = 3", "preset in .* must be the name of a preset or of a file; got 3"),
    ],
)
def test_files_of_sweeps_are_checked(tmp_path, text, message):
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(InvalidOption, match=message):
        read_sweep(path)


def test_no_run_is_outside_of_the_folder_of_its_sweep():
    rows = [{"name": ".."}, {"name": "."}, {"name": "a/../b"}]
    names = [job.name for job in jobs_of(Sweep([PRESET], {}, [rows]))]
    assert names == ["__/seed-0", "_/seed-0", "a_.._b/seed-0"]


@pytest.mark.parametrize(
    ("values", "seeds", "sample"),
    [
        ({"seed": "1,2"}, 2, None),
        ({"algorithm.learning_rate": "1e-3,0.001"}, 1, None),
        ({"algorithm.learning_rate": "1e-3,0.001"}, 1, 2),
        ({"agent.hidden": "64;[64]"}, 1, None),
    ],
    ids=["seeds", "numbers", "drawn", "lists"],
)
def test_the_same_run_is_not_counted_twice(values, seeds, sample):
    with pytest.raises(InvalidOption, match="have the same settings, seed included"):
        jobs_of(Sweep([PRESET], values, seeds=seeds, sample=sample))


def test_a_single_run_has_no_interval(tmp_path):
    (job,) = jobs_of(Sweep([PRESET], {}))
    with Logger(tmp_path / job.name, show=False, tensorboard=False) as logger:
        logger.log(1, {"eval/return": 3.0})
    write_outcome(tmp_path / job.name, 0, 1.0)
    (row,) = scores(tmp_path, [job])
    assert (row.mean, row.low, row.high) == (3.0, None, None)


def test_a_file_says_what_the_command_line_says(tmp_path, capsys):
    path = tmp_path / "sweep.toml"
    path.write_text(
        f'preset = "{PRESET}"\nseeds = 2\n[settings]\n"rounds" = 3\n'
        '[over]\n"algorithm.learning_rate" = [1e-3, 3e-4]\n'
    )
    assert main(["sweep", "--file", str(path), "--dry-run", "--algorithm.epochs", "2"]) == 0
    assert capsys.readouterr().out.split() == [
        f"learning_rate={rate}/seed-{seed}" for rate in (0.001, 0.0003) for seed in (0, 1)
    ]
    assert main(["sweep", "--file", str(path), "--dry-run", "--over", "rounds=4,5"]) == 0
    assert len(capsys.readouterr().out.split()) == 8
    path.write_text("seed = 2\n")
    with pytest.raises(UnknownName, match="'seed'; a sweep has"):
        read_sweep(path)


def test_a_preset_that_is_typed_takes_the_place_of_the_files_and_not_of_its_settings(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(f'preset = "{PRESET}"\n[settings]\nrounds = 3\n"algorithm.discount" = 0.5\n')
    given = ["a2c_cartpole", "--file", str(path), "--rounds", "4"]
    parser = argparse.ArgumentParser()
    add_options(parser, sweep.Options, given)
    (job,) = jobs_of(sweep._asked(parser.parse_args(given)))
    assert job.settings["algorithm"]["name"] == "a2c"
    assert job.settings["algorithm"]["discount"] == 0.5
    assert job.settings["rounds"] == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "name a preset"),
        ([PRESET, "--over", "rounds"], "--over must be KEY=VALUES; got 'rounds'"),
        (
            [PRESET, "--over", "learning_rate=1,2"],
            "'learning_rate' is not known; name its section, too: algorithm.learning_rate.",
        ),
        ([PRESET, "--over", "algorithm.epoch=1,2"], "did you mean 'epochs'?"),
        ([PRESET, "--over", "seed=log(1, 5)"], "--sample N"),
        (["--file", "none.toml"], "none.toml"),
        ([PRESET, "--over", "rounds=int(1,inf)", "--sample", "2"], "low < high, both finite"),
        (
            [PRESET, "--over", "algorithm.clip=log(1e-5,inf)", "--sample", "2"],
            "low < high, both finite",
        ),
    ],
)
def test_mistakes_are_one_line(tmp_path, arguments, text, capsys):
    assert main(["sweep", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


#: Stands for a run where only the queue is tested: a word in its folder tells it what to do.
PRETENDED = """
import os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--out") + 1])
with (folder / "starts").open("a") as file:
    file.write(f"{sys.argv[2]} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n")
what = folder.parent.name
if what == "fails":
    sys.exit(3)
if what == "dies" or (what == "dies_once" and not (folder / "died").exists()):
    (folder / "died").touch()
    os.kill(os.getpid(), signal.SIGKILL)
if what == "waits":
    try:
        (folder / "up").touch()
        time.sleep(60)
    except KeyboardInterrupt:
        (folder / "saved").touch()
        sys.exit(130)
"""


@pytest.fixture
def pretended(monkeypatch):
    monkeypatch.setattr(queues, "_PROGRAM", (sys.executable, "-S", "-c", PRETENDED))

    def jobs(*names):
        levels = [[{"name": name} for name in names]]
        return jobs_of(Sweep([PRESET], {}, levels))

    return jobs


def ignored(*_):
    """Nothing is to be shown."""


def test_a_killed_run_is_started_again_and_a_failed_one_is_told(tmp_path, pretended):
    found = {}
    queue = JobQueue(tmp_path, pretended("works", "fails", "dies", "dies_once"), processes=3)
    queue.run(ignored, lambda job, status, _: found.update({job.variant: status}))
    assert found == {"works": 0, "fails": 3, "dies": -signal.SIGKILL, "dies_once": 0}
    starts = {
        name: len((tmp_path / name / "seed-0" / "starts").read_text().splitlines())
        for name in found
    }
    assert starts == {"works": 1, "fails": 1, "dies": 1 + RUN_RETRIES, "dies_once": 2}


def test_slots_have_processors_and_accelerators_of_their_own(tmp_path, pretended):
    usable = sorted(os.sched_getaffinity(0))
    names = [f"n{i}" for i in range(4)]
    JobQueue(tmp_path, pretended(*names), processes=len(usable), gpus=2).run(ignored, ignored)
    said = {(tmp_path / name / "seed-0" / "starts").read_text().strip() for name in names}
    if len(usable) > 1:
        assert said <= {f"{core} {slot % 2}" for slot, core in enumerate(usable)}
        assert len(said) > 1
    JobQueue(tmp_path, pretended("alone")).run(ignored, ignored)
    assert (tmp_path / "alone" / "seed-0" / "starts").read_text() == " None\n", "all of them"


def test_an_interrupt_reaches_each_run_once_and_waits_for_it(tmp_path, pretended):
    queue = JobQueue(tmp_path, pretended("waits", "later"), processes=1)

    def look():
        if (tmp_path / "waits" / "seed-0" / "up").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.run(look, ignored)
    assert (tmp_path / "waits" / "seed-0" / "saved").exists()
    assert not (tmp_path / "later").exists()
    assert all(one.process.returncode == 130 for one in queue.running)
    assert queue.saved


def test_a_second_interrupt_stops_the_runs_at_once(tmp_path, pretended):
    queue = JobQueue(tmp_path, pretended("waits", "later"), processes=1)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.run(interrupt, ignored, interrupt)
    assert [one.job.variant for one in queue.running] == ["waits"]
    assert all(one.process.returncode is not None for one in queue.running)
    assert not queue.saved


def test_an_interrupt_while_a_run_starts_waits_for_that_run_too(tmp_path, pretended):
    queue = JobQueue(tmp_path, pretended("waits", "later"), processes=1)
    start = queue._where.start

    def interrupted_start(folder, slot):
        process = start(folder, slot)
        while not (folder / "up").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    queue._where.start = interrupted_start
    with pytest.raises(KeyboardInterrupt):
        queue.run(ignored, ignored)
    assert [one.job.variant for one in queue.running] == ["waits"]
    assert (tmp_path / "waits" / "seed-0" / "saved").exists()


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
def test_an_interrupted_sweep_tells_what_its_runs_have_saved(begun, tmp_path):
    command = [sys.executable, "-P", "-m", "plangym_ext", "sweep", PRESET, "--out", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--rounds=100000", "--evaluation.every=0", "--checkpoint_every=1"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    # The log is there when the process of the run is, which then imports torch.
    awaited = "checkpoint-*[1-9].pt" if begun else "train.log"
    try:
        while not list(tmp_path.rglob(awaited)):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    # A run that was late to hear of it, on a busy machine, has begun by then.
    saved = any(int(path.stem[-8:]) for path in tmp_path.rglob("checkpoint-*.pt"))
    assert saved or not begun
    but = "" if saved else ", but for 1 that had not begun"
    told = f"the runs have saved where they are, in {tmp_path}{but}. Go on with the same command"
    assert told in said


def test_a_sweep_without_torch_begins_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep, "find_spec", lambda _: None)
    assert main(["sweep", PRESET, "--out", str(tmp_path / "out")]) == 2
    assert "needs torch; it is not installed. Install it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_scores_are_of_the_runs_that_are_done(tmp_path):
    jobs = jobs_of(Sweep([PRESET], {}, [[{"name": "low"}, {"name": "high"}]], seeds=2))
    for number, job in enumerate(jobs):
        with Logger(tmp_path / job.name, show=False, tensorboard=False) as logger:
            logger.log(10, {"round": 1, "return": 1.0})
            assert share_done(job, tmp_path) == 1 / job.rounds
            logger.log(20, {"round": 2, "return": float(number)})
            if number == 3:
                logger.log(1000, {"round": job.rounds, "eval/return": 30.0})
                logger.log(2000, {"round": job.rounds, "return": 5.0, "recent/return": 7.0})
            elif number == 2:
                logger.log(1000, {"round": job.rounds, "return": 5.0, "recent/return": 2.5})
        write_outcome(tmp_path / job.name, 0, 1.0)
    assert [final_return(tmp_path / job.name) for job in jobs] == [0, 1, 2.5, 30]
    assert share_done(jobs[3], tmp_path) == 1
    assert [(row.variant, row.values) for row in scores(tmp_path, jobs)] == [
        ("high", [2.5, 30]),
        ("low", [0, 1]),
    ]
    write_outcome(tmp_path / jobs[3].name, 1, 1.0)
    assert scores(tmp_path, jobs)[0].values == [2.5]
    assert final_return(tmp_path / "nothing") is None


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_and_ends_like_the_runs_alone(tmp_path, capsys):
    import torch

    from plangym_ext.learn import tensor_file
    from plangym_ext.run.settings.compose import compose
    from plangym_ext.run.training.runner import Runner

    # Long enough for the queue, which looks ten times a second, to see it run.
    small = {"rounds": 80, "checkpoint_every": 1, "evaluation": {"every": 0}}
    (job,) = jobs_of(Sweep([PRESET, small], {}))
    queue, killed = JobQueue(tmp_path, [job]), []

    def kill_once():
        if not killed and list(tmp_path.rglob("checkpoint-000000[0-6]?.pt")):
            queue.running[0].process.kill()
            killed.append(True)

    statuses = []
    queue.run(kill_once, lambda _, status, __: statuses.append(status))
    assert (killed, statuses) == ([True], [0])
    with Runner(compose([PRESET, small]), tmp_path / "alone") as runner:
        runner.run()
    files = [next((tmp_path / name).rglob("*-00000080.pt")) for name in ("seed-0", "alone")]
    found, want = (tensor_file.load(file)["trainer"]["network"] for file in files)
    assert all(torch.equal(found[name], want[name]) for name in want)
    progress = [(tmp_path / name / "progress.csv").read_bytes() for name in ("seed-0", "alone")]
    assert progress[0] == progress[1]


def test_a_folder_with_other_results_is_refused(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    assert main(["sweep", PRESET, "--out", str(tmp_path), "--rounds", "1"]) == 2
    assert f"{tmp_path} holds a training run. Name another" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_folder_with_another_sweep_is_refused(tmp_path, monkeypatch, capsys):
    from plangym_ext.run.commands import sweep

    ran = []
    monkeypatch.setattr(sweep, "_run_all", lambda jobs, _: ran.append(len(jobs)) or [])
    command = ["sweep", PRESET, "--out", str(tmp_path), "--over"]
    assert main([*command, "rounds=2,3"]) == 0
    assert main([*command, "rounds=2,3"]) == 2
    assert "go on with it by --resume" in capsys.readouterr().err
    assert main([*command, "rounds=2,3", "--seeds", "2", "--resume"]) == 0
    changed = ["--algorithm.epochs", "3", "--resume"]
    assert main([*command, "rounds=2,4", *changed]) == 2
    error = capsys.readouterr().err
    assert "the run 'rounds=2/seed-0' was begun with other settings: algorithm.epochs: 20" in error
    assert ran == [2, 4]
    kept = json.loads((tmp_path / "sweep.json").read_text())["runs"]
    assert len(kept) == 4
    assert main([*command, "rounds=4", "--resume"]) == 0
    assert len(json.loads((tmp_path / "sweep.json").read_text())["runs"]) == 5
