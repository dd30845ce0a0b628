"""Controls, and the pictures that they choose among."""

import json

import pytest
import torch

from inspection.test_inspected import classified, translated
from inspection.tiny_runs import CLASSIFIERS, system_of
from regard.explanations import METHODS
from regard.inspection import InvalidRequest, controls, draw, inspect, resolve_options, word_scores
from regard.inspection.captions import change_caption
from regard.inspection.pictures import CELLS, picture_data


def pictures(found, **options):
    """The data of a picture with these options, and whether it is complete."""
    data, complete = picture_data(found, resolve_options(controls(found.system), options))
    json.dumps(data, allow_nan=False)
    return data, complete


def test_controls_are_what_a_system_can_show():
    layer, head = controls(system_of("heads"))
    assert (layer.name, layer.options, layer.default) == ("layer", [(0, "1 of 2"), (1, "2 of 2")], 1)
    assert head.options == [(None, "mean of all"), (0, "1 of 2"), (1, "2 of 2")] and head.default is None
    assert layer.when == head.when == {}
    assert controls(system_of("sparse")) == controls(system_of("rnn")) == []
    (method,) = controls(system_of("bilstm"))
    assert method.default == "attention" == method.options[0][0]
    assert {name for name, _ in method.options} == set(METHODS)
    head, method = controls(system_of("queries"))
    assert len(head.options) == 4 and head.when == {"method": ["attention"]}


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("heads", {"layer": 2}, "layer must be from 0 to 1; got 2"),
        ("heads", {"head": -1}, "head must be from 0 to 1; got -1"),
        ("heads", {"layer": "first"}, 'no layer "first"'),
        ("heads", {"layer": None}, 'no layer "None"'),
        ("heads", {"layer": "1"}, "layer must be one of 0, 1; got '1'"),
        ("heads", {"method": "flow"}, 'no "method" to choose here: there is layer, head'),
        ("rnn", {"layer": 0}, 'no "layer" to choose here: nothing can be chosen'),
        ("bilstm", {"method": "atention"}, "did you mean attention"),
        ("queries", {"head": 3}, "head must be from 0 to 2; got 3"),
        ("queries", {"head": 0, "method": "rollout"}, "head has an effect with method attention alone"),
    ],
)
def test_options_that_are_none_are_refused(name, given, says):
    with pytest.raises(InvalidRequest, match=says):
        resolve_options(controls(system_of(name)), given)


def test_options_have_defaults():
    assert resolve_options(controls(system_of("heads")), {"head": 1}) == {"layer": 1, "head": 1}
    wanted = {"head": None, "method": "rollout"}
    assert resolve_options(controls(system_of("queries")), wanted) == wanted


def test_all_layers_and_heads_come_along_where_there_is_room(monkeypatch):
    found = translated("heads")
    data, complete = pictures(found)
    assert [(m["layer"], m["head"]) for m in data["matrices"]] == [
        (layer, head) for layer in (0, 1) for head in (None, 0, 1)
    ]
    assert all(m["options"] == {"layer": m["layer"], "head": m["head"]} for m in data["matrices"])
    assert complete and len(found.words) * len(found.rows) * 6 <= CELLS
    mean = torch.tensor(data["matrices"][0]["weights"])
    torch.testing.assert_close(mean, found.weights[0].sum(0) / 2, atol=1e-4, rtol=1e-4)
    monkeypatch.setattr("regard.inspection.pictures.CELLS", 4)
    one, complete = pictures(found, layer=0, head=1)
    assert [(m["layer"], m["head"]) for m in one["matrices"]] == [(0, 1)] and not complete
    last, _ = pictures(found)
    assert [(m["layer"], m["head"]) for m in last["matrices"]] == [(1, None)]


def test_the_weights_of_several_queries_come_along(monkeypatch):
    found = classified("queries")
    data, complete = pictures(found, head=1)
    assert [m["head"] for m in data["matrices"]] == [None, 0, 1, 2] and complete and data["kind"] == "words"
    mean = torch.tensor(data["matrices"][0]["weights"])
    torch.testing.assert_close(mean, found.weights[0].sum(0) / 3, atol=1e-4, rtol=1e-4)
    assert "head 2 of 3" in data["matrices"][2]["caption"]
    monkeypatch.setattr("regard.inspection.pictures.CELLS", 4)
    one, complete = pictures(found, head=1)
    assert [m["head"] for m in one["matrices"]] == [1] and not complete


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["none", "mask", "delete"])
def test_words_are_coloured_by_every_explanation_or_it_is_said_why_not(name, method, how):
    found = classified(name, how)
    try:
        data, complete = pictures(found, method=method)
    except InvalidRequest:
        assert how == "mask" and method != "attention"
        return
    assert data["kind"] == "words" and data["source"] == found.source and complete
    chosen = data["matrices"][0]["options"]
    assert chosen["method"] == method
    if method != "attention":
        scores = torch.tensor(data["matrices"][0]["weights"][0])
        torch.testing.assert_close(scores, word_scores(found, method), atol=1e-4, rtol=1e-3)


def test_where_nothing_was_read_there_is_no_picture():
    assert picture_data(translated("heads", [0, 1, 2, 3], "delete"), {}) == (None, True)
    with pytest.raises(InvalidRequest, match="rnn has no attention to draw"):
        picture_data(translated("rnn"), {})


def test_captions_name_layer_head_score_and_map():
    data, _ = pictures(translated("heads"))
    for words in ("layer 2 of 2", "head 1 of 2", "decoder.1.cross", "score scaled_dot", "map softmax"):
        assert words in data["matrices"][4]["caption"]
    assert "mean of 2 heads" in data["matrices"][0]["caption"]
    sentences, _ = pictures(classified("sentences"))
    assert "word_attention × sentence_attention" in sentences["matrices"][0]["caption"]
    signed, _ = pictures(classified("bilstm"), method="gradient_x_input")
    assert "below 0, orange" in signed["matrices"][0]["caption"] and "what one method finds" in signed["note"]


def test_captions_say_what_was_done_to_the_text():
    masked = change_caption(translated("heads", [0], "mask"))
    assert "decoder.0.cross, decoder.1.cross" in masked and "“du” is 0" in masked and "renormalised" in masked
    assert "In word_attention the weight" in change_caption(classified("sentences", "mask"))
    assert "Deleted from the text: “exquisite”" in change_caption(classified("bilstm", "delete"))
    assert change_caption(classified("bilstm")) == ""


def test_a_view_is_drawn_from_what_was_inspected():
    found = translated("heads")
    view = draw(found, layer=0, head=1)
    assert view.kind == "heat_map" and "layer 1 of 2, head 2 of 2" in view.caption
    torch.testing.assert_close(torch.from_numpy(view.matrices[0].weights), found.weights[0][1])
    assert draw(classified("bilstm")).kind == "words"
    with pytest.raises(InvalidRequest, match="layer must be from 0 to 1; got 2"):
        draw(found, layer=2)
    with pytest.raises(InvalidRequest, match='no kind "pie"'):
        draw(found, "pie")
    with pytest.raises(InvalidRequest, match='there is no "method" to choose here'):
        draw(found, "words", method="flow")


def test_unknown_words_are_those_whose_tokens_are_not_in_the_vocabulary():
    system = system_of("bilstm")
    known = [word for word in sorted(system.tokenizer.inner.get_vocab()) if word.isalpha()][:2]
    text = f"{known[0]} xylograph {known[1]} 👩‍🚀"
    found = inspect(system, text)
    assert found.unknown == [1, 3] and draw(found).unknown == (1, 3)
    assert pictures(found)[0]["unknown"] == pictures(found, method="gradient")[0]["unknown"] == [1, 3]
    less = inspect(system, text, words=[1], how="delete")
    assert less.unknown == [3] and draw(less).unknown == (2,)  # the third column
    first = inspect(system_of("first"), text)
    assert draw(first, "heat_map").unknown == (2, 4)  # a position stands before the words
    assert inspect(system_of("layers"), text).unknown == []  # bytes are all known


def test_a_caption_of_words_does_not_speak_of_words_of_an_answer():
    assert "bilstm over the words of the text" in draw(classified("bilstm")).caption
    assert "word of the answer averaged" in draw(translated("heads")).caption


def test_links_are_outlined_in_the_heat_map_and_nowhere_else():
    found = translated("heads")
    drawn = draw(found, links=[(0, 0), (1, 0)])
    assert drawn.links == ((0, 0), (1, 0)) and drawn.caption.endswith("Outlined: the links that were given.")
    assert "Outlined" not in draw(found).caption
    with pytest.raises(ValueError, match="counted from 0; got"):
        draw(found, links=[(99, 0)])
    for wrong in (
        lambda: draw(found, "lines", links=[(0, 0)]),
        lambda: draw(classified("bilstm"), links=[(0, 0)]),
    ):
        with pytest.raises(InvalidRequest, match="links are drawn in a heat map"):
            wrong()
