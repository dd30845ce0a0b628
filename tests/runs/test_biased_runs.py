"""Runs whose model copies, has structural biases, or is trained in both directions."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.core.errors import SettingsError
from regard.core.settings import read_toml, toml
from regard.core.tokens import EOS, UNK
from regard.data import Encoded
from regard.runs import fit, load, resolve
from regard.tasks.translator import Translator
from runs.tiny import SETTINGS, changed


def settings(**model):
    few = {"held_out": 4, "vocabulary": 14}  # ten of the twenty words
    short = {"steps": 6, "validate": 6, "save": 3}
    model = {"name": "luong", "width": 16, "layers": 1, **model}
    return changed(SETTINGS, data=few, model=model, training=short)


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copying") / "run"
    fit(resolve(settings(copy="gate")), folder)
    return folder


def test_unknown_words_are_numbered_in_the_data(copying):
    encoded, size = Encoded.open(copying / "cache" / "train"), len(load(copying).source_tokenizer)
    assert size == 14
    beyond = 0
    for row in encoded:
        source, (*target, end) = row["source"].tolist(), row["target"].tolist()
        assert source == target and end == EOS  # the corpus is `copy`
        assert UNK not in source
        new = [t for t in source if t >= size]
        assert sorted(set(new)) == list(range(size, size + len(set(new))))
        beyond += len(new)
    assert beyond > 0


def test_a_word_nobody_knows_can_be_written(copying):
    system = load(copying)
    (found,) = system.translations(["ba zorro ba zorro"], best=4, beam=4)
    one = found[0]
    assert one.source_pieces == ["ba", "zorro", "ba", "zorro"]
    assert one.source_tokens[1] == one.source_tokens[3] == len(system.source_tokenizer)
    for each in found:
        assert len(each.copied) == len(each.target_tokens)
        for token, share in zip(each.target_tokens, each.copied, strict=True):
            assert 0 <= share <= 1 + 1e-6
            assert share == pytest.approx(1) or token < len(system.source_tokenizer)
        assert re.sub(r"\[\[|\]\]", "", each.marked) == each.text
        assert each.attended["attention"].weights.shape[-2:] == (len(each.target_tokens) + 1, 4)


def test_a_copied_word_that_nobody_knows_is_drawn(copying, tmp_path, monkeypatch):
    decode = Translator.decode

    def copied(self, sources, *rest):  # whatever it has learned by now, it writes the unknown word
        return [
            [replace(one, tokens=[len(self.target_tokenizer)])] for (one, *_) in decode(self, sources, *rest)
        ]

    monkeypatch.setattr(Translator, "decode", copied)
    out = tmp_path / "words.html"
    done = CliRunner().invoke(app, ["view", str(copying), "--text", "ba zorro", "--out", str(out)])
    assert done.exit_code == 0 and done.stdout.splitlines()[0] == "zorro", done.output
    assert "zorro" in out.read_text(encoding="utf-8")


def test_translate_marks_what_was_copied(copying, tmp_path):
    command = CliRunner()
    plain = command.invoke(app, ["translate", str(copying)], input="ba zorro\n\n")
    marked = command.invoke(app, ["translate", str(copying), "--copied"], input="ba zorro\n\n")
    as_json = command.invoke(app, ["translate", str(copying), "--json"], input="ba zorro\n")
    assert plain.exit_code == marked.exit_code == as_json.exit_code == 0
    assert re.sub(r"\[\[|\]\]", "", marked.output) == plain.output
    line = json.loads(as_json.output)
    assert len(line["copied"]) == len(line["target_pieces"]) - 1
    fit(resolve(settings()), tmp_path / "plain")
    refused = command.invoke(app, ["translate", str(tmp_path / "plain"), "--copied"], input="ba\n")
    assert refused.exit_code != 0
    assert "cannot copy" in refused.output + refused.stderr


def test_copying_needs_one_vocabulary():
    two = settings(copy="sentinel")
    with pytest.raises(SettingsError, match=r"data\.joint must be true"):
        resolve({**two, "data": {**two["data"], "joint": False}})
    with pytest.raises(SettingsError, match=r"model\.copy must be one of no, gate, sentinel"):
        resolve(settings(copy="all"))
    with pytest.raises(SettingsError, match="bias must be one of position"):
        resolve(settings(bias=["positon"]))


def test_two_directions_are_trained_and_saved_together(tmp_path):
    done = fit(resolve(settings(bias=["position", "trace:0.5", "global-fertility:0.1"])), tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert done.system.reverse is not None
    assert loaded.reverse.source_tokenizer is loaded.target_tokenizer
    for one, other in ((done.system, loaded), (done.system.reverse, loaded.reverse)):
        assert one.translate(["ba be bi"])[0].log_prob == other.translate(["ba be bi"])[0].log_prob
    there, back = (s.translate(["ba be bi"])[0].log_prob for s in (loaded, loaded.reverse))
    assert there != back


def test_a_run_begun_before_a_setting_was_there_goes_on(tmp_path):
    """config.toml without `bias` and `copy`, as runs had it before these were."""
    fit(resolve(settings()), tmp_path / "run")
    config = read_toml(tmp_path / "run" / "config.toml")
    assert config["model"].pop("bias") == []
    assert config["model"].pop("copy") == "no"
    (tmp_path / "run" / "config.toml").write_text(toml(config), encoding="utf-8")
    before = load(tmp_path / "run").translate(["ba be"])[0].log_prob
    fit(resolve(settings()), tmp_path / "run", resume=True)
    assert load(tmp_path / "run").translate(["ba be"])[0].log_prob == before
