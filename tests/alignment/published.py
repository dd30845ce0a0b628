"""The published alignments, where they are."""

import os
from pathlib import Path

import pytest

from regard.data.text import lines

ROOT = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER = ROOT / "word_alignment" / "enfr"
ROMANIAN = ROOT / "word_alignment" / "roen", ("ro", "en")
TATOEBA = ROOT / "tatoeba_en_fr" / "fra.txt.gz"
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no alignments in {FOLDER}")


def pairs(folder=FOLDER, languages=("en", "fr")):
    return list(
        zip(*((folder / f"test.{side}").read_text("utf-8").splitlines() for side in languages), strict=True)
    )


def sizes(*where):
    return [(len(one.split()), len(other.split())) for one, other in pairs(*where)]


def tatoeba():
    """142,787 short sentences and their translations, as they are."""
    return [tuple(line.split("\t")[:2]) for line in lines(TATOEBA)]
