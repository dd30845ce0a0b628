"""One training of the tiny runs for all tests of this folder."""

import pytest

from regard.serve import open_runs
from serve.tiny import serving, train
from serve.tiny_classifiers import train_classifiers


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


@pytest.fixture(scope="session")
def judge_folders(tmp_path_factory):
    """The folders of one classifier of each kind, by name."""
    return {folder.name: folder for folder in train_classifiers(tmp_path_factory.mktemp("classifiers"))}


@pytest.fixture(scope="session")
def judges(judge_folders):
    """The same classifiers by name."""
    return open_runs(list(judge_folders.values()))


@pytest.fixture(scope="session")
def asking(judges, runs):
    """A client of a server of these classifiers, and of a translator beside them."""
    with serving({**judges, "heads": runs["heads"]}) as found:
        yield found
