"""Mechanisms by name in the Transformers: forward, steps, and what is refused."""

import pytest
import torch

import regard
from commands import run as regard_command
from regard import MECHANISMS
from regard.core.errors import UnknownNameError
from regard.models.classifiers.transformer_encoder import Config, TransformerEncoder
from regard.models.language import LANGUAGE_MODELS
from regard.models.language.bert import BERT
from regard.models.language.bert import Config as BERTConfig
from regard.models.transformer import Config as TranslatorConfig
from regard.models.transformer import Transformer

SPECS = {"bigbird": "bigbird:block=4", "strided": "strided:stride=4", "local": "local:window=3"}
every = pytest.mark.parametrize("name", MECHANISMS)


def gpt(attention, name="gpt", **more):
    torch.manual_seed(0)
    entry = LANGUAGE_MODELS[name]
    config = entry.config(11, width=16, inner=16, heads=2, layers=2, dropout=0.0, attention=attention, **more)
    return entry.kind(config).eval()


@every
def test_language_models(name):
    spec = SPECS.get(name, name)
    if not MECHANISMS[name].causal:
        with pytest.raises(ValueError, match=f"attention {name} cannot be causal"):
            gpt(spec)
        return
    model, tokens = gpt(spec), torch.randint(4, 11, (2, 20))
    whole, _ = model(tokens)
    state, parts = None, []
    with torch.no_grad():
        for part in tokens.split([9, *[1] * 11], 1):
            hidden, state = model(part, state)
            parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=2e-5)


@every
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_encoders(name, positions):
    torch.manual_seed(0)
    spec = SPECS.get(name, name)
    model = TransformerEncoder(
        Config(20, 2, embedding=16, inner=16, heads=2, layers=1, attention=spec, positions=positions)
    ).eval()
    tokens, lengths = torch.randint(4, 20, (2, 12)), torch.tensor([12, 7])
    logits = model(tokens, lengths)
    tokens[1, 7:] = 0
    torch.testing.assert_close(model(tokens, lengths), logits)
    with regard.record(model, "encoder.*.attention") as seen:
        model(tokens, lengths)
    assert seen["encoder.0.attention"][0].over_tokens.shape == (2, 2, 12, 12)
    if positions == "sinusoidal":
        bert = BERT(BERTConfig(20, embedding=16, inner=16, heads=2, layers=1, attention=spec))
        bert.masked(tokens)[0].sum().backward()


@pytest.mark.parametrize("name", ["linear_attention", "performer", "bigbird", "linformer"])
def test_translators(name):
    torch.manual_seed(0)
    spec = SPECS.get(name, name)
    sizes = {"width": 16, "inner": 16, "heads": 2, "layers": 1, "dropout": 0.0, "attention": spec}
    if not MECHANISMS[name].causal:
        with pytest.raises(ValueError, match="cannot be causal"):
            Transformer(TranslatorConfig(20, 20, **sizes))
        sizes["decoder_attention"] = "full"
    model = Transformer(TranslatorConfig(20, 20, **sizes)).eval()
    source, target = torch.randint(4, 20, (2, 9)), torch.randint(4, 20, (2, 7))
    lengths = torch.tensor([9, 6])
    whole = model.logits(model(source, lengths, target)) if hasattr(model, "logits") else None
    memory = model.encode(source, lengths)
    state, steps = model.start(memory), []
    for t in range(7):
        hidden, state = model.step(target[:, t], state, memory)
        steps.append(hidden)
    forward = model(source, lengths, target)
    assert whole is None or whole.shape[:2] == (2, 7)
    if name != "bigbird":  # which refuses fewer tokens than a block unless it decodes
        torch.testing.assert_close(torch.stack(steps, 1), forward, rtol=0, atol=2e-5)


def test_names_and_settings_that_are_not_there():
    with pytest.raises(UnknownNameError, match="performer"):
        gpt("perfomer")
    with pytest.raises(ValueError, match='local has no setting "windows=3"'):
        gpt("local:windows=3")
    with pytest.raises(ValueError, match="window must be a whole number"):
        gpt("local:window=x")
    with pytest.raises(ValueError, match="has an attention of its own"):
        gpt("local", "sparse_transformer")
    with pytest.raises(ValueError, match="dot products"):
        gpt("performer", positions="alibi")


def test_swapped_modules():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 16, dropout=0.0, batch_first=True)
    encoder, x = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 20, 16)
    before = encoder(x)
    padding = torch.arange(20) >= torch.tensor([[20], [13]])
    for name, facts in MECHANISMS.items():
        regard.swap(encoder, mechanism=SPECS.get(name, name))
        after = encoder(x, src_key_padding_mask=padding)
        changed = x.masked_fill(padding.unsqueeze(-1), 7.0)
        real = ~padding
        torch.testing.assert_close(
            encoder(changed, src_key_padding_mask=padding)[real], after[real], rtol=0, atol=1e-5
        )
        causal = torch.nn.Transformer.generate_square_subsequent_mask(20)
        if facts.causal:
            assert encoder(x, mask=causal, is_causal=True).isfinite().all()
        else:
            with pytest.raises(ValueError, match=name):
                encoder(x, mask=causal, is_causal=True)
        _, weights = encoder.layers[0].self_attn(x, x, x)
        assert weights.shape == (2, 20, 20)
    regard.swap(encoder, mechanism="full")
    torch.testing.assert_close(encoder(x), before)
    regard.swap(encoder, None)
    assert torch.equal(encoder(x), before)
    regard.swap(encoder, mechanism="performer")
    with pytest.raises(ValueError, match="performer takes no float mask"):
        encoder(x, mask=torch.randn(20, 20))


@pytest.mark.parametrize(
    ("attention", "says"),
    [
        ("bigbird:block=500", "bigbird attends by blocks of 500"),
        ("linformer:longest=2", "linformer projects at most"),
    ],
)
def test_texts_that_do_not_fit_end_training_with_one_line(attention, says, tmp_path):
    done = regard_command(
        "train", "classification", "--corpus", "sentiment", "--model", "transformer_encoder",
        "--set", f"model.attention={attention}", "--steps", "1", "--out", str(tmp_path / "run"),
    )  # fmt: skip
    assert done.exit_code == 2
    assert says in done.stderr and "Traceback" not in done.stderr
