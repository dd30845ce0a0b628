"""Benchmarks: what regard costs beside torch and other packages, in turn on the same inputs."""

from regard.bench.case import Case as Case
from regard.bench.case import Result as Result
from regard.bench.case import without_peers as without_peers
