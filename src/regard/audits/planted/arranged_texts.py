"""Models that are faithful as *bounded* is, on texts that make it hard to see.

redundant         every text has two label words, both of its class: each suffices, and erased alone it is not
                  missed, since the other takes over its weight
positions only    w_j = softmax(r)_j, r learned and the same for every text: weights that do not depend on the
                  keys, as in a random synthesizer. The label words among the first places decide the
                  class; there are others behind them, which do not.

Both read z = Σ_j w_j h_j, h_j = tanh(…) without context, through a linear layer: a word's share in the logits
is at most its weight times a constant. So the weights of *positions only* are faithful as well: they say
which words reached the output. That they were not chosen for these words is another matter.

Tay et al. (2021), "Synthesizer: Rethinking Self-Attention for Transformer Models", arXiv:2005.00743, §3.1.2.
"""

import torch
from torch import Tensor, nn

from regard.audits.planted.attending import Attending, Toy, fit, lengths_of
from regard.audits.planted.kinds import register
from regard.audits.planted.planted_texts import LENGTHS, Texts, is_label_word, label_words, neutral_words
from regard.audits.planted.trained_classifiers import small, trained
from regard.models.classifiers.classifier_model import real

FRONT = 4  # places; a text has at most so many label words
IN_FRONT = 0.7  # the weight there, at least


def two_of_a_class(texts: Texts, seed: int) -> Texts:
    """The texts with two other label words, both of the text's class, at random places."""
    draw = torch.Generator().manual_seed(seed)

    def arranged(tokens: Tensor, labels: Tensor) -> Tensor:
        neutral = torch.where(is_label_word(tokens), neutral_words(tokens.shape, draw), tokens)
        places = torch.rand(tokens.shape, generator=draw).argsort(-1)[:, :2]
        return neutral.scatter(-1, places, label_words(labels, 2, draw))

    return Texts(
        arranged(texts.tokens, texts.labels), texts.labels, arranged(texts.test, texts.test_labels),
        texts.test_labels,
    )  # fmt: skip


def first_words_decide(texts: Texts, seed: int) -> Texts:
    """The texts with their label words among the first FRONT places; FRONT others, of any class, follow."""
    draw = torch.Generator().manual_seed(seed)

    def arranged(tokens: Tensor) -> Tensor:
        front = tokens.gather(-1, (~is_label_word(tokens)).int().argsort(dim=-1, stable=True))
        order = torch.rand(len(tokens), FRONT, generator=draw).argsort(-1)
        others = label_words(torch.randint(2, (len(tokens), FRONT), generator=draw).flatten(), 1, draw)
        places = torch.rand(front[:, FRONT:].shape, generator=draw).argsort(-1)[:, :FRONT]
        rest = front[:, FRONT:].scatter(-1, places, others.view(-1, FRONT))
        return torch.cat([front[:, :FRONT].gather(-1, order), rest], -1)

    return texts._replace(tokens=arranged(texts.tokens), test=arranged(texts.test))


@register("redundant", faithful=True, arrange=two_of_a_class)
def redundant(texts: Texts) -> Attending:
    """Bounded, and two words of every text each suffice."""
    return trained(small("attentive_mlp"), texts)


class ByPosition(Toy):
    """Weights by position alone."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Embedding(max(LENGTHS), 1)
        nn.init.zeros_(self.theta.weight)

    def weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        n = tokens.shape[1]
        scores = self.theta.weight[:n, 0].expand(len(tokens), -1)
        return scores.masked_fill(~real(lengths, n), -torch.inf).softmax(-1)


@register("positions only", faithful=True, arrange=first_words_decide)
def positions_only(texts: Texts) -> Attending:
    """Bounded, with weights that are the same for every text."""
    model = ByPosition()
    fit(model, texts, steps=400)
    with torch.no_grad():
        front = model.weights(texts.test, lengths_of(texts.test))[:, :FRONT].sum(-1)
    model.facts["weight in front"] = float(front.mean())
    model.succeeded = model.facts["weight in front"] >= IN_FRONT
    return model
