"""Benchmarks: what regard costs beside torch and other packages, in turn on the same inputs."""

from regard.bench.timed_case import Result as Result
from regard.bench.timed_case import TimedCase as TimedCase
from regard.bench.timed_case import without_peers as without_peers
