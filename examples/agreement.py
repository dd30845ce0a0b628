"""Which explanation of a language model's choice, "is" or "are", finds the subject?

    python examples/agreement.py hf:PATH --data agreement --nouns en_ewt-ud-train.conllu.gz --out table.md

A verb agrees with its subject, so a model that chooses the right form has used the subject's number. The
sentences are those of Linzen, Dupoux & Goldberg (2016), arXiv:1611.01368, as Gulordava et al. (2018) share
them: linzen.text, and linzen.gold with the place of the verb, its right and its wrong form, and how many
nouns of the other number (attractors) stand between subject and verb. Where the subject is, is not said: it
is taken to be the nearest noun before the verb that has the verb's number, and a sentence is used only if as
many nouns of the other number stand between as linzen.gold says, one or more. Nouns and their number are
looked up in a treebank in CoNLL-U format.

Of the sentences in which the model prefers the right form, a method has found the subject if its score is
the highest of all words before the verb (one of k words with the highest score counts 1/k). Every method gets
the same sentences, drawn by --seed. Four rules that know nothing of the model stand beside the methods: a
word at random, the last word, the last noun, the first noun. Between subject and attractors alone, the first
noun is always the subject and the last never.

Intervals are 95 %: the bootstrap over sentences, or Wilson's where all sentences are alike. The path of
integrated gradients begins with the mean vector in place of every word but the first. Every sentence gets the
same number of steps, --steps, and a line after the table says how far off the sums then are.
"""

import argparse
import gzip
import math
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch

import regard
from regard.audits.measures import bootstrap
from regard.core.files import write_text
from regard.explanations import METHODS, completeness_error, explain_texts

PLURAL = {"are", "were", "have", "do"}
SINGULAR = {"is", "was", "has", "does"}
BATCH = 25  # sentences that the model reads at once
OPTIONS = {"leave_one_out, vectors of 0": ("leave_one_out", {"by": "zero"})}
STEPS = 64  # of integrated gradients


@dataclass(frozen=True)
class Sentence:
    """The words before a verb, both forms of it, and which word is the subject."""

    words: tuple[str, ...]
    right: str
    wrong: str
    subject: int
    attractors: tuple[int, ...]
    nouns: tuple[int, ...]

    @property
    def asked(self):
        return " ".join(self.words), f" {self.right}", f" {self.wrong}"


def opened(file):
    return gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else open(file, encoding="utf-8")


def numbers(file):
    """Of each word that is mostly a noun: Sing or Plur."""
    found = defaultdict(Counter)
    with opened(file) as lines:
        for line in lines:
            part = line.rstrip("\n").split("\t")
            if len(part) == 10 and part[0].isdigit():
                noun = part[3] in ("NOUN", "PROPN")
                number = [one[7:] for one in part[5].split("|") if one.startswith("Number=")]
                found[part[1].lower()][number[0] if noun and number else "other"] += 1
    best = {word: counts.most_common(1)[0][0] for word, counts in found.items()}
    return {word: number for word, number in best.items() if number in ("Sing", "Plur")}


def sentences(folder, nouns):
    """Those whose subject is beyond doubt."""
    with opened(folder / "linzen.text") as texts, opened(folder / "linzen.gold") as gold:
        for text, line in zip(texts, gold, strict=True):
            place, right, wrong, count = line.split()
            words = text.split()[: int(place)]
            if right not in PLURAL | SINGULAR or not all(map(str.isascii, words)) or "<unk>" in words:
                continue
            wanted = "Plur" if right in PLURAL else "Sing"
            known = [i for i, word in enumerate(words) if word in nouns]
            subject = next((i for i in reversed(known) if nouns[words[i]] == wanted), None)
            if subject is None or int(count) < 1:
                continue
            attractors = tuple(i for i in known if i > subject)
            if len(attractors) == int(count):
                words[0] = words[0].capitalize()
                yield Sentence(tuple(words), right, wrong, subject, attractors, tuple(known))


def chosen(system, folder, nouns, count, seed):
    """Sentences drawn at random; those of which the model prefers the right form; how many were tried."""
    every = [
        one for one in sentences(folder, nouns) if len(system.segments(one.asked[0]).words) == len(one.words)
    ]
    random.Random(seed).shuffle(every)
    kept, tried = [], 0
    for first in range(0, len(every), BATCH):
        some = every[first : first + BATCH]
        right = system.case([one.asked for one in some]).probabilities[:, 0] > 0.5
        for one, holds in zip(some, right.tolist(), strict=True):
            tried += 1
            kept += [one] if holds else []
            if len(kept) == count:
                return kept, tried, len(every)
    return kept, tried, len(every)


def options_of(name, steps):
    """A method of METHODS and its options."""
    if name != "integrated_gradients":
        return OPTIONS.get(name, (name, {}))
    return name, {"steps": steps, "doublings": 0}


def how_far_off(explained, some, system, steps):
    """How far the scores of integrated gradients are from adding up, in a sentence."""
    case = system.case([one.asked for one in some])
    asked = case.subject(case.texts, torch.arange(len(case)))
    sums = torch.tensor([[sum(one.scores)] for one in explained], device=system.device)  # (b, 1)
    off = completeness_error(asked.model, asked.inputs, asked.lengths, second=asked.second, scores=sums)
    return (
        f"Integrated gradients: {steps} steps; their sums are off by {off.median():.1%} (median), by "
        f"{off.quantile(0.9):.1%} or less in nine of ten sentences, by more than 10 % in {(off > 0.1).sum()}."
    )


def rules(sentence):
    """Scores of the words by rules that know nothing of the model."""
    count, nouns = len(sentence.words), sentence.nouns
    return {
        "(a word at random)": [0] * count,
        "(the last word)": [i == count - 1 for i in range(count)],
        "(the last noun)": [(i in nouns) * (i + 1) for i in range(count)],
        "(the first noun)": [(i in nouns) * (count - i) for i in range(count)],
    }


def found_by(scores, sentence):
    """How far the subject is found: of all words, without the first, and of the nouns alone; each 0 to 1."""
    words = range(len(scores))
    among = [
        words,
        [i for i in words if i > 0 or sentence.subject == 0],
        [sentence.subject, *sentence.attractors],
    ]
    best = [[i for i in some if scores[i] == max(scores[k] for k in some)] for some in among]
    return [(sentence.subject in some) / len(some) for some in best]


def interval(hits):
    """The 95 % interval of the mean."""
    n, p = len(hits), sum(hits) / len(hits)
    if len(set(hits)) > 1:
        return bootstrap(torch.tensor(hits))
    z = 1.96
    middle, wide = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - wide) / (1 + z * z / n)), min(1.0, (middle + wide) / (1 + z * z / n))


def row(name, hits):
    """A row of the table: one cell for each column of hits."""
    cells = []
    for column in zip(*hits, strict=True):
        low, high = interval(column)
        cells.append(f"{sum(column) / len(column):.2f} ({low:.2f}–{high:.2f})")
    return f"| {name} | {' | '.join(cells)} |"


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("model", help="hf:PATH of a language model")
    parse.add_argument("--data", type=Path, required=True, help="a folder with linzen.text and linzen.gold")
    parse.add_argument("--nouns", type=Path, required=True, help="a treebank, CoNLL-U")
    parse.add_argument("--sentences", type=int, default=100)
    parse.add_argument("--only", nargs="*", help="methods; default: all")
    parse.add_argument("--seed", type=int, default=0)
    parse.add_argument("--steps", type=int, default=STEPS, help="of integrated gradients")
    parse.add_argument("--out", type=Path, help="a file for the table; default: it is printed")
    given = parse.parse_args()
    system = regard.load(given.model)
    some, tried, usable = chosen(system, given.data, numbers(given.nouns), given.sentences, given.seed)
    if not some:
        parse.exit(2, "no sentence in which the model prefers the right form.\n")
    n, mean = len(some), sum(len(one.words) for one in some) / len(some)
    lines = [
        f"{n} of {usable:,} usable sentences; the model prefers the right form in {n / tried:.0%}.",
        f"{mean:.1f} words before the verb on average. {system.case([one.asked for one in some]).preamble}",
        "",
        "| method | of all words | without the first word | of subject and attractors |",
        "|---|---|---|---|",
    ]
    for name in rules(some[0]):
        lines.append(row(name, [found_by(rules(one)[name], one) for one in some]))
    notes = []
    for name in given.only or [name for name in (*METHODS, *OPTIONS) if name != "diffmask"]:  # hours
        method, options = options_of(name, given.steps)
        begun = time.process_time()
        explained = explain_texts(system, [one.asked for one in some], method=method, **options)
        hits = [found_by(one.scores, sentence) for one, sentence in zip(explained, some, strict=True)]
        lines.append(row(name, hits))
        print(f"{lines[-1]}  {time.process_time() - begun:.0f} s", flush=True)
        if method == "integrated_gradients":
            notes = ["", how_far_off(explained, some, system, given.steps)]
        if given.out is not None:
            write_text(given.out, "\n".join([*lines, *notes]) + "\n")
    if given.out is None:
        print("\n".join([*lines, *notes]))


if __name__ == "__main__":
    main()
