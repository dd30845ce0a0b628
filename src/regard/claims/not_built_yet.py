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
    "C31",
    "Coattention attends both ways; iterating escapes local maxima.",
    "002:291-323",
    FLAVOURS,
    "coattention and a task of spans",
)
not_built(
    "C32",
    "Attention over attention weighs the words of the query.",
    "002:327",
    FLAVOURS,
    "attention over attention and a cloze task",
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
    "C44",
    "The output vocabulary of a pointer network is its input, of any length.",
    "004:844",
    MEMORY,
    "a pointer network",
)
not_built(
    "C45",
    "A Turing machine's head looks by content, shifts and sharpens.",
    "004:842",
    MEMORY,
    "a neural Turing machine",
)
not_built("C94", "An image classifier looks at the object.", "000:35-54", APPLIED, "a classifier of images")
not_built("C96", "A caption looks at what it names.", "002:215-251", APPLIED, "a captioner")
not_built(
    "C97",
    "Attention finds the span that answers a question.",
    "002:313-323; 004:1795-1797",
    APPLIED,
    "a model of questions and spans",
)
