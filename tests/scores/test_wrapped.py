"""Scale, temperature and soft cap, against their formulas."""

import pytest
import torch

import regard
from regard.scores import Additive, Dot, ScaledDot, SoftCap, Temperature

Q, K = torch.randn(2, 3, 4, 8).double(), torch.randn(2, 3, 5, 8).double()


def test_a_scale_is_that_of_sdpa():
    want = torch.nn.functional.scaled_dot_product_attention(Q, K, K, scale=0.3)
    for seen in (
        regard.attend(Q, K, scale=0.3),
        regard.Attention(scale=0.3)(Q, K),
        regard.attend(Q, K, score=ScaledDot(0.3)),
    ):
        torch.testing.assert_close(seen.context, want)
        torch.testing.assert_close(seen.scores, Q @ K.mT * 0.3)
    heads = regard.MultiHead(8, 2, scale=0.3)
    assert heads.score.scale == 0.3 and "scale=0.3" in repr(heads)
    with pytest.raises(ValueError, match=r'scale is the factor of score="scaled_dot".*Temperature'):
        regard.attend(Q, K, score="dot", scale=0.3)
    with pytest.raises(ValueError, match="scale must be a finite number; got nan"):
        ScaledDot(float("nan"))


@pytest.mark.parametrize("inner", [Dot(), Additive(8, 8)], ids=["dot", "additive"])
def test_temperatures_divide(inner):
    inner = inner.double()
    theta = inner(Q, K)
    torch.testing.assert_close(Temperature(inner, 2.0)(Q, K), theta / 2)
    each = torch.tensor([0.5, 1.0, 4.0]).double()
    torch.testing.assert_close(Temperature(inner, each.tolist())(Q, K), theta / each.view(3, 1, 1))
    learned = Temperature(inner, 0.5, heads=3, learn=True).double()
    seen = regard.attend(Q, K, score=learned)
    torch.testing.assert_close(seen.scores, theta / 0.5)
    seen.context.square().sum().backward()
    assert learned.log_temperature.grad.shape == (3,) and (learned.log_temperature.grad != 0).all()
    torch.testing.assert_close(learned.temperature, torch.full((3,), 0.5).double())
    assert (learned.products(Q, K, None) is not None) == isinstance(inner, Dot)


def test_a_soft_cap_is_a_tanh():
    theta = 40 * Dot()(Q, K)
    capped = SoftCap(Temperature(Dot(), 1 / 40), 50.0)
    torch.testing.assert_close(capped(Q, K), 50 * (theta / 50).tanh())
    assert capped(Q, K).abs().max() <= 50 < theta.abs().max()
    small = SoftCap(Dot(), 1e6)(Q, K)
    torch.testing.assert_close(small, Dot()(Q, K))
    after = SoftCap(Dot(), 2.0) + regard.positions.ALiBi(3)  # what is added to a cap, no fast backend knows
    assert after.products(Q, K, regard.core.place.Place.default(4, 5, Q.device)) is None
    assert regard.attend(Q, K, score=after).context.shape == (2, 3, 4, 8)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="cap must be above 0"):
        SoftCap(Dot(), 0.0)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        Temperature(Dot(), -1.0)
    with pytest.raises(ValueError, match="a temperature for each of 3 heads; got 2"):
        Temperature(Dot(), [1.0, 2.0], heads=3)
    with pytest.raises(ValueError, match=r'score "additive" has parameters, so it must be built: Additive'):
        SoftCap("additive")
    assert "cap=50" in repr(SoftCap()) and "temperature=2" in repr(Temperature("dot", 2.0))
