"""Aligning sentence pairs with whatever there is: an aligner, a run, or two runs in opposite directions.

`system.align(pairs)` on what `regard.load` returns is this `align`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from regard.alignment.aligner import Aligner
from regard.alignment.bitext import Floats
from regard.alignment.choose import SAMPLE, Rule, View, choose_rule, choose_view, choose_views
from regard.alignment.expectation import train
from regard.alignment.forced import Head, forced
from regard.alignment.links import Links
from regard.alignment.looked import Looked
from regard.alignment.scorer import score
from regard.runs.translator import Translator

Pairs = Sequence[tuple[str, str]]
Gold = Sequence[Links]
LEARNED = 20_000  # pairs that the aligner learns from which is asked for its agreement
BLOCK = 2_000  # pairs whose weights are in memory


@dataclass(frozen=True, eq=False)
class Aligned:
    """The links of each pair, and what was chosen to find them."""

    links: list[Links]
    rule: Rule
    remarks: list[str] = field(default_factory=list)


def align(
    system: Aligner | Translator,
    pairs: Pairs,
    *,
    reverse: Translator | None = None,
    gold: Gold | None = None,
    head: Head | None = None,
    method: str | None = None,
    threshold: float | None = None,
    symmetrise: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Aligned:
    """Align pairs (source, target) of sentences.

    Head, shift and rule are chosen by agreement, on the first pairs, unless `gold` has the links of the first
    pairs: then by those. `reverse` translates from the target's language into the source's; a translator that
    was trained in both directions has one. `head` names a head of a translator, the others parts of the rule;
    what is named is not chosen. `progress` is called with the number of pairs aligned so far.
    """
    named = {"method": method, "threshold": threshold, "symmetrise": symmetrise}
    fixed: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    Rule(**fixed)  # what is wrong with it is said before the work
    if gold is not None and len(gold) > len(pairs):
        raise ValueError(f"gold has links of {len(gold)} pairs, and there are {len(pairs)}.")
    if isinstance(system, Aligner):
        if reverse is not None or head is not None:
            raise ValueError(
                "an aligner has no heads and looks both ways: reverse and head are for translators."
            )
        return _by_aligner(system, pairs, gold, fixed)
    return _by_attention(system, reverse or system.reverse, pairs, gold, head, fixed, progress)


Translator.align = align  # type: ignore[attr-defined]  # it is below this layer and cannot have it by itself
Aligner.align = align  # type: ignore[attr-defined]


def _by_aligner(system: Aligner, pairs: Pairs, gold: Gold | None, fixed: dict[str, Any]) -> Aligned:
    if gold:
        rule, how = choose_rule(system.look(pairs[: len(gold)]), gold=gold, fixed=fixed), _on(gold)
    else:
        plain = fixed.get("method", Rule.method) != Rule.method  # the others need no threshold
        rule, how = Rule(**{**({"threshold": 0.0} if plain else {}), **fixed}), "by default"
    links = [link for block in _blocks(pairs) for link in rule.each(system.look(block))]
    return Aligned(links, rule, [f"links: {rule}, {rule.symmetrise} ({how})"])


def _by_attention(
    system: Translator,
    reverse: Translator | None,
    pairs: Pairs,
    gold: Gold | None,
    head: Head | None,
    fixed: dict[str, Any],
    progress: Callable[[int], None] | None,
) -> Aligned:
    sample = _with_words(pairs[: len(gold)]) if gold else []
    if not sample:  # no links, or links of no words
        gold, sample = None, _with_words(pairs, SAMPLE)
    if not sample:
        return Aligned([Links.of(()) for _ in pairs], Rule(), ["there are no words to align"])
    some, back = [pairs[k] for k in sample], [pairs[k][::-1] for k in sample]
    known = [gold[k] for k in sample] if gold else _third(pairs[: max(LEARNED, sample[-1] + 1)], some)
    ours = _in_order(forced(system, some, head))
    theirs = None if reverse is None else _in_order(forced(reverse, back))
    turned: View | None = None
    if theirs is None:
        view = choose_view(ours, known)
    elif gold:
        view, turned = choose_view(ours, known), choose_view(theirs, [one.reversed() for one in known])
    else:
        view, turned = choose_views(ours, theirs, known)
    looked = [
        Looked(view.correct(one), None if theirs is None or turned is None else turned.correct(theirs[k]))
        for k, one in enumerate(ours)
    ]
    rule = choose_rule(looked, fixed=fixed, **({"gold": known} if gold else {"third": known}))
    agreed = 1 - score(rule.each(looked), known).aer
    remarks = [str(view)] if turned is None else [str(view), f"reverse: {turned}"]
    remarks.append(
        f"links: {rule}{'' if turned is None else ', ' + rule.symmetrise} "
        f"({_on(gold) if gold else 'by agreement'}; they agree {agreed:.2f} with "
        f"{'them' if gold else 'an aligner'})"
    )
    links: list[Links] = []
    for block in _blocks(pairs):
        one_way = _seen(system, block, view)
        other_way = (
            {} if reverse is None or turned is None else _seen(reverse, [p[::-1] for p in block], turned)
        )
        found = [Links.of(()) for _ in block]
        for k, weights in one_way.items():
            found[k] = rule.links(Looked(weights, other_way.get(k)))
        links += found
        if progress is not None:
            progress(len(links))
    return Aligned(links, rule, remarks)


def _third(pairs: Pairs, some: Pairs) -> list[Links]:
    """The links that an aligner trained on pairs finds in some of them."""
    return Rule().each(train(pairs).look(some))


def _blocks(pairs: Pairs) -> Iterable[Pairs]:
    return (pairs[start : start + BLOCK] for start in range(0, len(pairs), BLOCK))


def _with_words(pairs: Pairs, most: int | None = None) -> list[int]:
    """The first pairs that have words on both sides."""
    return list(islice((k for k, pair in enumerate(pairs) if all(map(str.split, pair))), most))


def _in_order(found: Iterable[tuple[int, dict[Head, Floats]]]) -> list[dict[Head, Floats]]:
    return [weights for _, weights in sorted(found, key=lambda one: one[0])]


def _seen(system: Translator, pairs: Pairs, view: View) -> dict[int, Floats]:
    """Weights (m, n) of each pair with words."""
    return {k: view.correct(found) for k, found in forced(system, pairs, view.head)}


def _on(gold: Gold) -> str:
    return f"chosen on {len(gold)} sentences with gold links"
