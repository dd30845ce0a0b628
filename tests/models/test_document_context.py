"""Context of sentences before: the two attentions and the gate by hand; what it may and may not change."""

import pytest
import torch

from regard.core.tokens import EOS
from regard.maps import softmax
from regard.models import TRANSLATORS
from regard.models.parts.document_context import DocumentContext, sentences_before, weights_before
from regard.recording import record

SIZES = {"source_vocabulary": 20, "target_vocabulary": 20}
SMALL = {"width": 16, "inner": 32, "heads": 2, "layers": 1, "dropout": 0.0}


def test_sentences_are_counted_back_from_the_last():
    source = torch.tensor([[5, EOS, 6, 7, EOS, 8, 9], [5, 6, EOS, 7, 0, 0, 0], [5, 6, 7, 0, 0, 0, 0]])
    assert sentences_before(source, torch.tensor([7, 4, 3])).tolist() == [
        [2, 2, 1, 1, 1, 0, 0], [1, 1, 1, 0, -1, -1, -1], [0, 0, 0, -1, -1, -1, -1],
    ]  # fmt: skip


def by_hand(model, hidden, back):
    """One token after the other, one head."""
    out = []

    def attend(heads, query, keys):
        theta = (heads.W_k(keys) @ heads.W_q(query)) / query.shape[-1] ** 0.5
        return heads.W_o(theta.softmax(-1) @ heads.W_v(keys))

    for h in hidden:
        summaries = [
            attend(model.over_words, h, hidden[back == k]) + model.distance[k - 1]
            for k in range(1, model.sentences + 1)
            if bool((back == k).any())
        ]
        if not summaries:
            out.append(h)
            continue
        d = model.feed_forward(attend(model.over_sentences, h, torch.stack(summaries)))
        gate = torch.sigmoid(model.gate_hidden(h) + model.gate_context(d))
        out.append(gate * h + (1 - gate) * d)
    return torch.stack(out)


def test_it_equals_its_definition():
    torch.manual_seed(0)
    model = DocumentContext(6, 1, 2, 8, lambda: softmax).double()
    hidden = torch.randn(3, 6, 6, dtype=torch.double)
    back = torch.tensor([[2, 2, 1, 1, 0, 0], [1, 1, 1, 0, 0, -1], [0, 0, 0, 0, -1, -1]])
    with record(model) as seen:
        found = model(hidden, back)
    for row in range(3):
        torch.testing.assert_close(found[row], by_hand(model, hidden[row], back[row]))
    weights = weights_before(seen["over_words"][0].weights, seen["over_sentences"][0].weights)
    torch.testing.assert_close(weights.sum(-1)[:2], torch.ones(2, 6, dtype=torch.double))
    assert weights[2].abs().max() == 0
    assert (weights[0, :, 4:] == 0).all() and (weights[1, :, 3:] == 0).all()


def test_a_sentence_alone_padding_and_older_sentences_change_nothing():
    torch.manual_seed(0)
    model = TRANSLATORS["transformer"].make(**SIZES, **SMALL, context=1, positions="relative").eval()
    target = torch.tensor([[1, 5, 6]])

    def hidden(*source, padding=0):
        row = torch.tensor([[*source, *[0] * padding]])
        return model(row, torch.tensor([len(source)]), target)

    near = hidden(9, 8, EOS, 5, 6)
    torch.testing.assert_close(hidden(9, 8, EOS, 5, 6, padding=3), near)
    torch.testing.assert_close(hidden(7, 7, EOS, 9, 8, EOS, 5, 6), near)  # two before, one is read
    assert (hidden(9, 4, EOS, 5, 6) - near).abs().max() > 1e-4
    plain = TRANSLATORS["transformer"].make(**SIZES, **SMALL, positions="relative").eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("context.")})
    source = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(
        hidden(5, 6, 7), plain(source, torch.tensor([3]), target)
    )  # the first of a document


def test_steps_agree_with_the_whole_and_no_weight_is_on_what_is_only_read():
    torch.manual_seed(0)
    model = TRANSLATORS["transformer"].make(**SIZES, **SMALL, context=2).eval()
    source = torch.tensor([[9, EOS, 4, 8, EOS, 5, 6], [7, 8, 9, 0, 0, 0, 0]])
    lengths, target = torch.tensor([7, 3]), torch.tensor([[1, 5, 6], [1, 8, 9]])
    with record(model, model.attention_paths["cross"]) as seen:
        whole = model(source, lengths, target)
    (calls,) = seen.values()
    assert (calls[0].weights[0, :, :, :5] == 0).all() and (calls[0].weights[1, :, :, 3:] == 0).all()
    memory = model.encode(source, lengths)
    state = model.start(memory)
    for t in range(3):
        one, state = model.step(target[:, t], state, memory)
        torch.testing.assert_close(one, whole[:, t])


@pytest.mark.parametrize(
    "other", [{"copy": "gate"}, {"bias": ("position",)}, {"attention": "linear_attention"}]
)
def test_what_does_not_go_with_it_is_refused(other):
    with pytest.raises(ValueError, match="context, sentences before, does not go with"):
        TRANSLATORS["transformer"].make(**SIZES, **SMALL, context=1, **other)
