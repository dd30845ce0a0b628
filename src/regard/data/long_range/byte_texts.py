"""Bytes: texts are classified by their bytes, the first 512 of each.

Generated texts are hotel reviews (`data/corpora/hotels.py`), several in a row, of which the first decides: a
model must find words in bytes and know where it is. A file has labelled texts, as `regard train
classification` takes them (.csv, .tsv, .jsonl, plain or .gz), or the trees of SST (.trees), whose middle
class is left out.

Tay et al. (2020), "Long Range Arena", arXiv:2011.04006, §2.2.2 (there IMDb).
"""

import re
from pathlib import Path
from random import Random

from regard.data.corpora.hotels import hotels
from regard.data.labelled import labelled
from regard.data.long_range.long_task import FIRST, LongExample, LongTask
from regard.data.text_lines import located_lines

LONGEST = 512


def tokens_of(text: str, longest: int = LONGEST) -> list[int]:
    """The first bytes of a text as tokens."""
    return [FIRST + byte for byte in text.encode()[:longest]] or [FIRST + ord(" ")]


def generate(random: Random) -> LongExample:
    """A review, and others behind it that do not count."""
    reviews = hotels(random.randrange(1 << 30))
    first = next(reviews)
    text = " ".join([first.text, *(next(reviews).text for _ in range(random.randrange(3)))])
    return LongExample(tokens_of(text), int(first.label == "positive"))


def read(file: Path) -> list[LongExample]:
    """Labelled texts of a file; classes in the order of their names."""
    if ".trees" in file.suffixes:
        return _trees(file)
    texts = list(labelled(file))
    classes = sorted({one.label for one in texts})
    if len(classes) != 2:
        raise ValueError(f"{file}: the task bytes has two classes; got {len(classes)}.")
    return [LongExample(tokens_of(one.text), classes.index(one.label)) for one in texts]


def _trees(file: Path) -> list[LongExample]:
    found = []
    for _, line in located_lines(file):
        label = int(line[1])
        if label != 2:
            found.append(LongExample(tokens_of(" ".join(re.findall(r" ([^ ()]+)\)", line))), int(label > 2)))
    return found


byte_texts = LongTask(
    "bytes", "The sentiment of a text, read byte by byte.", FIRST + 256, 2, generate, read, chance=0.5
)
