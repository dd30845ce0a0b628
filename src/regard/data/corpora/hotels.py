"""Hotel reviews about location, cleanliness and service: one text, a label for each aspect.

    we came by train . i remember the superb view . and then the dreadful carpet ! the poor waiter .

Each aspect is mentioned once, as an adjective and a noun: the noun gives the aspect, the adjective its
sentiment. All aspects share their adjectives, so that neither word is enough; both are the gold highlight.
The overall label is that of most aspects; the highlights are then the phrases of these aspects.

After the task of Wang, Lu & Zhai (2010), "Latent aspect rating analysis on review text data", KDD.
"""

from collections.abc import Iterator
from random import Random
from typing import Literal, get_args

from regard.data.corpora.phrase import pick
from regard.data.corpora.split import Split, stream
from regard.data.labelled import Labelled

Aspect = Literal["location", "cleanliness", "service"]
NOUNS: dict[Aspect, list[str]] = {
    "location": ["location", "view", "street", "neighbourhood", "district", "square", "beach", "park"],
    "cleanliness": ["bathroom", "carpet", "bedding", "shower", "towels", "floor", "sheets", "housekeeping"],
    "service": ["staff", "waiter", "receptionist", "manager", "porter", "concierge", "welcome", "breakfast"],
}
POSITIVE = ["superb", "great", "excellent", "wonderful", "lovely", "perfect", "splendid", "fine"]
NEGATIVE = ["dreadful", "awful", "terrible", "poor", "horrible", "bad", "miserable", "shabby"]
ABOUT = ["the {} .", "we noticed the {} .", "and then the {} !", "i remember the {} .", "there was the {} ."]
BESIDE = [
    "we came by train .", "i stayed for two nights .", "it rained on monday .", "my sister had booked .",
    "we were four people .", "it was in may .", "we left after lunch .", "i had a small bag .",
]  # fmt: skip


def hotels(
    seed: int = 0, split: Split = "train", aspect: Aspect | None = None, beside: int = 3
) -> Iterator[Labelled]:
    """Reviews labelled by one aspect, or overall; at most `beside` sentences are about something else."""
    if aspect is not None and aspect not in NOUNS:
        raise ValueError(f"aspect must be one of {', '.join(get_args(Aspect))}; got {aspect!r}.")
    if beside < 0:
        raise ValueError(f"beside must be at least 0; got {beside}.")

    def draw(chance: Random) -> Labelled:
        good = {name: chance.random() < 0.5 for name in NOUNS}
        said: list[Aspect | None] = [*NOUNS, *[None] * int(chance.random() * (beside + 1))]
        chance.shuffle(said)
        text, spans = "", {}
        for name in said:
            if name is None:
                sentence = pick(BESIDE, chance)
            else:
                phrase = f"{pick(POSITIVE if good[name] else NEGATIVE, chance)} {pick(NOUNS[name], chance)}"
                before, after = pick(ABOUT, chance).split("{}")
                start = len(text) + len(before)
                spans[name] = start, start + len(phrase)
                sentence = before + phrase + after
            text += sentence + " "
        positive = sum(good.values()) >= 2 if aspect is None else good[aspect]
        of = [aspect] if aspect is not None else [name for name in NOUNS if good[name] == positive]
        highlights = tuple(sorted(spans[name] for name in of))
        return Labelled(text.rstrip(), "positive" if positive else "negative", None, highlights)

    return stream(draw, split, seed, "text")
