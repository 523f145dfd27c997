"""Runs at once in threads: what each learns is what it learns alone."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from training_runs import small, weights

from plangym_ext.errors import ConcurrentUse
from plangym_ext.learn import repeatable
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner

torch = pytest.importorskip("torch")

LESS = {"collector": {"num_envs": 4, "moves": 16}, "evaluation": {"every": 0}, "rounds": 5}
#: Each draws otherwise: minibatches, dropout of none, exploration.
CASES = {
    "ppo": lambda: compose(["ppo_cartpole", LESS, {"algorithm": {"batch_size": 16}}]),
    "dqn": lambda: compose(["dqn_cartpole", LESS, {"algorithm": {"learning_starts": 16}}]),
    "alphazero": lambda: small({"evaluation": {"every": 0}, "rounds": 3}),
}


def run(case, folder):
    with Runner(CASES[case](), folder, show=False) as runner:
        runner.run()
        return weights(runner.network)


@pytest.mark.slow
def test_runs_in_threads_learn_what_they_learn_alone(tmp_path):
    before = torch.get_num_threads()
    wanted = {case: run(case, tmp_path / case) for case in CASES}
    asked = [*CASES, *CASES]
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda i: run(asked[i], tmp_path / str(i)), range(len(asked))))
    assert [one == wanted[case] for case, one in zip(asked, found, strict=True)] == [True] * 6
    assert torch.get_num_threads() == before


def test_a_stream_is_drawn_from_by_one_thread_at_a_time():
    def drawn(seed):
        stream, found = repeatable.TorchRandom(seed), []
        for _ in range(20):
            with stream.used():
                found.append(float(torch.rand(1)))
                time.sleep(0.001)  # others have their turn, if they may
                found.append(float(torch.rand(1)))
        return found

    wanted = [drawn(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(drawn, range(4))) == wanted


def test_learners_in_threads_do_not_wait_for_a_thread_that_waits_for_them():
    barrier = threading.Barrier(2)
    streams = [repeatable.TorchRandom(rank) for rank in range(2)]

    def learner(rank):
        stream = streams[rank]
        for _ in range(5):
            with stream.used(together=True):
                barrier.wait(300)
        return True

    def alone(seed):
        for _ in range(5):
            with repeatable.seeded(seed), repeatable.seeded(seed + 1):
                time.sleep(0.001)
        return True

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(learner, 0), pool.submit(learner, 1)]
        asked += [pool.submit(alone, seed) for seed in range(2)]
        assert all(one.result(300) for one in asked)


def test_who_waits_too_long_is_told(monkeypatch):
    monkeypatch.setattr(repeatable, "_PATIENCE", 0.05)
    with (
        repeatable.seeded(0),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ConcurrentUse, match=r"in use by another thread for 0\.05 s"),
    ):
        pool.submit(lambda: repeatable.seeded(1).__enter__()).result()


def test_runs_at_once_with_other_numbers_of_threads_are_refused():
    before, held = torch.get_num_threads(), repeatable.Threads()
    held.hold(1)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ConcurrentUse, match="got 2, and a run in another thread has 1"):
            pool.submit(held.hold, 2).result()
        pool.submit(held.hold, 1).result()
    held.release(1)
    assert torch.get_num_threads() == 1
    held.release(1)
    assert torch.get_num_threads() == before
