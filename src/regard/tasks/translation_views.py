"""Pictures of what only some translators have: where a sentence looks in the sentences before it."""

import torch

from regard.core.errors import RunError
from regard.data.segments import by_word
from regard.models.parts.document_context import weights_before
from regard.recording import record
from regard.tasks.translator import Translator
from regard.views import heat_map
from regard.views.base_view import View


def context_view(system: Translator, text: str) -> View:
    """Weights of the words of the last line over the words of the lines before, heads averaged."""
    read = system.segments(text)
    last = text.rfind("\n") + 1
    first = sum(start < last for start, _ in read.spans)  # of the words of the last line
    if not 0 < first < len(read.words):
        raise RunError(
            "--kind context needs a text of several lines: sentences before, and the last one to translate."
        )
    paths = [system.attention_paths[role][0] for role in ("context_words", "context_sentences")]
    with torch.no_grad(), record(system.model, paths) as seen:
        system.forward([read.tokens], [[]])
    weights = weights_before(*(seen[path][-1].weights for path in paths))[0]
    words = by_word(weights, read.word_of, read.word_of)[first:, :first]
    caption = "The last line, over the words of the lines before; rows sum to 1."
    return heat_map(words, read.words[:first], read.words[first:], caption=caption)
