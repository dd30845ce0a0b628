"""The texts and pairs of claims are what they are said to be, and comparisons are fair."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch

from regard.alignment import Links
from regard.claims.bottleneck import WIDTHS
from regard.claims.coreference_head import IDS, NOUNS
from regard.claims.coreference_head import sentences as nouns
from regard.claims.gates_by_layer import at_random
from regard.claims.languages import made, pairs
from regard.claims.one_average import WIDTH, Convolution, margin
from regard.claims.parallel import MODELS
from regard.claims.probe_codes import K, words
from regard.claims.several_hits import MOST, hits
from regard.claims.specialised_heads import FIRST, N, Tagging
from regard.claims.toy_pairs import Pairs, translator
from regard.claims.toy_texts import Texts, from_file, or_neither
from regard.claims.unseen_words import known_words
from regard.claims.unseen_words import sentences as with_names
from regard.claims.weight_and_norm import WORDS, links, numbered
from regard.claims.weight_and_norm import N as FIVE
from regard.core.tokens import UNK
from regard.data.corpora import dictionary, reverse
from regard.data.corpora.sentiment import NEGATIVE, POSITIVE, sentiment
from regard.heads import MultiHead


def test_c1_the_model_without_attention_has_no_fewer_parameters():
    sizes = Pairs(reverse).sizes
    attending, fixed = (translator(n, 0, **sizes, width=w).parameter_count() for n, w in WIDTHS.items())
    assert attending <= fixed <= 1.05 * attending


def test_c9_models_are_of_one_size():
    sizes = Pairs(reverse, longest=12).sizes
    counts = [translator(name, 0, **sizes, **more).parameter_count() for name, more in MODELS.items()]
    assert max(counts) <= 1.1 * min(counts)


def test_c22_hits_are_counted():
    (query, keys, numbers), count, mean = next(hits(0, 500))
    same = keys == query[:, None]
    assert torch.equal(same.sum(-1).float(), count) and set(count.tolist()) == set(range(MOST + 1))
    some = count > 0
    torch.testing.assert_close(mean[some], ((numbers * same).sum(-1) / count)[some])


def test_c29_languages_are_what_they_are_called():
    for source, target in islice(pairs("fertile", 0), 50):
        wanted = [3 * w + k for w in (source - FIRST).tolist() for k in range(1 + w % 3)]
        assert (target - FIRST).tolist() == wanted
    for source, target in islice(pairs("sorted", 0), 50):
        assert (target - FIRST).tolist() == [3 * w for w in sorted((source - FIRST).tolist())]
    times = [len(target) / len(source) for source, target in islice(pairs("memoryless", 0), 2000)]
    assert np.mean(times) == pytest.approx(2, abs=0.05)


def test_c29_the_first_weights_are_the_same():
    plain, biased = made(None, 3), made("markov:2", 3)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, biased.state_dict()[name]), name
    assert len(biased.state_dict()) == len(plain.state_dict()) + 1


@pytest.mark.parametrize("more", [{"length": 10}, {"length": 50, "sentences": 10}], ids=["C24, C91", "C33"])
def test_one_word_decides_or_none(more):
    texts = list(islice(or_neither(partial(sentiment, most=1, **more), 0, "train"), 600))
    for text in texts:
        feeling = [word for word in text.text.split() if word in (*POSITIVE, *NEGATIVE)]
        assert len(feeling) == sum(text.highlighted) == (text.label != "neither")
        assert all((word in POSITIVE) == (text.label == "positive") for word in feeling)
    assert sum(text.label == "neither" for text in texts) == pytest.approx(200, abs=40)


def test_c34_names_of_the_test_are_not_in_training():
    tokenizer = known_words()
    train, test = (
        {w for some in islice(with_names(0, split), 500) for w in some if tokenizer.encode(w) == [UNK]}
        for split in ("train", "test")
    )
    assert min(len(train), len(test)) > 500 and not train & test


def test_c47_all_have_as_many_parameters_and_the_convolution_has_fewer():
    one, four, convolution = (
        sum(p.numel() for p in layer.parameters())
        for layer in (MultiHead(WIDTH, 1), MultiHead(WIDTH, 4), Convolution())
    )
    assert one == four > convolution
    assert margin(0.6, 0.4) > 0.1  # control: the token of the larger weight can be read


def test_c89_the_task_asks_for_three_words():
    task = Tagging(0)
    tokens = next(task.batches(0, size=3))
    for row, said in zip(task.wanted(tokens).tolist(), (tokens - FIRST).tolist(), strict=True):
        for i, (before, after, rarest) in enumerate(row):
            assert before == (said[i - 1] if i else -1) and after == (said[i + 1] if i < N - 1 else -1)
            assert rarest == max(said)


def test_c91_the_control_keeps_as_many_words():
    kept = torch.rand(2000, 10, generator=torch.Generator().manual_seed(0)) < 0.3
    other = at_random(kept, 0)
    assert torch.equal(other.sum(-1), kept.sum(-1))
    assert other.float().mean(0).tolist() == pytest.approx([0.3] * 10, abs=0.05)


def test_c92_words_have_links_numbers_have_none_and_the_dot_is_no_link():
    plainly = dictionary(3, "train", vocabulary=WORDS, shortest=FIVE, longest=FIVE)
    for pair, plain in islice(zip(numbered(3, "train"), plainly, strict=True), 50):
        target = pair.target.split()
        assert pair.source.split() == [*plain.source.split(), "."] and target[::3] == plain.target.split()
        assert target[1::3] == ["1", "2", "3", "4", "5"] and set(target[2::3]) == {","}
        assert [(i, j // 3) for i, j in pair.alignment] == plain.alignment
    scores = torch.eye(FIVE + 1).repeat(2, 1, 1)
    scores[1, 0] = torch.tensor([0.2] * FIVE + [0.3])
    assert links(scores) == [Links.of((k, k) for k in range(FIVE)), Links.of((k, k) for k in range(1, FIVE))]


def test_c93_only_the_real_labels_are_where_a_matrix_would_put_them():
    states, real, control = words(0)
    right = []
    for labels in (real, control):
        map = torch.linalg.lstsq(states, torch.nn.functional.one_hot(labels, K).float()).solution
        right.append(((states @ map).argmax(-1) == labels).float().mean().item())
    assert right[0] > right[1] + 0.1


def test_c98_the_gender_is_that_of_the_noun_meant_and_nothing_else_tells_it():
    tokens, it, meant, other, genders = next(nouns(0, 4000))
    rows = torch.arange(4000)
    assert (tokens[rows, it] == IDS["it"]).all()
    assert {(int(a), int(g)) for a, g in zip(tokens[rows, meant], genders, strict=True)} == {
        (IDS[noun], k) for kind in NOUNS for k, noun in enumerate(kind)
    }
    for place in (other, torch.full_like(it, tokens.shape[1] - 1)):
        for word in tokens[rows, place].unique():
            some = genders[tokens[rows, place] == word]
            assert (some.bincount(minlength=4) / len(some) - 0.25).abs().max() < 0.2


def test_texts_of_a_file_are_split_and_too_few_are_refused(tmp_path):
    file = tmp_path / "texts.tsv"
    file.write_text("".join(f"good word{k}\tyes\nbad word{k}\tno\n" for k in range(30)), encoding="utf-8")
    train, test = (list(from_file(str(file))(split)) for split in ("train", "test"))
    assert (len(train), len(test)) == (48, 12) and not {t.text for t in train} & {t.text for t in test}
    file.write_text("a\tyes\nb\tno\n", encoding="utf-8")
    with pytest.raises(ValueError, match="at least 50 labelled texts; got 2"):
        from_file(str(file))


def test_a_file_whose_labels_tell_nothing_is_refused(tmp_path):
    """Label and text the wrong way round; one label; two texts a line."""
    file = tmp_path / "texts.tsv"
    for line in ("yes\tgood word{k}\n", "good word{k}\tyes\n"):
        file.write_text("".join(line.format(k=k) for k in range(60)), encoding="utf-8")
        with pytest.raises(ValueError, match="at least two labels.*text, tab, label"):
            from_file(str(file))
    lines = "".join(f"a{k}\tb\t{k % 2}\n" for k in range(60))
    file.write_text("text\tsecond\tlabel\n" + lines, encoding="utf-8")
    with pytest.raises(ValueError, match="pairs of texts"):
        Texts(from_file(str(file)))
