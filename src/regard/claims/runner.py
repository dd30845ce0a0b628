"""Run claims, seed after seed. What is found is written as each seed ends: a run can be continued later."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import torch

from regard.claims.claim import CLAIMS, Claim
from regard.claims.quick import quick
from regard.claims.stored_figures import PUBLISHED, Record, Run, read, write
from regard.tasks.case import NotApplicable

Listen = Callable[[Claim, int, float], None]  # a claim, its seed, how many seconds are left in all


@contextmanager
def one_thread() -> Iterator[None]:
    """The same figures whatever the machine has; these models are small, and faster so."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def identity(options: dict[str, str]) -> dict[str, str]:
    """The options as a run keeps them: a file of texts with a hash of what is in it, which may change."""
    if "data" not in options:
        return dict(options)
    return {**options, "content": sha256(Path(options["data"]).read_bytes()).hexdigest()[:12]}


def run_seed(claim: Claim, seed: int, options: dict[str, str] | None = None) -> Run:
    """The figures of one seed."""
    started = time.perf_counter()
    with one_thread():
        torch.manual_seed(seed)
        try:
            figures = claim.measure(seed, **(options or {}))
        except NotApplicable as error:
            raise ValueError(
                f"{claim.number}, seed {seed}, cannot be asked of this model: {error}."
            ) from error
    seconds = time.perf_counter() - started
    plain = {name: _rounded(float(value)) for name, value in figures.items()}
    return Run(seed, plain, round(seconds, 1), commit(), identity(options or {}))


def try_out(claim: Claim, options: dict[str, str] | None = None) -> Run:
    """Two steps of training and a handful of texts: whether it runs, not what is true."""
    with quick():
        return run_seed(claim, 0, options)


def wanted(
    claims: Sequence[Claim], seeds: int, folder: Path, options: dict[str, str]
) -> list[tuple[Claim, int]]:
    """What is still to be run, seed by seed, so that claims share the models of a seed."""
    left = []
    for claim in claims:
        done = {run.seed for run in read(claim, folder).of(identity(options))}
        some = claim.seeds[: 1 if claim.exact else seeds]
        left += [(claim, seed, place) for place, seed in enumerate(some) if seed not in done]
    return [(claim, seed) for claim, seed, _ in sorted(left, key=lambda one: one[2])]


def run_claims(
    claims: Sequence[Claim],
    seeds: int,
    folder: Path,
    options: dict[str, str] | None = None,
    minutes: float | None = None,
    listen: Listen | None = None,
) -> dict[str, Record]:
    """Run what is not in the folder yet, and write it there: the records of all the claims.

    With `minutes` no further seed is begun after so long.
    """
    started, options = time.perf_counter(), options or {}
    todo = wanted(claims, seeds, folder, options)
    took: dict[str, float] = {}
    for place, (claim, seed) in enumerate(todo):
        if minutes is not None and time.perf_counter() - started > 60 * minutes:
            break
        if listen is not None:
            listen(claim, seed, sum(took.get(c.number, 60 * c.minutes) for c, _ in todo[place:]))
        run = run_seed(claim, seed, options)
        took[claim.number] = run.seconds
        write(read(claim, folder).including(run), folder)
    return {claim.number: read(claim, folder) for claim in claims}


def missing(most_minutes: float | None = None) -> list[Claim]:
    """Claims whose published figures are of too few seeds, the quickest first."""
    found = [c for c in CLAIMS.values() if not read(c, PUBLISHED).settled]
    some = (c for c in found if most_minutes is None or c.minutes <= most_minutes)
    return sorted(some, key=lambda claim: claim.minutes)


def commit() -> str:
    """The commit of this code, if it is a checkout; "" where it is installed, even inside a repository."""
    file = Path(__file__)
    try:
        found = subprocess.run(
            ["git", "-C", str(file.parent), "rev-parse", "HEAD", f"HEAD:./{file.name}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout[:7]


def _rounded(value: float) -> float:
    """Six digits: more would only differ from machine to machine."""
    return float(f"{value:.6g}")
