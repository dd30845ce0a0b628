"""Claims whose models are not here yet."""

from regard.claims.claim import not_built

FLAVOURS, MEMORY = "Flavours of attention", "Memory"
EFFICIENT, APPLIED = "Subquadratic attention", "Applications"

not_built(
    "C27",
    "Gates of an LSTM and squeeze-and-excitation are attention that depends on the input.",
    "003:36-59",
    FLAVOURS,
    "a model of images with squeeze-and-excitation",
)
not_built(
    "C28",
    "An LSTMN attends over earlier tokens and needs no fixed memory.",
    "002:65-81",
    FLAVOURS,
    "an LSTMN language model",
)
not_built(
    "C42",
    "A neural Turing machine copies longer sequences than it was trained on.",
    "004:842",
    MEMORY,
    "a neural Turing machine",
)
not_built(
    "C43",
    "Memory networks answer what takes several facts, with several hops.",
    "004:843",
    MEMORY,
    "a memory network and stories",
)
not_built(
    "C45",
    "A Turing machine's head looks by content, shifts and sharpens.",
    "004:842",
    MEMORY,
    "a neural Turing machine",
)
not_built(
    "C59",
    "Encoders see both sides, decoders one.",
    "004:1353-1354",
    "Positions, heads, depth",
    "language models, masked and causal",
)
not_built(
    "C60",
    "Cached memory extends the context.",
    "004:1356-1358",
    EFFICIENT,
    "Transformer-XL and a compressive memory",
)
not_built(
    "C61",
    "Heads can learn how far they look; sparse patterns suffice.",
    "004:1359-1362",
    EFFICIENT,
    "adaptive spans",
)
not_built(
    "C62",
    "Efficient attentions cost n log n or n instead of n².",
    "004:1370-1402",
    EFFICIENT,
    "the efficient attentions",
)
not_built(
    "C63",
    "They differ in speed and memory; none is best everywhere.",
    "004:1370-1402",
    EFFICIENT,
    "the efficient attentions and long tasks",
)
not_built(
    "C64",
    "Approximations come near: random features, low rank, windows.",
    "004:1370-1402",
    EFFICIENT,
    "the efficient attentions",
)
not_built("C94", "An image classifier looks at the object.", "000:35-54", APPLIED, "a classifier of images")
not_built("C96", "A caption looks at what it names.", "002:215-251", APPLIED, "a captioner")
