"""The structured maps against torch-struct, a QP solver, torch.softmax and a total variation library in C.

Forward + backward on a batch of 64 rows, or of 64 matrices. Peers that are not installed are left out.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import product

from torch import Tensor

from regard.bench import structured_peers as peers
from regard.bench.timed_case import SCALES, Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.bench.workloads import map_inputs, map_there_and_back
from regard.maps import MAPS

BATCH, ROWS = 64, 4096
SIZES = [50, 128, 512]  # keys
FEWER = {"sizes": SIZES[:1]}
MODE, FORWARD = "forward + backward", "forward"
GROUPS = ["chain", "sparsemap", "fusedmax", "hot"]
SOFTMAX = "torch.softmax"
ON_ROWS = [
    "fusedmax", "chain", "sparsemap_budget", "sparsemap_chain", "continuous_softmax", "continuous_sparsemax",
]  # fmt: skip
ON_MATRICES = {  # m = n: the work of matchings and trees grows with the cube of n, many times over
    "column_softmax": 512,
    "two_way_softmax": 512,
    "sinkhorn": 512,
    "sparsemap_matching": 32,
    "sparsemap_tree": 32,
}

Map = Callable[[Tensor], Tensor]
Step = Callable[[], object]


def cases(only: Sequence[str] | None = None, sizes: Sequence[int] | None = None) -> list[TimedCase]:
    """The cases of these groups (default: all), at these numbers of keys (default: the published ones)."""
    makers = {"chain": _chain, "sparsemap": _sparsemap, "fusedmax": _fusedmax, "hot": _hot}
    return [case for group in only or GROUPS for case in makers[group](sizes)]


def missing(groups: Sequence[str]) -> list[str]:
    """What could be measured against in these groups and is not installed, as a sentence each."""
    needed = {
        "chain": [("torch_struct", "torch-struct is not here, so chains are not measured: {}")],
        "sparsemap": [("osqp", "OSQP is not here, so SparseMAP is not measured against a QP solver: {}")],
        "fusedmax": [("condat_tv", "condat-tv is not here, so nothing is measured against it: {}")],
    }
    how = {"condat_tv": "pip install condat-tv (needs a C compiler)"}
    return [
        text.format(how.get(module, "pip install 'regard[peers]'"))
        for group in groups
        for module, text in needed.get(group, [])
        if not installed(module)
    ]


def installed(module: str) -> bool:
    """Whether a peer can be imported."""
    return find_spec(module) is not None


def _chain(sizes: Sequence[int] | None) -> Iterator[TimedCase]:
    if not installed("torch_struct"):
        return
    for n in sizes or SIZES:
        claim = Claim("chain marginals, batch 64, n = 50, 128 and 512", "torch-struct 0.5", 1 / 10, 1 / 20)
        run = partial(_against, "chain", peers.torch_struct_chain, n)
        yield TimedCase("chain", claim, "chain", run, MODE, BATCH, n, "normal")


def _sparsemap(sizes: Sequence[int] | None) -> Iterator[TimedCase]:
    solvers = {"sparsemap_budget": peers.osqp_budget, "sparsemap_chain": peers.osqp_chain}
    against = "OSQP, a QP for each row, forward alone"
    for (name, solver), n in product(solvers.items(), sizes or (50, 512)):
        if installed("osqp"):
            claim = Claim(f"SparseMAP budget and chain, batch 64, n = {n}", against)
            if n == 50:
                claim = Claim("SparseMAP budget and chain, batch 64, n = 50", against, 1 / 20)
            yield TimedCase("sparsemap", claim, name, partial(_qp, name, solver, n), MODE, BATCH, n, "normal")
        if installed("lpsmap") and name == "sparsemap_budget":
            claim = Claim("SparseMAP budget, batch 64", "lp-sparsemap, row by row")
            run = partial(_against, name, peers.lpsmap_budget, n)
            yield TimedCase("sparsemap", claim, name, run, MODE, BATCH, n, "normal")


def _fusedmax(sizes: Sequence[int] | None) -> Iterator[TimedCase]:
    n = 512 if sizes is None or 512 in sizes else sizes[0]
    for scale in SCALES:
        claim = Claim("fusedmax, rows of 512, forward + backward", SOFTMAX, 12.0)
        run = partial(_beside_softmax, "fusedmax", (ROWS, n), scale)
        yield TimedCase("fusedmax", claim, "fusedmax", run, MODE, ROWS, n, scale)
    for scale in SCALES if installed("condat_tv") else ():
        claim = Claim("total variation prox, rows of 512, float64, one thread", "condat-tv, in C")
        run = partial(_prox, n, scale)
        yield TimedCase("fusedmax", claim, "total variation prox", run, FORWARD, ROWS, n, scale)


def _hot(sizes: Sequence[int] | None) -> Iterator[TimedCase]:
    for name in ON_ROWS:
        n = 512 if sizes is None else sizes[0]
        claim = Claim(f"{name}, batch 64, n = {n}", SOFTMAX)
        yield TimedCase(
            "hot", claim, name, partial(_beside_softmax, name, (BATCH, n), "normal"), MODE, BATCH, n, "normal"
        )
    for name, most in ON_MATRICES.items():
        n = most if sizes is None else min(most, sizes[0])
        claim = Claim(f"{name}, 64 matrices, m = n = {n}", SOFTMAX)
        run = partial(_beside_softmax, name, (BATCH, n, n), "normal")
        yield TimedCase("hot", claim, name, run, MODE, BATCH * n, n, "normal")


def inputs(shape: tuple[int, ...], scale: str) -> tuple[Tensor, Tensor]:
    """Scores and a gradient for the weights, of this shape, seeded."""
    n = shape[-1]
    rows = shape[0] * shape[1] if len(shape) > 2 else shape[0]
    scores, gradient = map_inputs(rows, n, scale)
    return scores.detach().view(shape).requires_grad_(), gradient.view(shape)


def _against(name: str, theirs: Map, n: int, effort: Effort) -> Measured:
    """Ours against another's, forward + backward on scores (64, n)."""
    scores, gradient = inputs((BATCH, n), "normal")
    steps = [partial(map_there_and_back, map, scores, gradient) for map in (MAPS[name].function, theirs)]
    seconds, other = medians(steps, effort)
    return Measured(seconds, other, _support(name, scores))


def _qp(name: str, solver: Callable[[int], Map], n: int, effort: Effort) -> Measured:
    """Ours, forward + backward, against the forward alone of a QP solver that is set up already."""
    scores, gradient = inputs((BATCH, n), "normal")
    ours: Step = partial(map_there_and_back, MAPS[name].function, scores, gradient)
    seconds, other = medians([ours, partial(solver(n), scores.detach())], effort)
    return Measured(seconds, other, _support(name, scores))


def _beside_softmax(name: str, shape: tuple[int, ...], scale: str, effort: Effort) -> Measured:
    """A map against torch.softmax, forward + backward on scores of this shape."""
    scores, gradient = inputs(shape, scale)
    steps = [
        partial(map_there_and_back, map, scores, gradient) for map in (MAPS[name].function, peers.softmax)
    ]
    seconds, other = medians(steps, effort)
    return Measured(seconds, other, _support(name, scores))


def _prox(n: int, scale: str, effort: Effort) -> Measured:
    """Our total variation prox against a C library's, forward on rows of n, one thread each."""
    rows = inputs((ROWS, n), scale)[0].detach().double().numpy()
    return Measured(*medians([partial(prox, rows) for prox in (peers.our_prox, peers.condat_prox)], effort))


def _support(name: str, scores: Tensor) -> float | None:
    if not MAPS[name].sparse:
        return None
    return float((MAPS[name](scores.detach()) > 0).sum(-1).double().mean())
