"""The Hansards alignments, where they are."""

import os
from pathlib import Path

import pytest

from regard.data.text import lines

ROOT = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER = ROOT / "word_alignment" / "enfr"
TATOEBA = ROOT / "tatoeba_en_fr" / "fra.txt.gz"
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no alignments in {FOLDER}")


def pairs():
    return list(
        zip(
            *((FOLDER / f"test.{side}").read_text("utf-8").splitlines() for side in ("en", "fr")), strict=True
        )
    )


def sizes():
    return [(len(one.split()), len(other.split())) for one, other in pairs()]


def tatoeba():
    """142,787 short sentences and their translations, as they are."""
    return [tuple(line.split("\t")[:2]) for line in lines(TATOEBA)]
