"""What is true of every model: a step is a step of the whole, padding and the future change nothing."""

import pytest
import torch

import regard
from regard import MAPS, SCORES
from regard.models import TRANSLATORS
from regard.models.parts.named_components import map_names
from regard.testing import check_causal, check_padding

VARIANTS = {
    "rnn": ("rnn", {}),
    "rnn, two layers": ("rnn", {"layers": 2}),
    "bahdanau": ("bahdanau", {}),
    "bahdanau, two layers": ("bahdanau", {"layers": 2}),
    "luong": ("luong", {}),
    "luong without feeding": ("luong", {"input_feeding": False}),
    "luong, local-m": ("luong", {"attention": "local-m", "window": 2}),
    "luong, local-m without feeding": (
        "luong",
        {"attention": "local-m", "window": 1, "input_feeding": False},
    ),
    "luong, local-p": ("luong", {"attention": "local-p", "window": 2, "score": "additive"}),
    "bahdanau, biases": ("bahdanau", {"bias": ("position", "markov:2", "fertility:1")}),
    "bahdanau, biases outside": ("bahdanau", {"bias": ("position", "markov", "fertility:0"), "score": "dot"}),
    "luong, biases": ("luong", {"bias": ("position", "markov:1", "fertility:2"), "input_feeding": False}),
    "luong, local-p, biases": (
        "luong",
        {"attention": "local-p", "window": 2, "bias": ("position", "markov")},
    ),
    "transformer, position bias": ("transformer", {"bias": ("position",)}),
    "transformer, position bias inside": ("transformer", {"bias": ("position",), "score": "additive"}),
    "transformer": ("transformer", {}),
    "transformer, post-norm": ("transformer", {"norm": "post", "activation": "gelu"}),
    "transformer, learned": ("transformer", {"positions": "learned", "longest": 12, "tied": "no"}),
    "lstmn_fusion": ("lstmn_fusion", {}),
    "lstmn_fusion, shallow": ("lstmn_fusion", {"fusion": "shallow"}),
    "transformer, relative": ("transformer", {"positions": "relative", "reach": 2, "tied": "all"}),
}
SMALL = {"source_vocabulary": 11, "target_vocabulary": 11, "width": 8}
HEADS = {"transformer": {"heads": 2, "inner": 16, "layers": 2}}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
attending = pytest.mark.parametrize("name", [name for name in TRANSLATORS if name != "rnn"])
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 4, 0, 0], [5, 5, 7, 9, 0]])
LENGTHS = torch.tensor([5, 3, 4])
TARGET = torch.tensor([[1, 5, 6, 7, 8, 9, 4], [1, 10, 4, 7, 0, 0, 0], [1, 7, 7, 5, 10, 6, 0]])


def make(name, **settings):
    torch.manual_seed(0)
    return TRANSLATORS[name].make(**{**SMALL, **HEADS.get(name, {}), **settings}).double().eval()


def variant_of(variant):
    name, settings = VARIANTS[variant]
    return make(name, **settings)


def stepped(model, memory, target, k=1):
    """Hidden (b·k, m, width), one token at a time."""
    state = model.start(memory)
    if k > 1:
        state = state.select(torch.arange(len(target) // k).repeat_interleave(k))
    parts = []
    for tokens in target.unbind(1):
        hidden, state = model.step(tokens, state, memory)
        parts.append(hidden)
    return torch.stack(parts, 1)


@every_variant
@pytest.mark.parametrize("grad", [False, True])
def test_steps_equal_the_whole(variant, grad):
    model = variant_of(variant)
    with torch.set_grad_enabled(grad):
        whole = model(SOURCE, LENGTHS, TARGET)
        steps = stepped(model, model.encode(SOURCE, LENGTHS), TARGET)
    assert whole.shape == (3, 7, 8)
    assert model.logits(whole).shape == (3, 7, 11)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-12)
    if grad:
        for mine, theirs in zip(gradients(model, steps), gradients(model, whole), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def gradients(model, hidden):
    (found,) = (torch.autograd.grad(model.logits(hidden).square().sum(), list(model.parameters())),)
    return found


@every_variant
def test_every_parameter_has_a_gradient(variant):
    model = variant_of(variant)
    model.logits(model(SOURCE, LENGTHS, TARGET)).square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def check_reads_no_padding(model):
    check_padding(
        lambda source, lengths: model(source, lengths, TARGET).flatten(1),
        SOURCE,
        LENGTHS,
        vocabulary=11,
        atol=1e-12,
    )


@every_variant
def test_padding_changes_nothing(variant):
    model = variant_of(variant)
    check_reads_no_padding(model)


@every_variant
def test_no_position_sees_the_future(variant):
    model = variant_of(variant)
    check_causal(lambda t: model(SOURCE, LENGTHS, t), TARGET, vocabulary=11, atol=1e-12)


@every_variant
def test_a_sentence_is_read_alike_alone_and_in_a_batch(variant):
    model = variant_of(variant)
    together = model(SOURCE, LENGTHS, TARGET)
    alone = model(SOURCE[1:2, :3], LENGTHS[1:2], TARGET[1:2])
    torch.testing.assert_close(alone, together[1:2], rtol=0, atol=1e-12)


@every_variant
def test_a_beam_reorders_and_the_memory_need_not_be_repeated(variant):
    model = variant_of(variant)
    with torch.inference_mode():
        memory, k = model.encode(SOURCE, LENGTHS), 2
        rows = torch.arange(3).repeat_interleave(k)
        repeated = memory.select(rows)
        state = other = model.start(memory).select(rows)
        written = torch.ones(6, 0, dtype=torch.long)
        orders = torch.tensor([[1, 0, 2, 2, 5, 4], [0, 0, 3, 2, 4, 5], [1, 1, 2, 3, 5, 5]])
        for i in range(7):
            tokens = torch.arange(6) % 4 + 4 + i % 3
            written = torch.cat([written, tokens.unsqueeze(1)], 1)
            hidden, state = model.step(tokens, state, memory)
            same, other = model.step(tokens, other, repeated)
            torch.testing.assert_close(same, hidden, rtol=0, atol=1e-12)
            whole = model(SOURCE[rows], LENGTHS[rows], written)
            torch.testing.assert_close(hidden, whole[:, -1], rtol=0, atol=1e-12)
            order = orders[i % 3]
            written, state, other = written[order], state.select(order), other.select(order)
        fewer, memory = (
            torch.tensor([0, 1, 4, 5]),
            memory.select(torch.tensor([0, 2])),
        )  # one sentence is done
        tokens = torch.tensor([4, 5, 6, 7])
        hidden, _ = model.step(tokens, state.select(fewer), memory)
        whole = model(
            SOURCE[rows[fewer]], LENGTHS[rows[fewer]], torch.cat([written[fewer], tokens.unsqueeze(1)], 1)
        )
        torch.testing.assert_close(hidden, whole[:, -1], rtol=0, atol=1e-12)


@every_variant
def test_a_state_can_go_two_ways(variant):
    model = variant_of(variant)
    with torch.no_grad():
        memory = model.encode(SOURCE, LENGTHS)
        state = model.start(memory)
        for i in range(3):
            _, state = model.step(TARGET[:, i], state, memory)
        one, ahead = model.step(TARGET[:, 3], state, memory)
        other, _ = model.step(torch.full((3,), 9), state, memory)
        again, _ = model.step(TARGET[:, 3], state, memory)
        assert torch.equal(one, again) and not torch.equal(one, other)
        further, _ = model.step(TARGET[:, 4], ahead, memory)
    torch.testing.assert_close(further, model(SOURCE, LENGTHS, TARGET)[:, 4], rtol=0, atol=1e-12)


@every_variant
def test_attentions_are_where_the_model_says(variant):
    model = variant_of(variant)
    known = list(regard.attentions(model).values()) if model.attention_paths.get("cross", []) else []
    assert all(path in known for path in model.attention_paths.get("cross", []))
    if not model.attention_paths.get("cross", []):
        return
    hidden = model(SOURCE, LENGTHS, TARGET)
    with regard.record(model, model.attention_paths.get("cross", [])) as whole:
        assert torch.equal(model(SOURCE, LENGTHS, TARGET), hidden)  # looking changes nothing
    with regard.record(model, model.attention_paths.get("cross", [])) as steps, torch.no_grad():
        stepped(model, model.encode(SOURCE, LENGTHS), TARGET)
    for path in model.attention_paths.get("cross", []):
        weights = torch.cat([seen.weights for seen in whole[path]], -2)
        one_by_one = torch.cat([seen.weights for seen in steps[path]], -2)
        assert weights.shape[-2:] == (7, 5)
        torch.testing.assert_close(one_by_one, weights, rtol=0, atol=1e-12)
        assert not weights[1, ..., 3:].any()
    with regard.intervene(model, lambda p: torch.zeros_like(p), model.attention_paths.get("cross", [])):
        assert not torch.allclose(model(SOURCE, LENGTHS, TARGET), hidden)


@attending
@pytest.mark.parametrize("score", SCORES)
def test_every_score_by_name(name, score):
    model = make(name, score=score)
    whole = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(
        stepped(model, model.encode(SOURCE, LENGTHS), TARGET), whole, rtol=0, atol=1e-12
    )
    check_reads_no_padding(model)
    model.logits(whole).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@attending
@pytest.mark.parametrize("map", map_names())
def test_every_map_by_name(name, map):
    model = make(name, map=map)
    whole = model(SOURCE, LENGTHS, TARGET)
    steps = stepped(model, model.encode(SOURCE, LENGTHS), TARGET)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-9)
    longer = torch.cat([SOURCE, torch.full((3, 4), 7)], 1)
    torch.testing.assert_close(model(longer, LENGTHS, TARGET), whole, rtol=0, atol=1e-9)
    model.train()
    model.logits(model(SOURCE, LENGTHS, TARGET)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@attending
def test_alpha_is_learned_for_each_head(name):
    model = make(name, map="entmax", learn_alpha=True)
    model.logits(model(SOURCE, LENGTHS, TARGET)).square().sum().backward()
    alphas = {path: p for path, p in model.named_parameters() if path.endswith("map.a")}
    attentions = regard.attentions(model)
    assert len(alphas) == len(attentions) == {"transformer": 6, "lstmn_fusion": 3}.get(name, 1)
    assert all(a.numel() == (2 if name == "transformer" else 1) and a.grad.any() for a in alphas.values())
    assert all(torch.equal(1 + a.sigmoid(), torch.full_like(a, 1.5)) for a in alphas.values())


@attending
def test_wrong_names_are_named(name):
    with pytest.raises(KeyError, match='no map "sparsmax"; did you mean sparsemax'):
        make(name, map="sparsmax")
    with pytest.raises(KeyError, match='no score "additiv"; did you mean additive'):
        make(name, score="additiv")
    with pytest.raises(ValueError, match='map "argmax" has no gradient.*Choose from .*entmax15'):
        make(name, map="argmax")
    with pytest.raises(ValueError, match='map "sinkhorn" acts on the whole matrix.*Choose from'):
        make(name, map="sinkhorn")
    with pytest.raises(ValueError, match='learn_alpha is for map "entmax"; got map "softmax"'):
        make(name, learn_alpha=True)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_wrong_settings_and_inputs_are_named(name):
    with pytest.raises(ValueError, match="dropout must be at least 0 and less than 1; got 1.5"):
        make(name, dropout=1.5)
    model = make(name)
    with pytest.raises(ValueError, match=r"source must be tokens \(b, n\).*got \(3, 5\) and \(2,\)"):
        model.encode(SOURCE, LENGTHS[:2])
    if name not in ("transformer", "lstmn_fusion"):  # which read empty sentences too
        with pytest.raises(ValueError, match="lengths must be from 1 to n=5.*got 0 to 5"):
            model.encode(SOURCE, torch.tensor([5, 0, 4]))
        with pytest.raises(ValueError, match="initial must be 'glorot' or 'paper'; got 'zeros'"):
            make(name, initial="zeros")
    if name != "rnn":
        memory = model.encode(SOURCE, LENGTHS)
        state = model.start(memory).select(torch.tensor([0, 1, 2, 0]))
        with pytest.raises(ValueError, match="of the 3 sentences .* same number of hypotheses.*got 4"):
            model.step(torch.ones(4, dtype=torch.long), state, memory)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_table_knows_them(name):
    entry = TRANSLATORS[name]
    assert entry.name == name and entry.says.endswith(".")
    model = make(name)
    assert isinstance(model, entry.kind) and model.config == entry.config(**SMALL, **HEADS.get(name, {}))
    own = {id(p): p.numel() for p in model.parameters()}
    assert model.parameter_count() == sum(own.values())
    kept = {t.data_ptr() for t in model.state_dict().values()}
    assert len(kept) == len(model.state_dict())  # nothing is saved twice, which safetensors would refuse
    with pytest.raises(KeyError, match='no model "transfomer"; did you mean transformer'):
        TRANSLATORS["transfomer"]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_dropout_while_training_alone(name):
    model = make(name, dropout=0.5)
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))
    model.train()
    assert not torch.equal(model(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_half_precision_is_near(name):
    model = make(name)
    exact = model(SOURCE, LENGTHS, TARGET)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = model.float()(SOURCE, LENGTHS, TARGET)
    assert (near.double() - exact).abs().max() < 0.1 * exact.abs().max()


def test_maps_that_can_be_chosen_are_those_the_table_says():
    assert {"softmax", "sparsemax", "entmax", "entmax15", "fusedmax", "sigmoid"} <= set(map_names())
    assert all(MAPS[name].acts_on == "row" and MAPS[name].differentiable for name in map_names())
