"""What must hold of every method on every classifier, and of every method on other models and on weights."""

import inspect

import pytest
import torch

from explanations.toys import TwoLayers, classifier, random_weights, texts
from regard.core.errors import UnknownNameError
from regard.explanations import METHODS, explain, to_words
from regard.models.classifiers import CLASSIFIERS

KINDS = [*CLASSIFIERS, "first"]
WEIGHTS = [name for name, method in METHODS.items() if method.needs == "weights"]
VALUES = [name for name, method in METHODS.items() if method.needs == "values"]
STEPS = {"integrated_gradients": 4, "diffmask": 25}
every_method = pytest.mark.parametrize("name", METHODS)


def made(kind):
    return classifier("transformer_encoder", read="first") if kind == "first" else classifier(kind)


def explained(name, model, tokens, lengths=None, **options):
    if name == "integrated_gradients":
        pytest.importorskip("captum")
    if name in STEPS:
        options = {"steps": STEPS[name], **options}
    return explain(model, tokens, lengths, method=name, **options)


@pytest.mark.parametrize("kind", KINDS)
@every_method
def test_each_text_of_a_batch_is_explained_as_if_alone(name, kind):
    model, (tokens, lengths) = made(kind), texts()
    scores = explained(name, model, tokens, lengths)
    assert scores.shape == tokens.shape and scores.dtype == torch.float64
    assert not scores.requires_grad and bool(scores.isfinite().all()) and bool(scores.any())
    for row, tokens_, n in zip(scores, tokens, lengths, strict=True):
        alone = explained(name, model, tokens_[None, :n], torch.tensor([n]))
        if kind == "hierarchical" and METHODS[name].needs == "values":
            alone *= row.sum() / alone.sum()  # a mean over the sentences of the longest text
        torch.testing.assert_close(row[:n], alone[0])
        assert not row[n:].any()


@every_method
def test_nothing_about_the_model_changes(name):
    model, (tokens, lengths) = made("attentive_mlp"), texts()
    model.dropout.eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():  # whatever the caller is in
        first = explained(name, model, tokens, lengths)
    assert torch.equal(first, explained(name, model, tokens, lengths))  # no dropout
    assert model.training and not model.dropout.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("kind", ["attentive_bilstm", "first"])
@every_method
def test_frozen_parameters_change_nothing(name, kind):
    model, (tokens, lengths) = made(kind), texts()
    scores = explained(name, model, tokens, lengths)
    torch.testing.assert_close(explained(name, model.requires_grad_(False), tokens, lengths), scores)


@every_method
def test_pairs_of_texts(name):
    model, (tokens, lengths) = classifier("attentive_bilstm", pairs=True), texts()
    seconds = [(tokens.flip(0), lengths.flip(0)), (tokens.roll(1, 0), lengths.roll(1, 0))]
    one, other = (explained(name, model, tokens, lengths, second=second) for second in seconds)
    assert not torch.allclose(one, other)
    second = (seconds[0][0][1:2], seconds[0][1][1:2])
    alone = explained(name, model, tokens[1:2], lengths[1:2], second=second)
    torch.testing.assert_close(one[1:2], alone)


@pytest.mark.parametrize("name", [*WEIGHTS, *VALUES])
def test_any_module_with_attentions_of_ours(name):
    model, (tokens, lengths) = TwoLayers(), texts()
    scores = explained(name, model, tokens, lengths, position=0)
    assert scores.shape == tokens.shape and bool(scores.any()) and not scores[1, 2:].any()
    if name in ("attention", "rollout"):
        torch.testing.assert_close(scores.sum(-1), torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("name", WEIGHTS)
def test_bare_weights_are_those_of_the_model(name):
    import regard

    model, (tokens, lengths) = TwoLayers(), texts()
    with regard.record(model) as seen:
        model(tokens, lengths)
    bare = tuple(seen[path][0].weights for path in ("first", "second"))  # (b, 2, n, n)
    for position in (None, 1, -1):
        theirs = explained(name, model, tokens, lengths, position=position)
        torch.testing.assert_close(explained(name, bare, None, lengths, position=position), theirs)


@pytest.mark.parametrize("name", WEIGHTS)
def test_half_precision_and_one_token(name):
    scores = explained(name, [random_weights(2, 3, 5, 5).bfloat16()] * 3, None)
    assert scores.dtype == torch.bfloat16 and bool(scores.isfinite().all())
    assert explained(name, [torch.ones(2, 1, 1, 1)] * 3, None).tolist() == [[1.0], [1.0]]


@every_method
def test_its_entry_says_what_it_needs_and_whether_it_has_a_sign(name):
    method, draw = METHODS[name], torch.Generator().manual_seed(0)
    tokens = torch.randint(2, 11, (2, 40), generator=draw)  # many more than the states are wide
    scores = explained(name, classifier("self_attentive", width=4), tokens)
    assert method.signed == bool((scores < 0).any())
    assert method.says.endswith(".") and len(method.says) <= 110
    options = inspect.signature(method.function).parameters
    assert ("target" in options) == (method.needs in ("gradients", "outputs"))
    assert ("position" in options) == (method.needs in ("weights", "values"))


def test_unknown_methods_are_named():
    with pytest.raises(UnknownNameError, match='no method "rolout"; did you mean rollout?'):
        explain(classifier("attentive_mlp"), *texts(), method="rolout")


def test_pieces_add_up_to_words():
    scores = torch.tensor([[1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 7.0, 0.0]])
    words = to_words(scores, [[0, 0, 1, 2], [0, 1, 1]])
    assert [row.tolist() for row in words] == [[3.0, 4.0, 8.0], [3.0, 12.0]]
    with pytest.raises(ValueError, match=r"words must be 2 lists of at most 4 numbers"):
        to_words(scores, [[0, 0, 1, 2, 3], [0]])
