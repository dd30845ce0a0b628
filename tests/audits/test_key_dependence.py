"""A synthesizer's weights do not depend on the keys, and the audit says so."""

import pytest
import torch

import regard
from regard.models.classifiers.transformer_encoder import Config, TransformerEncoder


def audited(attention):
    torch.manual_seed(0)
    model = TransformerEncoder(
        Config(20, 2, embedding=16, inner=16, heads=2, layers=1, dropout=0.0, attention=attention)
    )
    texts = torch.randint(4, 20, (25, 8)).tolist()
    return regard.audit(model, texts, labels=torch.randint(0, 2, (25,)), quick=True)


@pytest.mark.parametrize("attention", ["synthesizer", "synthesizer:kind=factorised"])
def test_weights_without_keys_are_named(attention):
    report = audited(attention)
    assert report.tests["key_dependence"].details["ignored"] == ["encoder.0.attention"]
    assert "encoder.0.attention do not depend on the keys" in report.answer


def test_weights_with_keys_are_not():
    report = audited("linformer:projected=4")
    assert report.tests["key_dependence"].details["ignored"] == []
    assert report.tests["key_dependence"].value > 0.01
    assert "do not depend" not in report.answer
