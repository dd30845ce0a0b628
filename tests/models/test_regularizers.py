"""Regularizers: each adds to the loss what its formula says; runs keep them, resume them, or refuse."""

import math

import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

from regard import record
from regard.cli import app
from regard.core.errors import SettingsError
from regard.core.weights import load_tensors, put_tensors, save_tensors, tensors_of
from regard.models.classifiers import CLASSIFIERS
from regard.models.classifiers.orthogonal_lstm import OrthogonalLSTM, orthogonal_states
from regard.models.classifiers.regularizers import REGULARIZERS, RegularizerInput
from regard.models.classifiers.regularizers.deceive import forbidden_penalty
from regard.models.classifiers.regularizers.diversity import conicity
from regard.models.classifiers.regularizers.tie import tie_distance
from regard.runs import fit, load, resolve
from regard.runs.folder import read_config
from regard.training import Interrupted

TOKENS = torch.tensor([[6, 7, 4, 8, 5, 4, 9, 10], [9, 10, 7, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([8, 3, 1])
WANTED = torch.tensor([0, 1, 1])
SIZES = {"vocabulary": 11, "classes": 2, "embedding": 8, "width": 8, "dropout": 0.0, "word_dropout": 0.0}
SETTINGS = {
    "task": "classification",
    "seed": 3,
    "data": {"corpus": "sentiment", "texts": 300, "held_out": 60},
    "model": {"name": "attentive_bilstm", "embedding": 16, "width": 16},
    "training": {"steps": 12, "tokens": 600, "warmup": 3, "rate": 0.02, "validate": 6, "save": 2},
}


def make(name="attentive_bilstm", **settings):
    torch.manual_seed(0)
    return CLASSIFIERS[name].make(**{**SIZES, **settings}).eval()


def read_by(model):
    vectors = model.embed(TOKENS)
    with record(model, model.attention_paths["reader"], grad=True) as seen:
        _, states = model.with_states(vectors, LENGTHS, None)
    return RegularizerInput(TOKENS, LENGTHS, vectors, states, model.over_words(seen), model)


def rows(x):
    """The real vectors of each text, as lists of numbers."""
    return [row[:n].tolist() for row, n in zip(x, LENGTHS.tolist(), strict=True)]


def test_tying_is_the_mean_squared_distance_and_is_added():
    read = read_by(make())
    expected = [
        sum(sum((a - b) ** 2 for a, b in zip(h, e, strict=True)) for h, e in zip(*text, strict=True))
        / len(text[0])
        for text in zip(rows(read.states), rows(read.vectors), strict=True)
    ]
    assert tie_distance(read.states, read.vectors, LENGTHS).tolist() == pytest.approx(expected, rel=1e-5)
    model = make()
    before = tie_distance(read.states, read.vectors, LENGTHS).sum().item()
    model.add_regularizers({"tie": 1.0})
    model.loss(WANTED, TOKENS, LENGTHS).backward()
    with torch.no_grad():  # a small step against the gradient brings states nearer to their words
        for p in model.parameters():
            p -= 0.01 * p.grad
    after = read_by(model)
    assert tie_distance(after.states, after.vectors, LENGTHS).sum().item() < before


def test_conicity_is_the_mean_cosine_with_the_mean():
    read = read_by(make())
    for text, found in zip(rows(read.states), conicity(read.states, LENGTHS).tolist(), strict=True):
        mean = [sum(column) / len(text) for column in zip(*text, strict=True)]
        cosines = [
            sum(a * b for a, b in zip(h, mean, strict=True)) / math.hypot(*h) / math.hypot(*mean)
            for h in text
        ]
        assert found == pytest.approx(sum(cosines) / len(cosines), abs=1e-5)
    assert conicity(torch.eye(4).unsqueeze(0), torch.tensor([4])).item() == pytest.approx(0.5)  # 1/√4
    assert conicity(torch.ones(1, 4, 3), torch.tensor([4])).item() == pytest.approx(1)


def test_deception_punishes_the_weight_on_forbidden_words():
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    forbidden = torch.tensor([[True, False, False], [False, False, True], [True, False, False]])
    found = forbidden_penalty(weights, forbidden, torch.tensor([3, 2, 1]))
    assert found.tolist() == pytest.approx([math.log(2), 0, 0], abs=1e-6)  # the last has nothing else


def test_deception_where_all_weight_is_forbidden_still_has_a_slope():
    theta = torch.tensor([[60.0, -60.0]], requires_grad=True)  # 1 − αᵀm is 0 in float32, as 1 − 1
    forbidden_penalty(theta.softmax(-1), torch.tensor([[True, False]]), torch.tensor([2])).sum().backward()
    assert theta.grad.isfinite().all()


def test_deception_of_heads_is_by_their_mean_or_by_the_one_that_looks_most():
    heads = torch.tensor([[[0.5, 0.5], [0.1, 0.9]]])  # (b, k, n)
    inputs = RegularizerInput(TOKENS[:1, :2], torch.tensor([2]), *(torch.zeros(1, 2, 8),) * 2, heads, None)
    found = {
        name: REGULARIZERS[name](None, 8, TOKENS[0, :1])(inputs).item()
        for name in REGULARIZERS
        if "dec" in name
    }
    assert found["deceive"] == pytest.approx(-(math.log(0.5) + math.log(0.9)) / 2, abs=1e-6)
    assert found["deceive_max"] == pytest.approx(-math.log(0.5), abs=1e-6)


@pytest.mark.parametrize(
    "name", ["attentive_bilstm", "attentive_mlp", "attentive_cnn", "transformer_encoder", "first"]
)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_the_loss_is_the_plain_one_and_what_the_regularizer_says(name, regularizer):
    own = {"first": {"read": "first"}}.get(name, {})
    name = "transformer_encoder" if own else name
    sizes = {**SIZES} if name != "transformer_encoder" else {k: v for k, v in SIZES.items() if k != "width"}
    sizes |= {"heads": 2, "inner": 8, **own} if name == "transformer_encoder" else {}
    torch.manual_seed(0)
    model = CLASSIFIERS[name].make(**sizes).eval()
    plain = model.loss(WANTED, TOKENS, LENGTHS).item()
    model.add_regularizers({regularizer: 0.0}, [4, 9])
    assert not model.regularizers and model.loss(WANTED, TOKENS, LENGTHS).item() == plain
    model.add_regularizers({regularizer: 0.5}, [4, 9])
    model.eval()
    added = model.regularizers[regularizer](read_by(model))
    assert added.shape == (3,) and (added >= 0).all()
    loss = model.loss(WANTED, TOKENS, LENGTHS)
    assert loss.item() == pytest.approx(plain + 0.5 * added.sum().item(), rel=1e-5)
    model.train()
    model.loss(WANTED, TOKENS, LENGTHS).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_padding_changes_no_regularizer():
    for regularizer in set(REGULARIZERS) - {"mlm"}:  # of which words are masked depends on their places
        model = make()
        model.add_regularizers({regularizer: 1.0}, [4, 9])
        alone = [
            model.loss(WANTED[i : i + 1], TOKENS[i : i + 1, :n], LENGTHS[i : i + 1]).item()
            for i, n in enumerate(LENGTHS.tolist())
        ]
        assert model.loss(WANTED, TOKENS, LENGTHS).item() == pytest.approx(sum(alone), rel=1e-5)


def test_masked_words_are_guessed_from_other_words():
    """Two words always come together: a BiLSTM learns to tell one from the other, an MLP cannot."""
    torch.manual_seed(0)
    first = torch.randint(4, 8, (256, 1))
    tokens, lengths = torch.cat([first, first + 4], 1), torch.full((256,), 2)
    left = {}
    for name in ("attentive_bilstm", "attentive_mlp"):
        model = make(name, vocabulary=12, width=16)
        model.add_regularizers({"mlm": 1.0})
        optimiser = torch.optim.Adam(model.parameters(), 0.02)
        model.train()
        for _ in range(150):
            rows = torch.randint(256, (32,))
            loss = model.loss(torch.zeros(32, dtype=torch.long), tokens[rows], lengths[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        model.eval()
        left[name] = model.loss(torch.zeros(256, dtype=torch.long), tokens, lengths).item() / 256
    # to the MLP 8 words are equally likely; a BiLSTM that knew no more than the side would still have 4
    assert left["attentive_mlp"] > math.log(8) - 0.3
    assert left["attentive_bilstm"] < math.log(4)


def test_masking_is_the_same_in_every_validation():
    model = make()
    model.add_regularizers({"mlm": 1.0})
    model.eval()
    assert model.loss(WANTED, TOKENS, LENGTHS).item() == model.loss(WANTED, TOKENS, LENGTHS).item()
    model.train()
    torch.manual_seed(0)
    different = {model.loss(WANTED, TOKENS, LENGTHS).item() for _ in range(10)}
    assert len(different) > 1


def test_states_of_the_orthogonal_lstm_are_orthogonal_to_those_before():
    model = make(orthogonal=True)
    states = model.states(model.embed(TOKENS), LENGTHS)
    for row, n in zip(states, LENGTHS.tolist(), strict=True):
        ahead, back = row[:n].chunk(2, -1)
        for one in (ahead, back.flip(0)):
            for t in range(1, n):
                assert (one[t] @ one[:t].sum(0)).item() == pytest.approx(0, abs=1e-6)
        assert row[n:].abs().sum() == 0
    plain = make(orthogonal=False)
    found = [conicity(m.states(m.embed(TOKENS), LENGTHS), LENGTHS)[0].item() for m in (model, plain)]
    assert found[0] < found[1]


def test_the_orthogonal_lstm_is_its_definition():
    torch.manual_seed(0)
    cell, x = torch.nn.LSTMCell(3, 4), torch.randn(1, 5, 3)
    h = c = torch.zeros(1, 4)
    earlier = []
    for word in x[0]:
        raw, c = cell(word[None], (h, c))
        mean = sum(earlier) / len(earlier) if earlier else None
        h = raw if mean is None else raw - (raw @ mean.T) / (mean @ mean.T) * mean  # sum or mean: the same
        earlier.append(h)
    torch.testing.assert_close(orthogonal_states(cell, x)[0], torch.cat(earlier), rtol=1e-5, atol=1e-6)


def test_the_orthogonal_lstm_sees_no_padding_and_takes_layers():
    torch.manual_seed(0)
    both = OrthogonalLSTM(3, 8, 2, 0.0)
    x, lengths = torch.randn(2, 6, 3), torch.tensor([6, 4])
    states = both(x, lengths)
    torch.testing.assert_close(both(x[1:, :4], lengths[1:])[0], states[1, :4])
    with pytest.raises(ValueError, match="width must be even"):
        OrthogonalLSTM(3, 7, 1, 0.0)
    with pytest.raises(ValueError, match="orthogonal is for cell"):
        make(orthogonal=True, cell="gru")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("self_attentive", {}),
        ("hierarchical", {}),
        ("rationalizer_hardkuma", {}),
    ],
)
def test_other_models_refuse(name, own):
    model = CLASSIFIERS[name].make(**SIZES, **own)
    with pytest.raises(ValueError, match=r"takes no regularizer \(tie\)"):
        model.add_regularizers({"tie": 1.0})


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="width must equal embedding; got width=6, embedding=8"):
        make(width=6).add_regularizers({"tie": 1.0})
    with pytest.raises(ValueError, match="tie must be at least 0"):
        make().add_regularizers({"tie": -1.0})
    with pytest.raises(ValueError, match="needs forbidden words; got none"):
        make().add_regularizers({"deceive": 1.0})
    with pytest.raises(KeyError, match="did you mean diversity"):
        make().add_regularizers({"divercity": 1.0})
    for values, why in [
        ({"tie": 1, "model": "self_attentive"}, "SelfAttentive takes no regularizer"),
        ({"tie": -1}, "regularizers.tie must be at least 0"),
        ({"tye": 1}, "did you mean regularizers.tie"),
        ({"deceive": ["quixotic"], "tokens": "bpe"}, 'data.tokens must be "word"'),
    ]:
        data = {**SETTINGS["data"], "tokens": values.pop("tokens", "word")}
        model = {"name": values.pop("model", "attentive_bilstm")}
        with pytest.raises(SettingsError, match=why):
            resolve({**SETTINGS, "data": data, "model": model, "regularizers": values})


def test_tie_makes_states_as_wide_as_vectors_unless_told_otherwise():
    assert resolve({**SETTINGS, "model": {"embedding": 30}, "regularizers": {"tie": 1}}).model["width"] == 30
    assert resolve({**SETTINGS, "model": {}, "regularizers": {"tie": 1}}).model["width"] == 100
    assert resolve({**SETTINGS, "model": {}, "regularizers": {"mlm": 1}}).model["width"] == 128
    assert resolve({**SETTINGS, "regularizers": {"tie": 0}}) == resolve(SETTINGS)  # none at all
    with pytest.raises(SettingsError, match="width must equal"):
        resolve({**SETTINGS, "model": {"embedding": 30, "width": 32}, "regularizers": {"tie": 1}})


def test_a_run_keeps_its_regularizers_and_resumes_to_the_same_weights(tmp_path):
    wanted = {"tie": 0.1, "mlm": 0.2, "diversity": 0.3, "deceive": ["great", "awful", "quixotic"]}
    settings, said = resolve({**SETTINGS, "regularizers": wanted}), []
    assert settings == resolve({**SETTINGS, "remedy": wanted})  # as in folders of older runs
    whole = fit(settings, tmp_path / "whole", say=said.append)
    assert "2 of 3 forbidden words are in it" in said
    config = read_config(whole.folder)["regularizers"]
    assert config == {**wanted, "deceive_weight": 1.0, "deceive_heads": "mean"}

    def stop(report):
        raise Interrupted("here")

    with pytest.raises(Interrupted):
        fit(settings, tmp_path / "cut", listen=stop)
    again = fit(settings, tmp_path / "cut", resume=True)
    one, other = (load_tensors(run.folder / "model.safetensors") for run in (whole, again))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    loaded = load(whole.folder)
    texts = ["the film was great", "an awful plot"]
    assert [a.probabilities for a in loaded.classify(texts)] == [
        a.probabilities for a in whole.system.classify(texts)
    ]
    assert set(loaded.model.strengths) == {"tie", "mlm", "diversity", "deceive"}


def command(folder, *more):
    given = ["--corpus", "sentiment", "--steps", "2", "--device", "cpu", "--out", str(folder / "run")]
    given += ["--set", "data.texts=200", "--set", "data.held_out=40", "--set", "model.width=20"]
    return CliRunner().invoke(app, ["train", "classification", *given, *more])


def test_weights_saved_under_an_older_name_are_loaded(tmp_path):
    model, other = make(), make()
    torch.nn.init.zeros_(other.words.E.weight)
    for one in (model, other):
        one.add_regularizers({"mlm": 1.0})
    older = {name.replace("regularizers.", "remedies."): t for name, t in tensors_of(model).items()}
    assert "remedies.mlm.W.weight" in older
    save_tensors(older, tmp_path / "model.safetensors")
    put_tensors(other, load_tensors(tmp_path / "model.safetensors"), tmp_path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)


def test_the_command_takes_regularizers(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("great\n\nawful\n", encoding="utf-8")
    more = ["--set", "model.embedding=20", "--tie", "0.5", "--mlm", "0.1", "--diversity", "0.2"]
    done = command(tmp_path, *more, "--orthogonal", "--deceive", str(words), "--deceive-weight", "2")
    assert done.exit_code == 0, done.output
    config = read_config(tmp_path / "run")
    assert config["model"]["orthogonal"] is True
    assert config["regularizers"] == {
        "tie": 0.5, "mlm": 0.1, "diversity": 0.2, "deceive": ["great", "awful"],
        "deceive_weight": 2.0, "deceive_heads": "mean",
    }  # fmt: skip


@pytest.mark.parametrize("given", [("--deceive-heads", "max"), ("--deceive-weight", "2")])
def test_how_to_deceive_without_words_is_refused(tmp_path, given):
    done = command(tmp_path, *given)
    assert done.exit_code == 2 and "goes with --deceive" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no such file"),
        ("", "the file is empty"),
        ("\n\n", "there is no word in it"),
        ("two words\n", "one word per line is needed"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_file_of_words(tmp_path, text, why):
    words = tmp_path / "words.txt"
    if text is not None:
        words.write_text(text, encoding="utf-8")
    done = command(tmp_path, "--deceive", str(words))
    assert done.exit_code == 2 and why in done.output and not (tmp_path / "run").exists()


def test_words_that_no_text_has_are_refused(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("quixotic\n", encoding="utf-8")
    done = command(tmp_path, "--deceive", str(words))
    assert done.exit_code == 2 and "is in the vocabulary" in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


def test_a_run_without_regularizers_has_no_table_of_them(tmp_path):
    done = command(tmp_path)
    assert done.exit_code == 0 and "regularizers" not in (tmp_path / "run" / "config.toml").read_text()


def test_models_of_pairs_take_regularizers_too():
    model = make(pairs=True)
    model.add_regularizers({"tie": 1.0, "diversity": 1.0})
    texts = (TOKENS, LENGTHS, TOKENS.flip(0), LENGTHS.flip(0))
    plain = F.cross_entropy(model(*texts), WANTED, reduction="sum").item()
    assert model.loss(WANTED, *texts).item() > plain
