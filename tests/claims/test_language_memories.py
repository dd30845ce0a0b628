"""Experiments on language models run and return figures; what is claimed takes minutes and is not asked."""

from regard.claims.language_memories import both_sides, memories, spans, tape


def test_a_cue_on_the_right_helps_who_sees_both_sides():
    found = both_sides(0, steps=40)
    assert found["both sides"] > found["left side"] + 0.3


def test_the_others_return_their_figures():
    assert memories(0, steps=1).keys() == {
        f"{name}, {where}"
        for name in ("gpt", "transformer_xl", "compressive")
        for where in ("within", "beyond")
    }
    found = spans(0, steps=1)
    assert 0 < found["mean span, share of n"] < found["longest span, share of n"] + 1e-6 < 1.1
    found = tape(0, steps=1, width=8)
    assert abs(found["lstmn, parameters"] / found["lstm, parameters"] - 1) < 0.15
    assert 0 <= found["looks at the opening bracket"] <= 1
