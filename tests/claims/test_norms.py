"""C92: weight is not contribution: a token that says nothing gets much weight and adds little.

Sources are five words of `dictionary` and a dot, which is always there and says nothing. In the target each
word is followed by its number and a comma. So the target so far decides these, and the end, and nothing in
the source is needed there; but a Transformer (one layer of four heads, and a decay of weights, so that what
nobody needs becomes small) must look somewhere. Its attention to the source is measured by the weights α, the
mean of the heads, and by ‖Σ αf(x)‖, the sum over heads. Said to hold if

  the dot has the largest α in half of the rows or more;
  by norm it is in the bottom half: half of the words of its source or more add more, in the mean over rows;
  links by the largest norm of each row have no greater AER than links by the largest α, where the dot is no
  link, and numbers and commas have none in the gold alignment.

With seed 100 the dot had the largest α in .18 of the rows; with particles that the word decides in the place
of numbers in .24, with two more words of the same language in .06. FOUND says what came out.

Beside it: AER by rows of words alone, and norms in the rows alone in which the dot has the largest α.
What is of one row, worked by hand: tests/explanations/test_null_space.py.

Kobayashi et al. (2020), "Attention is Not Only a Weight", arXiv:2004.10102.
"""

from itertools import islice

import pytest
import torch

from claims.experiment import Pairs, accuracy, held, inputs, over_seeds, report, train, translation_loss
from regard import record
from regard.alignment import Links, score
from regard.data.corpora import dictionary
from regard.data.corpora.phrase import Pair
from regard.explanations.norms import contributions
from regard.models import TRANSLATORS

N, WORDS, TEST = 5, 10, 200
DECAY = 1e-4
SIZES = {"width": 32, "inner": 64, "heads": 4, "layers": 1, "dropout": 0.0, "tied": "no"}
FOUND = {"weight": False, "norm": False, "AER": True}


def numbered(seed, split):
    """Pairs of a dictionary, a dot after the source, a number and a comma after each word of the target."""
    for pair in dictionary(seed, split, vocabulary=WORDS, shortest=N, longest=N):
        target = [part for k, word in enumerate(pair.target.split(), 1) for part in (word, str(k), ",")]
        yield Pair(f"{pair.source} .", " ".join(target), [(i, 3 * j) for i, j in pair.alignment])


def loss(model, batch):
    decay = DECAY * sum(p.square().sum() for p in model.parameters())
    return translation_loss(model, batch) + decay


def made(pairs, seed):
    torch.manual_seed(seed)
    return TRANSLATORS["transformer"].make(**pairs.sizes, **SIZES)


@torch.no_grad()
def added(model, batch):
    """Weights (b, h, m, n) of the only attention to the source, f(x) (b, h, n, d), and the context."""
    (path,) = model.attention_paths["cross"]
    with record(model.eval(), path) as seen:
        model(*inputs(batch))
    (one,), W = seen[path], model.get_submodule(path).W_o.weight
    f = torch.einsum("bhne,dhe->bhnd", one.values, W.unflatten(-1, (SIZES["heads"], -1)))
    return one.weights, f, one.context


def links(scores):
    """The largest of each row of scores (b, m, n + 1), of which the last column is the dot, and no link."""
    best = scores[:, :-1].argmax(-1)  # without the row of the end
    return [Links.of((i, j) for j, i in enumerate(row) if i < N) for row in best.tolist()]


def measure(seed, steps=300):
    pairs = Pairs(numbered)
    model = made(pairs, seed)
    train(model, pairs.train(seed), steps, 1e-2, loss=loss)
    test = list(islice(pairs.stream(0, "test"), TEST))
    batch, gold = pairs.batch(test), [Links.of(pair.alignment) for pair in test]
    weights, f, _ = added(model, batch)
    alpha, norms = weights.mean(1), contributions(weights, f)  # (b, m, n + 1)
    top = alpha.argmax(-1) == N
    whole, more = norms.mean(1), (norms[..., :N] > norms[..., N:]).double().mean(-1)
    found = {
        "accuracy": accuracy(model, batch),
        "dot has the largest α": top.double().mean().item(),
        "weight of the dot": alpha[..., N].mean().item(),
        "words that add more": (whole[:, :N] > whole[:, N:]).double().mean().item(),
        "words that add more, rows of the dot": more[top].mean().item() if top.any() else 0.0,
        "dot has the largest norm": (norms.argmax(-1) == N).double().mean().item(),
    }
    for name, scores in (("α", alpha), ("norm", norms)):
        found[f"AER by {name}"] = score(links(scores), gold).aer
        found[f"AER of words by {name}"] = score(links(scores), gold, aligned_words=True).aer
    return found


def test_c92_words_have_links_and_numbers_have_none():
    plainly = dictionary(3, "train", vocabulary=WORDS, shortest=N, longest=N)
    for pair, plain in islice(zip(numbered(3, "train"), plainly, strict=True), 50):
        source, target = pair.source.split(), pair.target.split()
        assert source == [*plain.source.split(), "."] and target[::3] == plain.target.split()
        assert target[1::3] == ["1", "2", "3", "4", "5"] and set(target[2::3]) == {","}
        assert [(i, j // 3) for i, j in pair.alignment] == plain.alignment
        assert all(j % 3 == 0 and i < N for i, j in pair.alignment)


def test_c92_what_tokens_add_is_the_context():
    pairs = Pairs(numbered)
    model = made(pairs, 0)
    weights, f, context = added(model, pairs.batch(list(islice(numbered(0, "test"), 3))))
    bias = model.get_submodule(model.attention_paths["cross"][0]).W_o.bias.detach()
    torch.testing.assert_close(torch.einsum("bhmn,bhnd->bmd", weights, f) + bias, context)
    parts = torch.einsum("bhmn,bhnd->bmnd", weights, f)
    torch.testing.assert_close(contributions(weights, f), parts.norm(dim=-1), rtol=1e-3, atol=1e-4)


def test_c92_the_dot_is_no_link():
    scores = torch.eye(N + 1).repeat(2, 1, 1)
    scores[1, 0] = torch.tensor([0.2] * N + [0.3])
    assert links(scores) == [Links.of((k, k) for k in range(N)), Links.of((k, k) for k in range(1, N))]


@pytest.mark.slow
def test_c92_a_token_that_says_nothing_has_weight_and_adds_little():
    found = over_seeds(measure)
    report("C92", found)
    assert held(found["accuracy"], 0.98)
    assert held(found["dot has the largest α"], 0.5) == FOUND["weight"]
    assert held(found["words that add more"], 0.5) == FOUND["norm"]
    assert held(found["AER by α"] - found["AER by norm"], 0.0) == FOUND["AER"]
