"""One training of the tiny runs for all tests of this folder."""

import pytest

from regard.serve import open_runs
from serve.tiny import serving, train


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """The folders of three runs: with heads, sparse, and without attention."""
    return train(tmp_path_factory.mktemp("runs"), ("heads", "sparse", "rnn"))


@pytest.fixture(scope="session")
def runs(folders):
    """The same runs by name."""
    return open_runs(folders)


@pytest.fixture(scope="session")
def client(runs):
    """A client of a server of these runs with the usual bounds."""
    with serving(runs) as found:
        yield found
