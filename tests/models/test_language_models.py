"""What holds for every language model: no look ahead, the same in parts as at once, and it learns."""

import pytest
import torch
from torch.nn import functional as F

import regard
from regard.core.errors import ShapeError
from regard.masks import Causal
from regard.models.language import LANGUAGE_MODELS
from regard.models.language.bert import exchanged
from regard.models.language.language_model import detached
from regard.models.language.next_token import NextToken
from regard.testing import check_causal

V = 11
SMALL = {
    "gpt": {"width": 16, "inner": 32, "heads": 2, "layers": 2},
    "adaptive_span": {"width": 16, "inner": 32, "heads": 2, "layers": 2, "most": 8, "ramp": 3},
    "adaptively_sparse": {"width": 16, "inner": 32, "heads": 2, "layers": 2},
    "sparse_transformer": {"width": 16, "inner": 32, "heads": 2, "layers": 2, "stride": 3, "summary": 1},
    "transformer_xl": {"width": 16, "inner": 32, "heads": 2, "layers": 2, "memory": 32},
    "compressive": {
        "width": 16,
        "inner": 32,
        "heads": 2,
        "layers": 2,
        "memory": 32,
        "compressed": 4,
        "rate": 2,
    },
    "bert": {"embedding": 16, "inner": 32, "heads": 2, "layers": 1},
    "recurrent": {"width": 16},
    "attentive_rnn": {"width": 16},
    "lstmn": {"width": 16},
    "pointer_sentinel": {"width": 16},
}
causal = pytest.mark.parametrize("name", [n for n, e in LANGUAGE_MODELS.items() if e.kind.causal])


def made(name, **more):
    torch.manual_seed(0)
    assert name in SMALL, f"language model {name!r} is not in SMALL: give it small settings here"
    return LANGUAGE_MODELS[name].make(vocabulary=V, **{"dropout": 0.0, **SMALL[name], **more}).eval()


def in_parts(model, tokens, size):
    parts, state = [], None
    for part in tokens.split(size, 1):
        hidden, state = model(part, state)
        parts.append(model.logits(hidden))
    return torch.cat(parts, 1)


@causal
def test_no_position_sees_the_future(name):
    model, tokens = made(name), torch.randint(4, V, (2, 9))
    check_causal(lambda x: model.logits(model(x)[0]), tokens, vocabulary=V, atol=1e-5)


@causal
@pytest.mark.parametrize("size", [1, 4])
def test_reading_in_parts_is_reading_at_once(name, size):
    model, tokens = made(name), torch.randint(4, V, (2, 11))
    with torch.no_grad():
        whole = model.logits(model(tokens)[0])
        torch.testing.assert_close(in_parts(model, tokens, size), whole, atol=2e-5, rtol=1e-4)


@causal
def test_a_state_is_not_changed_by_going_on(name):
    model, tokens = made(name), torch.randint(4, V, (1, 6))
    with torch.no_grad():
        _, state = model(tokens)
        one, _ = model(tokens[:, :1], state)
        model(tokens[:, 1:3], state)
        again, _ = model(tokens[:, :1], state)
    assert torch.equal(one, again)


@causal
def test_padding_after_a_text_changes_nothing(name):
    model, tokens = made(name), torch.randint(4, V, (2, 7))
    if name == "pointer_sentinel":
        with torch.no_grad():
            torch.testing.assert_close(model(tokens[:1, :4])[0], model(tokens)[0][:1, :4])
        return
    with torch.no_grad():
        whole, _ = model.from_embedded(model.embed(tokens), lengths=torch.tensor([7, 4]))
        short, _ = model.from_embedded(model.embed(tokens[1:, :4]), lengths=torch.tensor([4]))
    torch.testing.assert_close(whole[1:, :4], short, atol=1e-5, rtol=1e-4)


def toy(generator):
    """Two tokens said in turn, others in each row: from the third on each can be known."""
    return torch.randint(4, V, (16, 2), generator=generator).repeat(1, 4)


@causal
def test_it_learns_a_toy(name):
    model = made(name, **({"pull": 0.0} if name == "adaptive_span" else {})).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-2)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        tokens = toy(generator)
        hidden, _ = model(tokens[:, :-1])
        loss = model.loss(hidden.flatten(0, 1), tokens[:, 1:].flatten()) / tokens[:, 1:].numel()
        penalty = model.penalty()
        optimiser.zero_grad()
        (loss if penalty is None else loss + penalty).backward()
        optimiser.step()
    tokens = toy(generator)
    with torch.no_grad():
        logits = model.eval().logits(model(tokens[:, :-1])[0])[:, 3:].flatten(0, 1)
    assert F.cross_entropy(logits, tokens[:, 4:].flatten()) < 1.4  # log 7 = 1.95 without a look back


def test_bert_learns_from_both_sides_and_only_at_chosen_places():
    model = made("bert").train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    for step in range(100):
        first = torch.randint(4, V, (16, 1), generator=generator)
        tokens = (first + torch.arange(10) - 4) % (V - 4) + 4  # counting up: any neighbour tells
        torch.manual_seed(step)
        hidden, wanted = model.masked(tokens)
        loss = model.loss(hidden, wanted) / len(wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    hidden, wanted = model.eval().masked(tokens, seed=0)
    assert 1 <= len(wanted) < 0.5 * tokens.numel()
    assert (model.logits(hidden).argmax(-1) == wanted).float().mean() > 0.5  # chance: 1/7
    again, _ = model.masked(tokens, seed=0)
    assert torch.equal(hidden, again)


@pytest.mark.parametrize("name", ["gpt", "transformer_xl", "attentive_rnn", "sparse_transformer"])
def test_recording_changes_nothing_and_rows_are_distributions(name):
    model, tokens = made(name), torch.randint(4, V, (1, 9))
    with torch.no_grad():
        before, _ = model(tokens)
        with regard.record(model, model.attention_paths["self"]) as seen:
            after, _ = model(tokens)
    assert torch.equal(before, after)
    for path in model.attention_paths["self"]:
        sums = seen[path][-1].weights.sum(-1)
        past = sums[..., 1:] if name == "attentive_rnn" else sums  # the first token has nothing before it
        torch.testing.assert_close(past, torch.ones_like(past))


@pytest.mark.parametrize("pattern", ["strided", "fixed"])
@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_reordered_keys_give_what_the_masks_give(pattern, map):
    torch.manual_seed(0)
    model = made("sparse_transformer", pattern=pattern, map=map, summary=2)
    heads = model.layers[0].attention
    x = torch.randn(2, 17, 16, requires_grad=True)  # 3 does not divide 17
    fast = heads(x, mask=Causal()).context
    with regard.intervene(heads, lambda p: p):  # by the mask, written out
        slow = heads(x, mask=Causal()).context
    torch.testing.assert_close(fast, slow)
    chosen = torch.randn_like(fast)
    ours, theirs = (torch.autograd.grad((one * chosen).sum(), x)[0] for one in (fast, slow))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("segment", "memory"), [(5, 16), (3, 16)])
def test_transformer_xl_with_enough_memory_is_full_attention(segment, memory):
    """One layer, batch 3, segments that do not divide the text, values and gradients of the last segment."""
    torch.manual_seed(0)
    model = made("transformer_xl", layers=1, memory=memory).double()
    torch.nn.init.normal_(model.layers[0].attention.score.u)
    torch.nn.init.normal_(model.layers[0].attention.score.v)
    tokens, state = torch.randint(4, V, (3, 3 * segment + 2)), None
    for part in tokens[:, : 3 * segment].split(segment, 1):
        _, state = model(part, detached(state))
    last = tokens[:, 3 * segment :]
    ours, _ = model(last, detached(state))
    embedded = torch.cat([model.embed(tokens[:, : 3 * segment]).detach(), model.embed(last)], 1)
    whole, _ = model.from_embedded(embedded)
    torch.testing.assert_close(ours, whole[:, 3 * segment :], atol=1e-10, rtol=0)
    chosen, parameters = torch.randn_like(ours), list(model.parameters())
    for a, b in zip(
        torch.autograd.grad((ours * chosen).sum(), parameters),
        torch.autograd.grad((whole[:, 3 * segment :] * chosen).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


def test_the_memory_forgets_the_oldest_and_takes_no_gradient():
    model = made("transformer_xl", memory=4)
    tokens = torch.randint(4, V, (1, 6))
    _, state = model(tokens)
    assert state["memory"].shape == (2, 1, 4, 16) and not state["memory"].requires_grad
    torch.testing.assert_close(state["memory"][0], model.embed(tokens[:, 2:]))
    _, later = model(tokens[:, :1], state)
    torch.testing.assert_close(later["memory"][0, :, :3], state["memory"][0, :, 1:])


def test_the_compressor_learns_from_its_own_loss_alone():
    model = made("compressive", memory=4, compressed=6, rate=2).train()
    tokens, state = torch.randint(4, V, (2, 18)), None
    for part in tokens.split(6, 1):
        hidden, state = model(part, detached(state))
    assert state["memory"].shape[-2] == 4 and state["compressed"].shape[-2] == 6
    compressor, others = (
        list(model.compressors.parameters()),
        [model.words.E.weight, *model.layers.parameters()],
    )
    main = torch.autograd.grad(hidden.sum(), compressor, retain_graph=True, allow_unused=True)
    assert all(gradient is None for gradient in main)
    own = torch.autograd.grad(model.penalty(), [*compressor, *others], allow_unused=True)
    assert any(g is not None and bool(g.any()) for g in own[: len(compressor)])
    assert all(g is None or not bool(g.any()) for g in own[len(compressor) :])


def test_spans_are_a_ramp_that_is_normalised_and_bounds_the_window():
    model = made("adaptive_span", layers=1, most=8, ramp=4, first=0.25)
    term = model._terms()[0]
    assert term.spans.tolist() == [2.0, 2.0] and term.reach == 6
    with regard.record(model, "layers.0.attention") as seen:
        model(torch.randint(4, V, (1, 12)))
    (call,) = seen["layers.0.attention"]
    theta = call.query @ call.keys.mT / 8**0.5  # keys as the cache holds them, already turned
    weights, apart = call.weights[0], torch.arange(12).unsqueeze(-1) - torch.arange(12)
    ramp = ((4 + 2 - apart) / 4).clamp(0, 1) * (apart >= 0)
    del theta
    assert bool((weights[:, ramp == 0] == 0).all()) and bool((weights[:, ramp > 0] > 0).all())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 12))


def test_the_pointer_adds_up_the_same_word_and_the_sentinel_has_the_rest():
    model = made("pointer_sentinel")
    tokens = torch.tensor([[5, 6, 5, 7]])
    with torch.no_grad(), regard.record(model, "pointer") as seen:
        log_p, _ = model(tokens)
    p = seen["pointer"][-1].weights[0, -1]  # over 5, 6, 5, 7 and the sentinel
    with torch.no_grad():
        said = F.linear(model.from_embedded(model.embed(tokens))[0][0, -1], *model.vocabulary()).softmax(-1)
    wanted = p[-1] * said
    wanted[5] += p[0] + p[2]
    wanted[6] += p[1]
    wanted[7] += p[3]
    torch.testing.assert_close(log_p[0, -1].exp(), wanted)


def test_an_lstmn_by_hand():
    model = made("lstmn", width=4)
    tokens, W = torch.tensor([[5, 6, 7]]), model.cell.attention.score
    x = model.embed(tokens)[0]
    tape, last = [], torch.zeros(4)
    for t in range(3):
        cell = torch.zeros(4)
        if tape:
            theta = torch.stack(
                [W.v(torch.tanh(W.W_h(h) + W.W_x(x[t]) + W.W_last(last)))[0] for h, _ in tape]
            )
            p = theta.softmax(0)
            last = sum(weight * h for weight, (h, _) in zip(p, tape, strict=True))
            cell = sum(weight * c for weight, (_, c) in zip(p, tape, strict=True))
        i, f, o, new = model.cell.gates(torch.cat([last, x[t]])).chunk(4)
        c = f.sigmoid() * cell + i.sigmoid() * new.tanh()
        tape.append((o.sigmoid() * c.tanh(), c))
    torch.testing.assert_close(model(tokens)[0][0], torch.stack([h for h, _ in tape]))


@pytest.mark.parametrize("cell", ["lstm", "gru", "plain"])
def test_gates_are_those_that_made_the_states(cell):
    model = made("recurrent", cell=cell, layers=2)
    tokens = torch.randint(4, V, (1, 5))
    found = model.gates(tokens)
    assert [set(layer) for layer in found] == [
        {"lstm": {"input", "forget", "output"}, "gru": {"reset", "update"}, "plain": set()}[cell]
    ] * 2
    for layer in found:
        assert all(
            bool(((gate > 0) & (gate < 1)).all()) and gate.shape == (1, 5, 16) for gate in layer.values()
        )
    if cell == "gru":
        states, _ = model.cells[0](model.embed(tokens))
        before = F.pad(states[:, :-1], (0, 0, 1, 0))
        closed = found[0]["update"] > 0.999
        torch.testing.assert_close(states[closed], before[closed], atol=1e-2, rtol=0)


def test_attention_to_earlier_states_leaves_the_first_row_empty():
    model = made("attentive_rnn")
    tokens = torch.randint(4, V, (1, 4))
    with regard.record(model, "attention") as seen:
        model(tokens)
    weights = seen["attention"][-1].weights[0]
    assert bool((weights.triu() == 0).all()) and bool((weights.tril(-1)[1:].sum(-1) > 0.999).all())


@pytest.mark.parametrize("name", [n for n in SMALL if made(n).causal and "self" in made(n).attention_paths])
def test_as_a_classifier_it_looks_from_the_last_token_of_each_text(name):
    reader, tokens, lengths = NextToken(made(name)), torch.randint(4, V, (2, 7)), torch.tensor([7, 4])
    path = reader.attention_paths["reader"]

    def seen(tokens, lengths):
        with torch.no_grad(), regard.record(reader, path) as found:
            logits = reader(tokens, lengths)
        return logits, reader.over_words(found)

    (logits, weights), (alone, own) = seen(tokens, lengths), seen(tokens[1:, :4], lengths[1:])
    torch.testing.assert_close(logits[1:], alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weights[1:, :, :4], own, atol=1e-5, rtol=1e-4)
    assert bool((weights[1, :, 4:] == 0).all())
    with torch.no_grad(), reader.looking_with(weights, lengths):
        torch.testing.assert_close(reader(tokens, lengths), logits, atol=1e-5, rtol=1e-4)


def test_alphas_and_saturation_are_reported():
    model = made("adaptively_sparse")
    assert model.alphas.shape == (2, 2) and model.figures() == {"alpha": 1.5, "saturated_heads": 0.0}
    model.layers[0].attention.map.a.data.fill_(20.0)
    assert model.figures()["saturated_heads"] == 2


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="softmax"):
        made("adaptive_span", map="sparsemax")
    with pytest.raises(ValueError, match="learn_alpha"):
        made("adaptively_sparse", learn_alpha=False)
    with pytest.raises(ValueError, match="two heads"):
        made("sparse_transformer", heads=1)
    with pytest.raises(ValueError, match="rate"):
        made("compressive", memory=1, rate=4)
    with pytest.raises(ValueError, match="rotary"):
        made("gpt", score="additive")
    with pytest.raises(ShapeError, match="tokens"):
        made("gpt")(torch.zeros(3, dtype=torch.long))


@pytest.mark.parametrize("positions", ["rotary", "alibi", "nape", "learned", "sinusoidal", "none"])
@pytest.mark.parametrize("map", ["softmax", "entmax15"])
def test_gpt_takes_any_positions_and_map_in_parts_as_at_once(positions, map):
    model, tokens = made("gpt", positions=positions, map=map, longest=9), torch.randint(4, V, (2, 9))
    with torch.no_grad():
        whole = model.logits(model(tokens)[0])
        torch.testing.assert_close(in_parts(model, tokens, 2), whole, atol=2e-5, rtol=1e-4)
        scaled = made("gpt", positions=positions, map=map, scalable=True)
        whole = scaled.logits(scaled(tokens)[0])
        torch.testing.assert_close(in_parts(scaled, tokens, 2), whole, atol=2e-5, rtol=1e-4)
    if positions == "learned":
        with pytest.raises(ValueError, match="learned positions for 9"):
            model(torch.randint(4, V, (1, 10)))


def test_the_pointer_is_trained_on_the_probability_that_it_says():
    model, tokens = made("pointer_sentinel"), torch.randint(4, V, (2, 9))
    wanted = tokens[:, 1:].flatten()
    whole = model.loss(model(tokens[:, :-1])[0].flatten(0, 1), wanted)
    torch.testing.assert_close(model.train().loss(model(tokens[:, :-1])[0].flatten(0, 1), wanted), whole)


def test_halves_of_rows_are_exchanged_and_told_apart():
    model = made("bert", next_sentence=True).train()
    tokens = torch.arange(8).repeat(6, 1) + 4 + torch.arange(6).unsqueeze(-1)
    mixed, other = exchanged(tokens % V, torch.Generator().manual_seed(0))
    assert bool(other.any()) and not bool(other.all())
    assert torch.equal(mixed[:, :4], tokens[:, :4] % V)
    assert torch.equal(mixed[other][:, 4:], (tokens % V)[:, 4:].roll(1, 0)[other])
    assert model.penalty() is None and model.figures() == {}
    optimiser, generator = torch.optim.AdamW(model.parameters(), lr=1e-2), torch.Generator().manual_seed(1)
    right = []
    for step in range(120):
        first = torch.randint(4, V, (16, 1), generator=generator)
        torch.manual_seed(step)
        model.masked(first.expand(-1, 8).contiguous())  # all tokens of a row are the same
        optimiser.zero_grad()
        model.penalty().backward()
        optimiser.step()
        right.append(model.figures()["next_sentence"])
    assert sum(right[-20:]) / 20 > 0.75
