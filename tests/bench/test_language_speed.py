"""The benchmark of language models compares what it says it compares."""

import torch
from typer.testing import CliRunner

from regard.bench.language_speed import GROUPS, Plain, cases
from regard.cli import app
from regard.models.language.gpt import GPT, Config


def test_every_group_has_a_case_with_a_limit():
    assert {case.group for case in cases()} <= set(GROUPS)
    assert [case.group for case in cases(["training", "map"])] == ["training", "map"]
    assert all(case.claim.limit is not None for case in cases())
    assert "--only" in CliRunner().invoke(app, ["bench", "language", "--help"], env={"COLUMNS": "120"}).stdout


def test_the_plain_model_is_the_same_model():
    torch.manual_seed(0)
    config = Config(11, 16, 32, 2, 2, dropout=0.0)
    ours, theirs = GPT(config).eval(), Plain(config).eval()
    with torch.no_grad():
        theirs.embed.weight.copy_(ours.words.E.weight)
        for one, (first, project, out, second, up, down) in zip(ours.layers, theirs.layers, strict=True):
            heads = one.attention
            project.weight.copy_(torch.cat([heads.W_q.weight, heads.W_k.weight, heads.W_v.weight]))
            out.weight.copy_(heads.W_o.weight)
            up.load_state_dict(one.feed_forward.W1.state_dict())
            down.load_state_dict(one.feed_forward.W2.state_dict())
            first.load_state_dict(one.around[0].norm.state_dict())
            second.load_state_dict(one.around[1].norm.state_dict())
        tokens = torch.randint(4, 11, (2, 128))
        torch.testing.assert_close(theirs(tokens), ours.logits(ours(tokens)[0]), atol=1e-4, rtol=1e-4)
