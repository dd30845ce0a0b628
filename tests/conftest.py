"""One thread per test process: several processes share the cores, and tests that are about threads say so."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")


@pytest.fixture(autouse=True)
def one_thread():
    """Set the number of threads back after a test that changed it."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
