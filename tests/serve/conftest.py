"""Servers of small runs for all tests of this folder."""

import pytest

from inspection.tiny_runs import CLASSIFIERS
from serve.tiny_server import opened, serving


@pytest.fixture(scope="session")
def runs():
    """Three translators by name: with heads, sparse, and without attention."""
    return opened("heads", "sparse", "rnn")


@pytest.fixture(scope="session")
def client(runs):
    """A client of a server of these runs with the usual bounds."""
    with serving(runs) as found:
        yield found


@pytest.fixture(scope="session")
def classifiers():
    """One classifier of each kind, by name."""
    return opened(*CLASSIFIERS)


@pytest.fixture(scope="session")
def mixed_client(classifiers, runs):
    """A client of a server of these classifiers, and of a translator beside them."""
    with serving({**classifiers, "heads": runs["heads"]}) as found:
        yield found
