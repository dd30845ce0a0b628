"""Settings of language models that are not given suit the model, the tokens and the text."""

import gzip

import pytest

from regard.runs import resolve
from regard.tasks.language_defaults import EPOCHS, LEAST


def resolved(file, **more):
    return resolve({"task": "language", "data": {"train": str(file), **more.pop("data", {})}, **more})


@pytest.fixture
def text(tmp_path):
    def make(characters, name="t.txt"):
        opened = gzip.open if name.endswith("gz") else open
        with opened(tmp_path / name, "wb") as file:
            file.write(b"word " * (characters // 5))
        return tmp_path / name

    return make


def test_a_short_text_is_read_so_often_and_no_more(text):
    long, short, tiny = (resolved(text(size, f"{size}.txt")) for size in (1_200_000, 50_000, 400))
    assert long.training.steps * long.training.tokens < 8e6  # minutes
    assert short.training.steps * short.training.tokens <= EPOCHS["character"] * 50_000
    assert tiny.training.steps == LEAST and 16 <= tiny.training.segment <= 400 // 8
    assert short.model["dropout"] > long.model["dropout"]
    assert resolved(text(50_000), training={"steps": 7}).training.steps == 7
    assert resolved(text(50_000), model={"dropout": 0.0}).model["dropout"] == 0


def test_words_have_more_dropout_and_tied_embeddings(text):
    words = resolved(text(1_000_000), data={"tokens": "word"})
    assert words.model["dropout"] >= 0.3 and words.model["tied"] and words.data.vocabulary == 50_000
    assert not resolved(text(1_000_000)).model["tied"]


def test_a_packed_text_is_as_long_as_its_content(text):
    packed, plain = resolved(text(80_000, "t.txt.gz")), resolved(text(80_000))
    assert packed.training.steps == plain.training.steps


def test_what_suits_a_model_is_below_what_is_given(text):
    file = text(1_200_000)
    assert resolved(file).training.optimiser == "muon"
    assert resolved(file, model={"name": "recurrent"}).training.optimiser == "adamw"
    assert resolved(file, training={"optimiser": "adamw", "tokens": 64}).training.segment == 64
    again = resolve(
        {**vars(resolved(file)), "data": vars(resolved(file).data), "training": vars(resolved(file).training)}
    )
    assert again.training == resolved(file).training
