"""The settings in which the walks take each map: drawn for its definition, fixed for everything else."""

from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

from regard import MAPS
from regard.maps import Hard, softmax
from regard.maps.estimators import Exact, GumbelSoftmax, PerturbAndMap, Reinforce, Spigot, StraightThrough

N = 6  # the keys of a row in which every case can be called


def number(low, high):
    return st.floats(low, high, width=32) | st.integers(int(low), int(high)).map(float)


def some(element, n):
    return st.lists(element, min_size=n, max_size=n)


score = st.floats(-5, 5, width=32) | st.integers(-2, 2).map(float)
limit = st.floats(0, 1.5, width=32) | st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0, float("inf")])
ALPHAS = [1, 1 + 1e-6, 1.01, 1.1, 1.25, 1.5, 1.9, 2, 2.01, 3, 4, 10]
LIMITS = {"upper": lambda n: st.floats(0, 1) | some(limit, n)}
BASIS = {"basis": lambda n: st.integers(2, 60), "ridge": lambda n: st.floats(1e-3, 1)}

# Settings of a row of n keys, or of a matrix. A list stands for a tensor.
DRAWN = {
    "softmax": {"temperature": lambda n: st.floats(0.1, 10)},
    "entmax": {"alpha": lambda n: st.sampled_from(ALPHAS) | some(st.sampled_from(ALPHAS), 1)},
    "fusedmax": {"strength": lambda n: st.floats(0.001, 1), "temperature": lambda n: st.floats(0.2, 3)},
    "top_k_softmax": {"k": lambda n: st.integers(1, 7)},
    "top_k_sparsemax": {"k": lambda n: st.integers(1, 7)},
    "bounded_softmax": LIMITS,
    "bounded_sparsemax": LIMITS,
    "continuous_softmax": BASIS,
    "continuous_sparsemax": BASIS,
    "sparsemap_budget": {"k": lambda n: st.integers(0, 7)},
    "chain": {"transitions": lambda n: number(-3, 3)},
    "sparsemap_chain": {"transitions": lambda n: number(-3, 3) | some(some(number(-3, 3), 2), 2)},
    "sinkhorn": {"iterations": lambda n: st.integers(0, 3)},
}


def drawn(name, n):
    """Some settings of a map, or all, or none."""
    return st.fixed_dictionaries({}, optional={key: of(n) for key, of in DRAWN.get(name, {}).items()})


def wide(values):
    return torch.tensor(values, dtype=torch.float64)


ATTRACT, REPEL = wide([[0.3, -0.2], [0.4, 0.9]]), wide([[-0.4, 0.5], [0.1, -0.8]])
STRONG, WILD, NEITHER = (20 * ATTRACT).tolist(), (20 * REPEL).tolist(), [[0.3, 0.1], [-0.5, -0.7]]
UPPER = [{"upper": 0.375}, {"upper": wide(0.22)}, {"upper": wide([0.12, 0.3, 0.05, 0.38, 0.2, 0.33])}]
PLACES = [{"basis": 3}, {"basis": 3, "shape": (2, 3)}]
FIXED = {  # a list stands for a tensor that nobody differentiates by
    "softmax": [{"temperature": 0.3}, {"temperature": wide(0.7)}],
    "entmax": [
        {"alpha": a} for a in (1.0, 3.0, float("inf"), *map(wide, (1.001, 1.2, 1.5, 1.8, 2.0, 2.3, 3.0)))
    ],
    "fusedmax": [{"strength": 0.05, "temperature": 0.7}, {"strength": 0.2, "temperature": wide(0.8)}],
    "top_k_softmax": [{"k": 3}],
    "top_k_sparsemax": [{"k": 3}],
    "bounded_softmax": UPPER,
    "bounded_sparsemax": UPPER,
    "continuous_softmax": PLACES,
    "continuous_sparsemax": PLACES,
    "sparsemap_budget": [{"k": k} for k in (0, 1, 20, 3)],
    "chain": [{"transitions": t} for t in (-3.0, wide([[0.3, -1.0], [2.0, -0.5]]))],
    "sparsemap_chain": [{"transitions": t} for t in (0.5, STRONG, WILD, NEITHER, ATTRACT, REPEL)],
    "sinkhorn": [{"iterations": 3}, {"temperature": wide(0.8), "iterations": 3}],
}


@dataclass(frozen=True)
class Case:
    """A map in some settings. Tensors among them take the dtype of the scores, or come after them."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, scores, *tensors):
        like = scores if isinstance(scores, torch.Tensor) and scores.is_floating_point() else torch.zeros(())
        return MAPS[self.name](scores, **self.at(like) | dict(zip(self.tensors, tensors, strict=False)))

    def at(self, scores):
        """The settings for these scores."""
        given = {key: s for key, s in self.settings.items() if isinstance(s, list | torch.Tensor)}
        return self.settings | {key: torch.as_tensor(s).to(scores) for key, s in given.items()}

    @property
    def tensors(self):
        return {key: t for key, t in self.settings.items() if isinstance(t, torch.Tensor)}

    @property
    def facts(self):
        return MAPS[self.name]

    @property
    def shape(self):
        """Of scores that it can be called with."""
        return (N,) if self.facts.acts_on == "row" else (4, 4)

    @property
    def by_place(self):
        """Some setting is about the keys at their places, so that there must be N of them."""
        return "shape" in self.settings or any(t.dim() == 1 for t in self.tensors.values())

    def inputs(self, scores):
        """Scores and the tensors that can be differentiated by, ready for it."""
        tensors = (t.to(scores.dtype) for t in self.tensors.values())
        return tuple(t.detach().clone().requires_grad_() for t in (scores, *tensors))

    def rounded(self, dtype):
        return Case(self.name, self.at(torch.zeros((), dtype=dtype)))

    def __str__(self):
        said = [f"{key}={s.tolist() if key in self.tensors else s}" for key, s in self.settings.items()]
        return " ".join([self.name, *said]) + (" as tensor" if self.tensors else "")


def cases(acts_on):
    names = [name for name, entry in MAPS.items() if entry.acts_on == acts_on and not entry.stochastic]
    return [Case(name, settings) for name in names for settings in ({}, *FIXED.get(name, []))]


ESTIMATORS = {
    "reinforce": Reinforce,
    "reinforce without baseline": lambda: Reinforce(None),
    "straight through": StraightThrough,
    "straight through softmax": lambda: StraightThrough(softmax),
    "straight through the best": lambda: StraightThrough(draw=False),
    "gumbel": lambda: GumbelSoftmax(0.5),
    "gumbel straight through": lambda: GumbelSoftmax(0.5, hard=True),
    "perturb and map": PerturbAndMap,
    "spigot": Spigot,
    "exact": Exact,
}


def made(name, seed=0):
    """Hard attention by one of the estimators, with a generator of its own."""
    return Hard(ESTIMATORS[name](), generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Drawing:
    """Hard attention as a map that draws the same at every call."""

    estimator: str
    training: bool = True
    name, facts, shape, by_place = "hard", MAPS["hard"], (N,), False

    def __call__(self, scores):
        return made(self.estimator).train(self.training)(scores)

    def rounded(self, dtype):
        return self

    def __str__(self):
        return f"hard {self.estimator}" + ("" if self.training else " in eval")


ROWS, MATRICES = cases("row"), cases("matrix")
HARD = [Drawing(name, training) for name in ESTIMATORS for training in (True, False)]
