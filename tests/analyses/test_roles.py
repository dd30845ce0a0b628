"""What heads do: weights made by hand, and counts by another route."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.analyses import Positional, RareWords, Sentence, Subwords, Syntactic, TokenizedText, count_roles
from regard.analyses.role import REACH
from regard.core.errors import DtypeError, ShapeError

WORDS = [[0], [1, 2], [3], [4, 5, 6]]  # tokens of each word


def tokenized(tokens=range(7), words=WORDS, sentence=None):
    parts = torch.zeros(len(words), len(list(tokens)), dtype=torch.bool)
    for word, its in enumerate(words):
        parts[word, its] = True
    return TokenizedText(list(tokens), parts, sentence)


def looks(at):
    """Weights (1, 1, n, n) of a head that looks from i to at[i] alone."""
    return torch.eye(len(at))[list(at)][None, None]


def tree(heads, deprel):
    n = len(heads)
    return Sentence(("w",) * n, "", ((0, 1),) * n, ("X",) * n, ("X",) * n, tuple(deprel), tuple(heads))


def by_what(role):
    return {finding.what: finding for finding in role.found()}


def test_a_head_that_looks_back_is_positional():
    role = Positional()
    role.see(looks([0, 0, 1, 2, 3]))
    role.see(looks([0, 0]))
    found = by_what(role)
    assert found["−1"].scores.item() == 1 and found["−1"].count == 5  # the first has none before it
    assert found["0"].scores.item() == pytest.approx(2 / 7)  # the first looks at itself, in both
    assert found["−1"].baseline == pytest.approx((4 / 5 + 1 / 2) / 5)
    assert role.plays(found["−1"]).item() and not role.plays(found["+1"]).item()


@given(at=st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=9), min_size=1, max_size=4))
def test_positional_counts_as_its_definition(at):
    at = [[j % len(row) for j in row] for row in at]
    role = Positional()
    for row in at:
        role.see(looks(row))
    found = by_what(role)
    for offset in range(-REACH, REACH + 1):
        able = [(row[i], i) for row in at for i in range(len(row)) if 0 <= i + offset < len(row)]
        what = "0" if not offset else f"{offset:+d}".replace("-", "−")
        assert (what in found) == bool(able)
        if able:
            assert found[what].count == len(able)
            assert found[what].scores.item() == pytest.approx(
                sum(j - i == offset for j, i in able) / len(able)
            )


def test_rare_words():
    counts = {0: 100, 1: 90, 2: 80, 3: 3, 4: 3, 5: 1}
    role = RareWords(counts, common=3)
    three = lambda tokens: tokenized(tokens, [[0], [1], [2]])  # noqa: E731
    role.see(looks([1, 1, 0]), three([0, 5, 3]))  # 2 of 3 look at the rarest, 5
    role.see(looks([1, 2, 0]), three([0, 3, 4]))  # two are the rarest: 2 of 3
    role.see(looks([0, 0, 0]), three([0, 1, 2]))  # nothing rare: left out
    role.see(looks([0, 0, 0]), three([9, 1, 2]))  # never seen is the rarest of all
    (found,) = role.found()
    assert found.count == 9 and found.scores.item() == pytest.approx(7 / 9)
    assert found.baseline == pytest.approx((1 + 2 + 1) / 9)
    assert role.plays(found).item()
    assert RareWords(counts, common=6).rarest([3, 5]) is None


def test_subwords_by_weight_and_best_fixed_neighbour():
    role = Subwords()
    weights = torch.zeros(1, 2, 7, 7)
    weights[0, 0] = torch.tensor([[1.0 if a // 1 in its else 0 for a in range(7)] for its in own()])
    weights[0, 0] /= weights[0, 0].sum(-1, keepdim=True)
    weights[0, 1] = 1 / 7
    role.see(weights, tokenized())
    (found,) = role.found()
    assert found.count == 5  # pieces of words of several
    assert found.scores[0].tolist() == pytest.approx([1.0, (2 * 1 + 3 * 2) / 5 / 7])
    assert found.baseline == pytest.approx(3 / 5)  # −1 is right at places 2, 5 and 6, +1 at 1, 4 and 5
    assert role.plays(found).tolist() == [[True, False]]


def own():
    """The other tokens of the word of each token, or the token itself."""
    found = [next(its for its in WORDS if token in its) for token in range(7)]
    return [[t for t in its if t != token] or [token] for token, its in enumerate(found)]


def test_syntactic_in_both_directions_against_the_best_neighbour():
    role = Syntactic(enough=1)
    one = tree([1, -1, 1, 1], ["nsubj", "root", "obj:x", "punct"])
    four = tokenized(range(4), [[0], [1], [2], [3]], one)
    role.see(looks([1, 2, 3, 0]), four)
    found = by_what(role)
    assert set(found) == {"nsubj ↑", "nsubj ↓", "obj ↑", "obj ↓"}
    assert {what: f.scores.item() for what, f in found.items()} == {
        "nsubj ↑": 1, "nsubj ↓": 0, "obj ↑": 0, "obj ↓": 1
    }  # fmt: skip
    assert all(f.baseline == 1 and f.count == 1 for f in found.values())  # always at one neighbour here
    assert not role.plays(found["nsubj ↑"]).item()
    role.see(looks([3, 3, 3, 3]), tokenized(range(4), [[0], [1], [2], [3]], tree([3, 3, 3, -1], ["det"] * 4)))
    found = by_what(role)
    assert found["det ↑"].scores.item() == 1 and found["det ↑"].baseline == pytest.approx(1 / 3)
    assert role.plays(found["det ↑"]).item()
    assert found["det ↓"].count == 1 and found["det ↓"].baseline == 1  # one looks, three are right


@given(seed=st.integers(0, 10_000))
def test_syntactic_counts_as_its_definition(seed):
    chance = torch.Generator().manual_seed(seed)
    role, hits, counts, fixed = Syntactic(enough=1), Counter(), Counter(), Counter()
    for _ in range(3):
        n = int(torch.randint(2, 7, (), generator=chance))
        heads = [int(torch.randint(n, (), generator=chance)) for _ in range(n)]
        heads = [-1 if head == k else head for k, head in enumerate(heads)]
        names = ["ab"[int(torch.randint(2, (), generator=chance))] if h >= 0 else "root" for h in heads]
        at = torch.randint(n, (n,), generator=chance).tolist()
        role.see(looks(at), tokenized(range(n), [[k] for k in range(n)], tree(heads, names)))
        for name in "ab":
            for i in range(n):
                for way, right in (
                    ("↑", {heads[i]} if names[i] == name else set()),
                    ("↓", {k for k in range(n) if heads[k] == i and names[k] == name}),
                ):
                    if right:
                        hits[name, way] += at[i] in right
                        counts[name, way] += 1
                        for offset in range(-REACH, REACH + 1):
                            fixed[name, way, offset] += i + offset in right
    found = by_what(role)
    assert set(found) == {f"{name} {way}" for name, way in counts}
    for (name, way), count in counts.items():
        one = found[f"{name} {way}"]
        assert one.count == count and one.scores.item() == pytest.approx(hits[name, way] / count)
        best = max(fixed[name, way, offset] for offset in range(-REACH, REACH + 1))
        assert one.baseline == pytest.approx(best / count)


def test_a_relation_that_is_too_rare_is_not_told_of():
    role = Syntactic()
    role.see(looks([1, 1]), tokenized(range(2), [[0], [1]], tree([1, -1], ["nsubj", "root"])))
    assert role.found() == []


def test_the_table_names_heads_and_puts_the_best_first():
    weights = torch.cat([looks([0, 0, 1, 2, 3, 4, 5]), torch.full((1, 1, 7, 7), 1 / 7)], 1)
    roles = {"positional": Positional(), "subwords": Subwords()}
    told = []
    back, even = count_roles([(weights, tokenized())] * 3, roles, told.append)
    assert told == [1, 2, 3]
    assert back.roles == ["positional"] and back.best("positional").what == "−1"
    assert (back.layer, back.head, even.head) == (0, 0, 1) and even.roles == []
    assert even.best("syntactic") is None
    shares = [score.score - score.baseline for score in back.scores["positional"]]
    assert shares == sorted(shares, reverse=True)


def test_bad_weights_are_one_sentence():
    with pytest.raises(ShapeError, match=r"weights must be \(layers, heads, n, n\); got \(3, 3\)"):
        Positional().see(torch.eye(3))
    with pytest.raises(ShapeError, match="with n=7, the tokens"):
        Subwords().see(looks([0, 0]), tokenized())
    with pytest.raises(ValueError, match="finite"):
        Positional().see(looks([0, 0]) * float("nan"))
    with pytest.raises(DtypeError, match="float"):
        Positional().see(looks([0, 0]).long())
    with pytest.raises(ValueError, match="need trees"):
        Syntactic().see(looks(range(7)), tokenized())
    with pytest.raises(ValueError, match="common must be at least 0"):
        RareWords({}, -1)
    with pytest.raises(ValueError, match="enough must be at least 1"):
        Syntactic(0)
