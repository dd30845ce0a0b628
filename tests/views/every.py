"""One of every view, for tests that walk over all of them."""

import torch

import regard
from regard.views import bars, compare, growth, heads, heat_map, image, layers, lines, steps, words
from regard.views.ellipses import Ellipse

SOURCE = ["I", "am", "</script>", '"><img src=x onerror=alert(1)>', "שלום", "e\u0301", "👩‍🚀"]
TARGET = ["je", "\x00", "\ud800", "$x^2$", "<b>"]
N, M = len(SOURCE), len(TARGET)
ELLIPSE = Ellipse([0.4, 0.6], [[0.02, 0.006], [0.006, 0.01]])


def weights(*lead: int, m: int = M, n: int = N, map: str = "sparsemax", seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return regard.attend(2 * torch.randn(*lead, m, 8), torch.randn(*lead, n, 8), map=map).weights


EVERY = {
    "heat_map": lambda: heat_map(weights(), SOURCE, TARGET, title="<i>title", caption="\x00caption"),
    "lines": lambda: lines(weights(), SOURCE, TARGET),
    "words": lambda: words(weights(), SOURCE, TARGET),
    "heads": lambda: heads([weights(2), weights(2, seed=1)], SOURCE, TARGET),
    "steps": lambda: steps(weights(), SOURCE, TARGET),
    "compare": lambda: compare(weights(map="softmax"), weights(), SOURCE, TARGET, names=("<a>", "b")),
    "image": lambda: image(
        weights(m=2, n=12), torch.rand(9, 16, 3), TARGET[:2], grid=(3, 4), ellipses=[[ELLIPSE, ELLIPSE]]
    ),
    "layers": lambda: layers([weights(2), weights(2, seed=1)], SOURCE, TARGET),
    "bars": lambda: bars({"<a>": weights(m=1)[0], "b": weights(m=1, seed=1)[0]}, SOURCE),
    "growth": lambda: growth(
        seconds={"<a>": [(64, 0.1), (512, 0.4)], "b": [(64, 0.2)]}, mebibytes={"a": [(64, 3.0)]}
    ),
}
