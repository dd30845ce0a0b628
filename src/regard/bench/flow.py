"""Attention flow, every pair of top place and token, against networkx, scipy and igraph.

Weights are softmax of N(0, 1) scores times a scale, mixed with the residual, and rounded to multiples of
2⁻²⁴: scipy takes whole numbers alone, and so all compute the same, exactly. Peers have their graphs built
before the clock starts, and are asked for some of the pairs; their time is scaled up to all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.bench.timed_case import SCALES, Claim, Measured, TimedCase
from regard.bench.timing import Effort, medians
from regard.explanations.flow_network import largest_flows

LAYERS, TOKENS = 6, 32
PAIRS = {"networkx": 4, "scipy": 64, "igraph": 64}  # so many are asked for
UNIT = 2.0**-24
CLOSE = 1e-9
GROUPS = ["networkx", "compiled"]
FEWER = {"scales": ["normal"]}

Flow = Callable[[int, int], float]  # from a top place to a token


def installed(module: str) -> bool:
    """Whether a peer can be imported."""
    return find_spec(module) is not None


def missing(only: Sequence[str]) -> list[str]:
    """What could be measured against in these groups and is not installed, as a sentence each."""
    return [
        f"{name} is not here, so nothing is measured against it: pip install 'regard[peers]'"
        for name, group in (("networkx", "networkx"), ("igraph", "compiled"))
        if group in only and not installed(name)
    ]


def cases(only: Sequence[str] | None = None, scales: Sequence[str] | None = None) -> Iterator[TimedCase]:
    """The cases of these groups (default: all), on these scores (default: normal, peaked, flat)."""
    says = f"attention flow, {LAYERS} layers × {TOKENS} tokens, all pairs"
    compiled = [name for name in ("scipy", "igraph") if installed(name)]
    groups = {"networkx": (["networkx"], "networkx", 1 / 300)} if installed("networkx") else {}
    groups["compiled"] = (compiled, f"the faster of {' and '.join(compiled)}", 1 / 3)
    for group, (peers, against, limit) in groups.items():
        for scale in (scales or SCALES) if group in (only or GROUPS) else ():
            run = partial(_measure, peers, scale)
            yield TimedCase(group, Claim(says, against, limit), "flow", run, None, TOKENS**2, TOKENS, scale)


def widths(scale: str, layers: int, n: int) -> Tensor:
    """Weights with residual (layers, n, n), float64, seeded, in whole units."""
    scores = torch.randn(layers, n, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    mixed = 0.5 * (scores * SCALES[scale]).softmax(-1) + 0.5 * torch.eye(n, dtype=torch.float64)
    return (mixed / UNIT).round() * UNIT


def ours(widths: Tensor) -> Tensor:
    """All flows (n, n) of weights (layers, n, n)."""
    return largest_flows([layer.unsqueeze(0) for layer in widths])[0]


def _measure(peers: Sequence[str], scale: str, effort: Effort) -> Measured:
    """Ours, all pairs, against the fastest of these peers, the same flows found."""
    given = widths(scale, LAYERS, TOKENS)
    found, chosen = ours(given), np.random.default_rng(0).permutation(TOKENS**2)
    steps: list[Callable[[], Any]] = [partial(ours, given)]
    for name in peers:
        pairs = [(int(p) // TOKENS, int(p) % TOKENS) for p in chosen[: PAIRS[name]]]
        peer = PEERS[name](given)
        for i, j in pairs:
            if abs(peer(i, j) - float(found[i, j])) > CLOSE:
                raise AssertionError(f"{name} has another flow from {i} to {j}: {peer(i, j)}, {found[i, j]}.")
        steps.append(partial(_all, peer, pairs))
    seconds, *others = medians(steps, effort)
    shares = [len(chosen) / min(PAIRS[name], len(chosen)) for name in peers]
    return Measured(seconds, min(other * share for other, share in zip(others, shares, strict=True)))


def _all(peer: Flow, pairs: list[tuple[int, int]]) -> None:
    for i, j in pairs:
        peer(i, j)


def edges(widths: Tensor) -> tuple[list[int], list[int], list[float]]:
    """From, to and width of every edge; node i of layer l is l·n + i, the tokens are layer 0."""
    n = widths.shape[-1]
    layer, top, low = (index.tolist() for index in widths.nonzero(as_tuple=True))
    begin = [(h + 1) * n + i for h, i in zip(layer, top, strict=True)]
    end = [h * n + j for h, j in zip(layer, low, strict=True)]
    return begin, end, widths[widths > 0].tolist()


def by_networkx(widths: Tensor) -> Flow:
    """networkx, its default (preflow-push)."""
    import networkx

    layers, n = widths.shape[:2]
    graph = networkx.DiGraph()
    graph.add_nodes_from(range((layers + 1) * n))
    graph.add_weighted_edges_from(zip(*edges(widths), strict=True), weight="capacity")
    return lambda i, j: float(networkx.maximum_flow_value(graph, layers * n + i, j))


def by_scipy(widths: Tensor) -> Flow:
    """scipy.sparse.csgraph, its default (Dinic), in units of 2⁻²⁴."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    layers, n = widths.shape[:2]
    begin, end, wide = edges(widths)
    units = np.round(np.array(wide) / UNIT).astype(np.int32)
    graph = csr_array((units, (begin, end)), shape=((layers + 1) * n,) * 2)
    return lambda i, j: float(maximum_flow(graph, layers * n + i, j).flow_value * UNIT)


def by_igraph(widths: Tensor) -> Flow:
    """igraph, push-relabel."""
    import igraph

    layers, n = widths.shape[:2]
    begin, end, wide = edges(widths)
    graph = igraph.Graph((layers + 1) * n, list(zip(begin, end, strict=True)), directed=True)
    return lambda i, j: float(graph.maxflow_value(layers * n + i, j, wide))


PEERS: dict[str, Callable[[Tensor], Flow]] = {
    "networkx": by_networkx,
    "scipy": by_scipy,
    "igraph": by_igraph,
}
