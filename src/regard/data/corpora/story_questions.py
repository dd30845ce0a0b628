"""Stories in which it is known which sentences answer a question.

one_fact    "Where is Mary?"         the sentence that says where Mary went
two_facts   "Where is the apple?"    the sentence that says who took it, then the one that says where

Everyone goes to one place and takes one thing, no two the same; sentences stand in any order. So a question
about a thing cannot be answered from one sentence: of n places in the story, one in n is guessed right.
"""

from collections.abc import Iterator
from random import Random

from regard.data.corpora.split import Split
from regard.data.stories import StoryQuestion

PEOPLE = ["Mary", "John", "Sandra", "Daniel", "Emma", "Lucas", "Anna", "Peter", "Clara", "Simon"]
PLACES = [
    "kitchen", "garden", "office", "hallway", "bedroom", "bathroom", "cellar", "attic", "library", "park",
]  # fmt: skip
THINGS = ["apple", "football", "milk", "book", "lamp", "key", "letter", "guitar", "hat", "basket"]
WENT = ["went to", "moved to", "travelled to", "walked to"]
TOOK = ["took", "picked up", "got", "grabbed"]
SEED = {"train": 0, "valid": 1, "test": 2}


def stories(
    seed: int = 0, split: Split = "train", kinds: tuple[str, ...] = ("one_fact", "two_facts"), people: int = 4
) -> Iterator[StoryQuestion]:
    """Questions of these kinds about stories of so many people, endlessly."""
    chance = Random(f"{SEED[split]} {seed}")
    number = 0
    while True:
        names, places, things = (chance.sample(all_, people) for all_ in (PEOPLE, PLACES, THINGS))
        went = [f"{a} {chance.choice(WENT)} the {b}." for a, b in zip(names, places, strict=True)]
        took = [f"{a} {chance.choice(TOOK)} the {b}." for a, b in zip(names, things, strict=True)]
        order = chance.sample(range(2 * people), 2 * people)
        story, place_of = tuple((went + took)[i] for i in order), {i: at for at, i in enumerate(order)}
        kind, who = chance.choice(kinds), chance.randrange(people)
        if kind == "one_fact":
            asked, facts = f"Where is {names[who]}?", [place_of[who]]
        else:
            asked = f"Where is the {things[who]}?"
            facts = [place_of[people + who], place_of[who]]
        yield StoryQuestion(story, asked, places[who], tuple(facts), kind, number)
        number += 1
