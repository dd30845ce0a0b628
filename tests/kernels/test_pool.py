"""Threads share the rows out, whoever they are: torch's or Python's."""

import os
import threading

import numpy as np
import pytest
import torch

import regard
from regard.kernels.common import pool


@pytest.fixture(params=["torch's threads", "Python's threads"])
def threads(request, monkeypatch):
    torch.set_num_threads(2)
    if request.param == "Python's threads":
        monkeypatch.setattr(pool, "_forked", True)
    elif pool._openmp() is None:
        pytest.skip("this torch has no GNU OpenMP runtime to share")


def test_every_row_is_done_once(threads):
    for rows in (1, 2, 3, 7, 100, 1001):
        done, who = np.zeros(rows, int), set()

        def kernel(start, stop, done, who=who):
            who.add(threading.get_ident())
            done[start:stop] += 1

        pool.over_rows(kernel, rows, 1 << 20, done)
        assert (done == 1).all()


def test_small_work_stays_with_the_caller(threads):
    who = set()
    pool.over_rows(lambda start, stop: who.add(threading.get_ident()), 100, 1000)
    assert who == {threading.get_ident()}


def test_an_error_in_any_thread_reaches_the_caller(threads):
    def kernel(start, stop):
        if start:
            raise RuntimeError(f"row {start}")

    with pytest.raises(RuntimeError, match="row"):
        pool.over_rows(kernel, 100, 1 << 20)
    assert regard.maps.sparsemax(torch.randn(100, 2000)).isfinite().all()  # and nothing is left behind


def test_many_callers_at_once(threads):
    x = torch.randn(500, 300)
    want, answers = regard.maps.entmax15(x), []
    callers = [threading.Thread(target=lambda: answers.append(regard.maps.entmax15(x))) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(answers) == 8
    assert all(torch.equal(answer, want) for answer in answers)


def test_a_forked_child_after_the_parent_used_its_threads(threads):
    x = torch.randn(500, 300)
    want = regard.maps.sparsemax(x)
    child = os.fork()
    if child == 0:  # NumPy compares: torch's own operations would wait for threads that a child does not have
        os._exit(0 if (regard.maps.sparsemax(x).numpy() == want.numpy()).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
