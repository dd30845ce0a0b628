"""Translators with random weights, to be audited and aligned with."""

import warnings

import torch

from regard.data import Tokenizer
from regard.tasks.translation import TRANSLATION, Tokenizers

PAIRS = [
    ("the film begins at half past eight", "der Film beginnt um halb neun"),
    ("  on  the\u00a0third ", "am dritten"),  # three words, whatever stands between them
    ("eight", "acht Uhr"),
    ("", "nichts"),
    ("nothing", " \t"),
]


def translator(name, kind="bpe", **settings):
    """A translator of this architecture that knows the words of PAIRS."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the text has too few tokens
        tokenizer = Tokenizer.train([text for pair in PAIRS for text in pair], kind, 280)
    parts = Tokenizers(tokenizer, tokenizer)
    model = {"name": name, "width": 16, "layers": 2, "dropout": 0.0, **settings}
    resolved = TRANSLATION.resolve({"data": {"corpus": "copy"}, "model": model, "seed": 0})
    torch.manual_seed(0)
    return TRANSLATION.system(TRANSLATION.build(resolved, parts), parts, resolved)
