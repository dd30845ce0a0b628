"""Fill the cache of compiled kernels, so that parallel workers need not compile the same ones at once."""

import sys

import torch

import regard
from regard.kernels.attention.sparse_run import factors
from regard.memories import KeyValue
from regard.models.language.gpt import GPT, Config

for dtype in [getattr(torch, name) for name in sys.argv[1:]]:
    for name, entry in regard.MAPS.items():
        scores = torch.randn(3, 40, dtype=dtype, requires_grad=True)
        if entry.acts_on == "row":
            (entry(scores) * torch.randn(3, 40, dtype=dtype)).sum().backward()
        n = 160 if entry.acts_on == "row" else 8  # large enough for the sparse backend
        x = torch.randn(2, n, 8, dtype=dtype, requires_grad=True)
        regard.attend(x, x, map=name).context.sum().backward()
    factors(torch.zeros(2, 3, dtype=dtype), torch.ones(1, dtype=torch.int64), 0.5)
    scores, alpha = torch.randn(3, 40, dtype=dtype, requires_grad=True), torch.tensor(1.3, requires_grad=True)
    regard.maps.entmax(scores, alpha).square().sum().backward()
    for chain in (regard.maps.Chain(3).to(dtype), regard.maps.SparseMapChain(3).to(dtype)):
        chain(torch.randn(2, 9, 3, dtype=dtype, requires_grad=True))[..., 0].sum().backward()
    distribution = regard.maps.LinearChain(torch.randn(2, 9, dtype=dtype, requires_grad=True))
    (distribution.log_partition.sum() + distribution.entropy.sum()).backward()
    distribution.best(), distribution.sample(2)
    structures = regard.structures.Choice(), regard.structures.Budget(2), regard.structures.Chain()
    for structure in structures:
        structure.best(torch.randn(2, 9, dtype=dtype)), structure.solve(torch.randn(2, 9, dtype=dtype))
    for structure in (regard.structures.Matching(), regard.structures.Tree()):
        structure.best(torch.randn(2, 4, 4, dtype=dtype)), structure.solve(torch.randn(2, 4, 4, dtype=dtype))

for dtype in [getattr(torch, name) for name in sys.argv[1:]]:
    linear = regard.mechanisms.LinearAttention(16, 2).to(dtype)
    linear(
        torch.randn(1, 40, 16, dtype=dtype, requires_grad=True), mask=regard.masks.Causal()
    ).context.sum().backward()
for dtype in [getattr(torch, name) for name in sys.argv[1:]]:
    half = torch.float16 if dtype == torch.float64 else torch.bfloat16  # each process compiles two of four
    for kind in (dtype, half):
        with torch.no_grad():
            regard.attend(torch.randn(1, 8).to(kind), torch.randn(200, 8).to(kind), map="entmax15")
if "float32" in sys.argv:  # steps on codes of keys, which are float32 alone
    for bits in (4, 7):
        cache = regard.memories.Quantised(bits=bits, long=64)
        cache.append(*torch.randn(2, 1, 2, 200, 32))
        cache.append(*torch.randn(2, 1, 2, 1, 32))
        for map in ("entmax15", "sparsemax"):
            cache.attend(torch.randn(1, 4, 1, 32), map)

for dtype in [getattr(torch, name) for name in sys.argv[1:]]:  # steps of a language model and a translator
    with torch.no_grad():
        for activation in ("squared_relu", "gelu"):  # by the kernel of a layer, and by those of its parts
            model = GPT(Config(5, 8, 8, 2, 1, activation=activation)).to(dtype).eval()
            model(torch.ones(1, 1, dtype=torch.long), model(torch.ones(1, 3, dtype=torch.long))[1])
        heads, source = regard.MultiHead(8, 2).to(dtype).eval(), KeyValue(grows=False, clean=True)
        texts = torch.randn(1, 3, 8, dtype=dtype)
        for query in (texts, texts[:, :1]):
            heads(query, texts, cache=source)

regard.explanations.flow([torch.rand(1, 1, 4, 4)] * 3)
