"""Retrieval: are two texts, read byte by byte, about the same thing?

Each generated text is of one of many topics: a topic has words of its own among words that all share. Two
texts of one topic are a pair, of two topics none. A file has labelled pairs of texts, as `regard train
classification` takes them (columns text, second, label).

Tay et al. (2020), "Long Range Arena", arXiv:2011.04006, §2.2.3 (there citations of papers).
"""

from pathlib import Path
from random import Random

from regard.data.labelled import labelled
from regard.data.long_range.byte_texts import tokens_of
from regard.data.long_range.long_task import FIRST, LongExample, LongTask

LONGEST, TOPICS, OWN, SHARED = 256, 200, 6, 300


def _word(random: Random) -> str:
    return "".join(
        random.choice("bcdfglmnprst") + random.choice("aeiou") for _ in range(random.randint(2, 3))
    )


_known = Random("words of topics")
SHARED_WORDS = [_word(_known) for _ in range(SHARED)]
TOPIC_WORDS = [[_word(_known) for _ in range(OWN)] for _ in range(TOPICS)]


def _text(random: Random, topic: int) -> str:
    words = random.choices(SHARED_WORDS, k=random.randint(14, 24))
    for word in random.sample(TOPIC_WORDS[topic], 4):
        words.insert(random.randrange(len(words) + 1), word)
    return " ".join(words)


def generate(random: Random) -> LongExample:
    """Two texts of one topic, or of two."""
    one, label = random.randrange(TOPICS), random.randrange(2)
    other = one if label else (one + random.randrange(1, TOPICS)) % TOPICS
    first, second = (tokens_of(_text(random, topic), LONGEST) for topic in (one, other))
    return LongExample(first, label, second)


def read(file: Path) -> list[LongExample]:
    """Labelled pairs of a file; classes in the order of their names."""
    texts = list(labelled(file))
    classes = sorted({one.label for one in texts})
    if len(classes) != 2 or any(one.second is None for one in texts):
        raise ValueError(
            f"{file}: the task retrieval wants pairs of texts (a column second) and two classes."
        )
    return [
        LongExample(
            tokens_of(one.text, LONGEST), classes.index(one.label), tokens_of(one.second or "", LONGEST)
        )
        for one in texts
    ]


retrieval = LongTask(
    "retrieval", "Whether two texts are of one topic.", FIRST + 256, 2, generate, read, chance=0.5, pairs=True
)
