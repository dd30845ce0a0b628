"""Learning to deceive: how little it costs a classifier not to be seen to look at the words it uses.

    python examples/deceive.py --train train.txt.gz --test test.txt --words words.txt
    python examples/deceive.py --train train.txt.gz --test test.txt.gz --valid dev.txt \\
        --penalty 0.1 0.2 0.5 1 --words train.txt.block.gz test.txt.block dev.txt.block

Files have a line for each text: label, tab, text. Forbidden words are in a file as `regard train --deceive`
and `regard evaluate --words` take it (`regard.data.marks`): one word per line, or, in a file for each of the
files of texts, a line for each text with 1 for a forbidden word and 0 for another.

Three models with attention learn the same: one as it likes; the same one, trained on with −λ log(1 − αᵀm),
where m is 1 for forbidden words; one that never sees these words, which says how much they are needed. Of
several λ that one is taken which is most accurate on the texts of --valid with less than 1 % of the weight on
forbidden words; if none has, that with the least weight there.

Pruthi et al. (2020), "Learning to Deceive with Attention-Based Explanations", arXiv:1909.07913.
"""

import argparse
from collections import Counter
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

import regard
from regard.core.tokens import UNK
from regard.data import DataError
from regard.data.labelled import Named, located_texts
from regard.data.marks import mark
from regard.data.segments import split_at_spaces
from regard.models.classifiers import CLASSIFIERS

LONGEST = 100  # words of a text; the rest is cut off
HIDDEN = 0.01  # weight on forbidden words that counts as none


def read(path, words):
    """Labels, texts as lists of words, and which of these are forbidden."""
    labels, texts, forbidden = [], [], []
    for _, one in mark(located_texts(path, Named(text="2", label="1")), words):
        spans = split_at_spaces(one.text)[:LONGEST]
        labels.append(one.label)
        texts.append([one.text[a:b].lower() for a, b in spans])
        forbidden.append(one.overlaps(spans, one.marked))
    return labels, texts, forbidden


class Data:
    """Tokens (N, n), lengths (N,), classes (N,) and forbidden words (N, n)."""

    def __init__(self, labels, texts, forbidden, names, ids, hide):
        rows = [
            torch.tensor(
                [UNK if hide and no else ids.get(word, UNK) for word, no in zip(text, row, strict=True)]
            )
            for text, row in zip(texts, forbidden, strict=True)
        ]
        self.tokens = pad_sequence(rows, batch_first=True)
        self.lengths = torch.tensor([len(row) for row in rows])
        self.forbidden = pad_sequence([torch.tensor(row) for row in forbidden], batch_first=True)
        self.wanted = torch.tensor([names.index(label) for label in labels])

    def some(self, rows):
        """A batch, cut to its longest text."""
        n = int(self.lengths[rows].max())
        return self.tokens[rows, :n], self.lengths[rows], self.wanted[rows], self.forbidden[rows, :n]


def fit(model, data, penalty, steps, size, rate, seed):
    """Train a model on batches drawn at random."""
    generator, adam = torch.Generator().manual_seed(seed), torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = rate * min(1, 2 * (1 - step / steps))
        tokens, lengths, wanted, forbidden = data.some(
            torch.randint(len(data.wanted), (size,), generator=generator)
        )
        with regard.record(model, model.attention_paths["reader"], grad=True) as seen:
            loss = F.cross_entropy(model(tokens, lengths), wanted)
        if penalty:
            loss = loss - penalty * torch.log1p(-mass(model, seen, forbidden).clamp(max=1 - 1e-6)).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        adam.step()


def mass(model, seen, forbidden):
    """The weight on forbidden words: (b,)."""
    return (model.over_words(seen).mean(-2) * forbidden).sum(-1)


@torch.inference_mode()
def measured(model, data):
    """Accuracy, and mean weight on forbidden words."""
    model.eval()
    right, weight = [], []
    for rows in torch.arange(len(data.wanted)).split(256):
        tokens, lengths, wanted, forbidden = data.some(rows)
        with regard.record(model, model.attention_paths["reader"]) as seen:
            right.append(model(tokens, lengths).argmax(-1) == wanted)
        weight.append(mass(model, seen, forbidden))
    return torch.cat(right).double().mean().item(), torch.cat(weight).double().mean().item()


def main():
    """Train the three models for each seed, and print what they do."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--valid", type=Path, help="texts to choose λ by")
    parser.add_argument(
        "--words", type=Path, nargs="+", required=True, help="forbidden words, or marks of train, test, valid"
    )
    parser.add_argument("--model", default="attentive_bilstm", choices=CLASSIFIERS)
    parser.add_argument("--penalty", type=float, nargs="+", default=[1.0], help="λ")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    if len(given.penalty) > 1 and given.valid is None:
        parser.error("of several --penalty one is chosen by --valid.")
    penalties = sorted(set(given.penalty))
    files = [given.train, given.test, *([] if given.valid is None else [given.valid])]
    words = given.words * len(files) if len(given.words) == 1 else given.words
    if len(words) != len(files):
        parser.error(f"--words must be one file, or {len(files)}, as there are files of texts.")
    try:
        train, test, *valid = map(read, files, words)
    except DataError as error:
        parser.error(str(error))
    (valid,) = valid or [test]
    names = sorted(set(train[0]))
    counts = Counter(word for text in train[1] for word in text)
    ids = {word: UNK + 1 + i for i, (word, count) in enumerate(counts.most_common(20_000)) if count > 1}
    print(f"{'seed':4}  {'model':28} {'accuracy':>8} {'weight on forbidden words':>26}")
    learn, look, choose = (Data(*part, names, ids, False) for part in (train, test, valid))
    learn_hidden, look_hidden = (Data(*part, names, ids, True) for part in (train, test))

    def trained(data, seed, penalty=0.0, begin=None):
        torch.manual_seed(seed)
        model = CLASSIFIERS[given.model].make(
            vocabulary=UNK + 1 + len(ids), classes=len(names), embedding=64, dropout=0.5, word_dropout=0.0
        )
        if begin is not None:
            model.load_state_dict(begin.state_dict())
        fit(model, data, penalty, given.steps, 64, 2e-3, seed)
        return model

    for seed in range(given.seeds):
        honest, tried = trained(learn, seed), []
        show(seed, "as it likes", *measured(honest, look))
        for price in penalties:
            liar = trained(learn, seed, price, honest)
            found = measured(liar, look)
            chosen_by = found if given.valid is None else measured(liar, choose)
            if given.valid is not None:
                show(seed, f"λ = {price:g}, valid", *chosen_by)
            tried.append((rank(*chosen_by), price, found))
        _, price, found = max(tried)
        show(seed, f"deceiving, λ = {price:g}", *found)
        show(seed, "without forbidden words", *measured(trained(learn_hidden, seed), look_hidden))


def rank(accuracy, weight):
    """What is chosen by: those that hide before those that do not."""
    return (weight < HIDDEN, accuracy if weight < HIDDEN else -weight)


def show(seed, kind, accuracy, weight):
    """Print one line."""
    print(f"{seed:4}  {kind:28} {accuracy:8.4f} {weight:26.5f}", flush=True)


if __name__ == "__main__":
    main()
