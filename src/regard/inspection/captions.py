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

FEW = 6  # paths that are listed
DENSITY = " Ellipses are contours of the density: one deviation from its mean, and two, or its edge."
NO_SINK = " The weight on the first token is left out, and the rest renormalised."


def weights_caption(inspected: Inspected, layer: int | None, head: int | None) -> str:
    """Which weights between answer and text are shown: layer and head from 0.

    Without a head it is their mean; without a layer, all layers and heads.
    """
    system = inspected.system
    words = system.picture == "words" or len(inspected.rows) == 1  # of one answer
    rows, units = system.rows, system.units
    between = "over" if words else f"from each word of the {rows} to"
    what = f"Attention weights of {inspected.name} {between} the {units} of the {system.whole}"
    if system.picture == "image":
        which = "" if layer is None else position(layer, len(inspected.weights), head, system.heads)
        down, across = system.grid
        return (
            f"{what}{f': {which}' if which else ''}, {_mechanism(inspected)}; {down} × {across} regions. A "
            "region may have seen more of the picture than it covers; a weight of exactly 0 is not drawn."
        )
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


def self_attention_caption(inspected: Inspected, which: str, of_answer: bool = False) -> str:
    """Which self-attention is shown: among the words of the text, or of the answer."""
    among = "answer as it wrote" if of_answer else "text before it answered"
    return (
        f"Self-attention of {inspected.name} among the words of the {among} "
        f"{inspected.said}: {which}, {_mechanism(inspected)}; between words, not subwords."
    )


def scores_caption(inspected: Inspected, method: str) -> str:
    """What the scores of words by a method of METHODS are."""
    signs = " A score below 0, orange, is against it." if METHODS[method].signed else ""
    probability = inspected.probabilities.get(inspected.said)
    answer = inspected.said if probability is None else f"{inspected.said} ({probability:.3f})"
    what = SCORES[METHODS[method].needs]
    scored = f"Scores of the {inspected.system.units} by {method}"
    return f"{scored}, for the answer {answer} of {inspected.name}: {what}.{signs}"


def change_caption(inspected: Inspected) -> str:
    """What was done to the words; "" if nothing."""
    listed = ", ".join(f"“{inspected.words[word]}”" for word in inspected.changed)
    if not listed:
        return ""
    if inspected.how == "blur":
        return f"Blurred: {listed}. {inspected.name} saw no more than a trace of it."
    if inspected.how == "delete":
        if inspected.system.picture == "image":
            return f"Painted in the mean colour: {listed}. {inspected.name} did not see it."
        return f"Deleted from the text: {listed}. {inspected.name} did not read it."
    masked = inspected.system.masked_paths
    paths = (
        ", ".join(masked) if len(masked) <= FEW else f"{masked[0]} and {len(masked) - 1} further attentions"
    )
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
