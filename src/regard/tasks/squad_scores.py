"""Exact match and F1 of answers, as SQuAD's script counts them.

Both texts in lower case, without punctuation, without "a", "an" and "the", white space as one space. F1 is
that of the words as bags. Of several right answers the best counts. Figures are per cent, as in that script.

Rajpurkar et al. (2016), arXiv:1606.05250, §6.1.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
MARKS = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """The text as it is compared."""
    text, end, kept = text.lower().translate(MARKS), 0, []
    for article in ARTICLES.finditer(text):
        kept.append(text[end : article.start()])
        end = article.end()
    return " ".join(" ".join([*kept, text[end:]]).split())


def exact_match(said: str, right: Sequence[str]) -> float:
    """1 if the answer is one of the right ones, else 0."""
    return float(normalized(said) in {normalized(one) for one in right})


def f1(said: str, right: Sequence[str]) -> float:
    """The best F1 of the answer with one of the right ones, from 0 to 1."""
    return max((_f1(normalized(said).split(), normalized(one).split()) for one in right), default=0.0)


def _f1(said: list[str], right: list[str]) -> float:
    if not said or not right:
        return float(said == right)
    same = sum((Counter(said) & Counter(right)).values())
    return 2 * same / (len(said) + len(right))
