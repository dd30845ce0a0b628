"""One thread per test process: several processes share the cores, and tests that are about threads say so."""

import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings

# Virtual machines may report AMX and not have it: oneDNN's bfloat16 kernels then end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Threads that wait for each other do not take the processor from other test processes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
import torch

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]

settings.register_profile("regard", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("regard")


def pytest_configure(config):
    """Give each worker a stretch of the tests: what a file makes once is then made by one of them."""
    if config.getoption("dist", "no") == "load":
        config.option.dist = "worksteal"


@pytest.fixture(autouse=True)
def one_thread():
    """Set the number of threads back after a test that changed it."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def browser():
    """Chromium, one for all tests of a process: Playwright keeps an event loop running in this thread.

    Where there is none these tests are skipped with a warning; with REGARD_BROWSER=1 they fail.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found, missing = None, "playwright is not installed"
    else:
        missing = f"none of {', '.join(NAMES)} is installed; `make browser` does it"
    if found is None:
        if os.environ.get("REGARD_BROWSER") == "1":
            pytest.fail(f"REGARD_BROWSER=1 and no browser: {missing}")
        warnings.warn(f"TESTS IN A BROWSER ARE SKIPPED: {missing}", stacklevel=1)
        pytest.skip(f"no browser: {missing}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def apart():
    """Call something in a thread of its own, where no event loop runs."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """The tiny run of a task (`runs/tiny.py`), trained when it is first asked for; nobody may change it."""
    from runs.tiny import trained

    folder, found = tmp_path_factory.mktemp("tiny"), {}

    def run(task):
        if task not in found:
            found[task] = trained(task, folder)
        return found[task]

    return run
