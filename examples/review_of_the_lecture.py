"""The review of the lecture: very different weights, the same prediction.

    python examples/review_of_the_lecture.py --data reviews.jsonl.gz --out pair.html

The file has labelled reviews (.jsonl, .tsv or .csv, each also .gz; "text" and "label"), such as those of Pang
& Lee (2004). They are cut into pieces of 60 words with the label of the whole; every tenth review is kept for
the test. `attentive_bilstm` learns to tell the labels apart and reads the review that the lecture shows. Then
other weights are searched for, as different as possible, with which the prediction stays (TVD at most .05).
The picture has the words under both weights.

Jain & Wallace (2019), "Attention is not Explanation", arXiv:1902.10186, §4.2.2.
"""

import argparse
from collections import Counter
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from regard.audits import AUDITS, Case
from regard.core.tokens import UNK
from regard.data.labelled import labelled
from regard.models.classifiers import CLASSIFIERS
from regard.views import save, words
from regard.views.picture import check_file

REVIEW = (
    "after 15 minutes watching the movie i was asking myself what to do leave the theater sleep or try to "
    "keep watching the movie to see if there was anything worth i finally watched the movie what a waste of "
    "time maybe i am not a 5 years old kid anymore"
)
READ, PIECE = REVIEW.split(" "), 60  # words


def pieces(path):
    """Pieces (label, words) to learn from, and to test on."""
    parts = [], []
    for number, one in enumerate(labelled(path)):
        text = one.text.lower().split()
        for start in range(0, len(text), PIECE):
            parts[number % 10 == 9].append((one.label, text[start : start + PIECE]))
    return parts


def batch(some, ids, names):
    """Tokens (b, n), lengths (b,) and classes (b,)."""
    rows = [torch.tensor([ids.get(word, UNK) for word in text]) for _, text in some]
    lengths, wanted = [len(row) for row in rows], [names.index(label) for label, _ in some]
    return pad_sequence(rows, batch_first=True), torch.tensor(lengths), torch.tensor(wanted)


def fit(model, train, ids, names, steps, seed):
    """Adam, the rate falling to 0, batches of 32 pieces."""
    generator, adam = torch.Generator().manual_seed(seed), torch.optim.Adam(model.parameters())
    model.train()
    for step in range(steps):
        adam.param_groups[0]["lr"] = 3e-3 * min(1, 2 * (1 - step / steps))
        chosen = torch.randint(len(train), (32,), generator=generator).tolist()
        tokens, lengths, wanted = batch([train[i] for i in chosen], ids, names)
        adam.zero_grad()
        F.cross_entropy(model(tokens, lengths), wanted).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    model.eval()


def main():
    """Train, read the review, search for other weights, draw both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="labelled reviews")
    parser.add_argument("--out", type=Path, help="the picture: .html, .png, .svg or .pdf")
    parser.add_argument("--model", default="attentive_bilstm", choices=CLASSIFIERS)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    try:
        if given.out is not None:
            check_file(given.out)
        train, test = pieces(given.data)
    except ValueError as error:
        parser.error(str(error))
    names = sorted({label for label, _ in train})
    if len(names) < 2 or not test:
        parser.error(f"--data {given.data} must have ten reviews or more, of two labels or more.")
    counts = Counter(word for _, text in train for word in text)
    ids = {word: UNK + 1 + i for i, (word, count) in enumerate(counts.most_common(10_000)) if count > 1}
    torch.manual_seed(given.seed)
    sizes = {"vocabulary": UNK + 1 + len(ids), "classes": len(names)}
    model = CLASSIFIERS[given.model].make(**sizes, embedding=64, width=64, dropout=0.3)
    fit(model, train, ids, names, given.steps, given.seed)
    with torch.inference_mode():
        parts = [batch(test[start : start + 256], ids, names) for start in range(0, len(test), 256)]
        right = torch.cat([model(x, n).argmax(-1) == wanted for x, n, wanted in parts])
    print(f"{right.double().mean():.3f} of {len(test):,} pieces of other reviews have the right label")
    row = [ids.get(word, UNK) for word in READ]
    case = Case.from_model(model, [row], words=[READ], classes=names)
    found = AUDITS["adversary"](case, seed=given.seed).details
    pair = found["pair"]
    for name, whose in (("weights", "the model's weights"), ("other", "the most different weights")):
        top = sorted(zip(pair[name], READ, strict=True), reverse=True)[:5]
        print(f"{whose}: p({pair['class']}) = {pair['predicted'][name]:.3f};", *(word for _, word in top))
    print(f"JSD {float(found['JSD'][0]):.3f} of at most {found['largest possible']:.3f}")
    if given.out is not None:
        both = torch.tensor([pair["weights"], pair["other"]], dtype=torch.float64)
        shown = [f"p = {pair['predicted'][name]:.3f}" for name in ("weights", "other")]
        title = f"{pair['class']}, with the model's weights and with others"
        print(save(words(both, READ, shown, title=title), given.out))


if __name__ == "__main__":
    main()
