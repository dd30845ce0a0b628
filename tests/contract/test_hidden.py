"""What is hidden is hidden: from answers, and from every gradient."""

import torch

from contract.grid import MASKS, N, allowed, every_map, every_mask, every_score, inputs, made
from regard import attend


@every_mask
@every_map
@every_score
def test_what_nobody_may_look_at_can_hold_anything(score, map, mask):
    visible = allowed(mask)
    score = made(score)
    answers = []
    for filling in (0.0, float("nan"), float("inf"), 1e30):
        q, k, v = inputs(grad=True)
        hidden, blind = ~visible.any(-2), ~visible.any(-1)
        with torch.no_grad():
            k[hidden], v[hidden], q[blind] = filling, filling, filling
        score.zero_grad()
        context = attend(q, k, v, score=score, map=map, mask=MASKS[mask]()).context
        context.square().sum().backward()
        grads = [q.grad, k.grad, v.grad, *(p.grad for p in score.parameters())]
        grads = [g for g in grads if g is not None]
        assert all(g.isfinite().all() for g in grads)
        assert (k.grad is None or (k.grad[hidden] == 0).all()) and (v.grad[hidden] == 0).all()
        answers.append([context, *grads])
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            assert torch.equal(a, b)


@every_mask
@every_map
@every_score
def test_finite_values_never_leak_where_only_some_may_look(score, map, mask):
    visible, score = allowed(mask), made(score)
    q, k, v = inputs()
    before = attend(q, k, v, score=score, map=map, mask=MASKS[mask]()).context
    for j in range(N):
        k2, v2 = k.clone(), v.clone()
        k2[:, j], v2[:, j] = 7.0, -7.0
        after = attend(q, k2, v2, score=score, map=map, mask=MASKS[mask]()).context
        assert torch.equal(after[~visible[..., j]], before[~visible[..., j]])
