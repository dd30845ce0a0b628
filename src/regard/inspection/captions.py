"""What is written under a picture: which attention it shows, and what was done to the text."""

from regard.explanations import METHODS
from regard.inspection.description import mechanism
from regard.inspection.inspected import Inspected

SCORES = {  # what a method needs, and what it then does
    "weights": "made of the weights of all layers",
    "values": "made of the weights and of the values they are on",
    "gradients": "by how the answer would change with the words",
    "outputs": "by what the answer is without each word",
}

NO_SINK = " The weight on the first token is left out, and the rest renormalised."


def weights_caption(inspected: Inspected, layer: int | None, head: int | None) -> str:
    """Which weights between answer and text are shown: layer and head from 0.

    Without a head it is their mean; without a layer, all layers and heads.
    """
    words = inspected.system.picture == "words"  # of one answer
    rows, units = inspected.system.rows, inspected.system.units
    between = "over" if words else f"from each word of the {rows} to"
    what = f"Attention weights of {inspected.name} {between} the {units} of the text"
    if layer is None:
        return f"{what}, all layers and heads: {_mechanism(inspected)}; between {units}, not subwords."
    which = position(layer, len(inspected.weights), head, inspected.system.heads)
    path = inspected.system.layer_names[layer]
    shown = ", ".join(filter(None, (f"{which} ({path})" if which else path, _mechanism(inspected))))
    if units != "words":
        return f"{what}: {shown}. A weight of exactly 0 is not drawn."
    averaged = "" if words else f", over the subwords of a word of the {rows} averaged"
    return (
        f"{what}: {shown}. Weights on the subwords of a word are summed{averaged}; a weight of exactly 0 is "
        "not drawn."
    )


def self_attention_caption(inspected: Inspected, which: str) -> str:
    """Which self-attention is shown."""
    return (
        f"Self-attention of {inspected.name} among the words of the text before it answered "
        f"{inspected.said}: {which}, {_mechanism(inspected)}; between words, not subwords."
    )


def scores_caption(inspected: Inspected, method: str) -> str:
    """What the scores of words by a method of METHODS are."""
    signs = " A score below 0, orange, is against it." if METHODS[method].signed else ""
    probability = inspected.probabilities.get(inspected.said)
    answer = inspected.said if probability is None else f"{inspected.said} ({probability:.3f})"
    what = SCORES[METHODS[method].needs]
    return f"Scores of the words by {method}, for the answer {answer} of {inspected.name}: {what}.{signs}"


def change_caption(inspected: Inspected) -> str:
    """What was done to the words; "" if nothing."""
    listed = ", ".join(f"“{inspected.words[word]}”" for word in inspected.changed)
    if not listed:
        return ""
    if inspected.how == "delete":
        return f"Deleted from the text: {listed}. {inspected.name} did not read it."
    paths = ", ".join(inspected.system.masked_paths)
    return (
        f"In {paths} the weight on {listed} is 0 and the rest is renormalised. "
        "Other hidden states may still carry it."
    )


def position(layer: int, layers: int, head: int | None, heads: int) -> str:
    """ "layer 2 of 6, head 1 of 8", as far as there are several."""
    parts = [f"layer {layer + 1} of {layers}"] if layers > 1 else []
    if heads > 1:
        parts.append(f"mean of {heads} heads" if head is None else f"head {head + 1} of {heads}")
    return ", ".join(parts)


def _mechanism(inspected: Inspected) -> str:
    score, map_ = mechanism(inspected.system)
    return ", ".join(f"{name} {value}" for name, value in (("score", score), ("map", map_)) if value)
