"""What the README of a run says first is what the page says it is for."""

import os

import pytest

from inspection.tiny_runs import folder_of, system_of
from regard.inspection import describe
from regard.runs.readme import PARAGRAPH, first_paragraph


def test_it_says_what_a_run_is_for_what_it_learned_from_and_how_good_it_is():
    said = describe(system_of("bilstm"))["about"]
    assert said.startswith("Sorts texts into 2 classes: ") and "generated texts, sentiment (Words in" in said
    assert "On validation texts: accuracy" in said and said in (folder_of("bilstm") / "README.md").read_text()
    assert describe(system_of("heads"))["about"].startswith("Translates sentences. Learned from")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# Title\n\n| a |\n\nFor `reviews`\nof hotels.\n\nMore.", "For reviews of hotels."),
        ("", ""),
        ("# Title\n", ""),
        ("\r\n\r\n<b>as text</b>\r\n\r\nMine\r\n\r\nnot", "Mine"),
        ("👩‍🚀" * 10_000, "👩‍🚀" * (PARAGRAPH - 1) + "…"),
    ],
)
def test_it_may_be_anybodys(tmp_path, text, found):
    (tmp_path / "README.md").write_text(text, encoding="utf-8", newline="")
    assert first_paragraph(tmp_path) == found


def test_where_there_is_none_nothing_is_read(tmp_path):
    assert first_paragraph(None) == first_paragraph(tmp_path) == ""
    os.mkfifo(tmp_path / "README.md")
    assert first_paragraph(tmp_path) == ""  # and does not wait for a writer
