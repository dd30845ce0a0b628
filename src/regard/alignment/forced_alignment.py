"""Word alignment from the attention of a translator: forced decoding of given translations.

Weights between tokens become weights between words: those on a source word are summed, those of a target
word averaged. The end of the target is a row of its own, after the last word (a shift needs it); what is
given to an end of the source, in models that have one, is dropped. Which head, which shift and which
threshold are chosen by agreement (`regard.alignment.choose`), with the other direction or with an aligner
trained on the pairs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.alignment.aligner import Aligner
from regard.alignment.bitext import Floats
from regard.alignment.choose import SAMPLE, Head, HeadView, Rule, choose_rule, choose_view, choose_views
from regard.alignment.error_rate import score
from regard.alignment.expectation import train
from regard.alignment.links import Links
from regard.alignment.match_score import Match, match_score
from regard.alignment.pair_weights import PairWeights
from regard.attention import concat_steps
from regard.core.errors import RunError
from regard.data.padding import batches_by_length
from regard.data.segments import Segments, by_word, segments
from regard.data.tokenizer import Tokenizer
from regard.recording import record

POSITIONS = 4096  # source and target tokens that are decoded at once
Pairs = Sequence[tuple[str, str]]
Gold = Sequence[Links]
LEARNED = 20_000  # pairs that an aligner is trained on, for its agreement
BLOCK = 2_000  # pairs whose weights are in memory


class ForcedDecoder(Protocol):
    """What is asked of a translator."""

    model: nn.Module
    reverse: Any  # the one trained with it in the other direction, or None

    @property
    def layers(self) -> list[str]:
        """The paths of its attentions to the source."""
        ...

    @property
    def source_tokenizer(self) -> Tokenizer:
        """What cuts sources."""
        ...

    @property
    def target_tokenizer(self) -> Tokenizer:
        """What cuts targets."""
        ...

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Any:
        """One pass over sources and targets given as tokens."""
        ...


@dataclass(frozen=True, eq=False)
class Aligned:
    """The links of each pair, and how they were found."""

    links: list[Links]
    rule: Rule
    remarks: list[str] = field(default_factory=list)
    view: HeadView | None = None  # the head they come from; None without attention


def align(
    system: ForcedDecoder,
    pairs: Pairs,
    *,
    reverse: ForcedDecoder | None = None,
    gold: Gold | None = None,
    head: Head | None = None,
    method: str | None = None,
    threshold: float | None = None,
    symmetrise: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Aligned:
    """Align pairs (source, target) of sentences by the attention of a translator.

    Head, shift and rule are chosen by agreement, on the first pairs, unless `gold` has the links of the first
    pairs: then by those. `reverse` translates from the target's language into the source's; a translator that
    was trained in both directions has one. `head` names a head, the others parts of the rule; what is named
    is not chosen. `progress` is called with the number of pairs aligned so far.
    """
    fixed = fixed_rule(len(pairs), gold, method, threshold, symmetrise)
    reverse = reverse or system.reverse
    sample = _with_words(pairs[: len(gold)]) if gold else []
    if not sample:  # no links, or links of no words
        gold, sample = None, _with_words(pairs, SAMPLE)
    if not sample:
        return Aligned([Links.of(()) for _ in pairs], Rule(), ["there are no words to align"])
    some, back = [pairs[k] for k in sample], [pairs[k][::-1] for k in sample]
    known = [gold[k] for k in sample] if gold else _by_aligner(pairs[: max(LEARNED, sample[-1] + 1)], some)
    ours = _in_order(forced(system, some, head))
    theirs = None if reverse is None else _in_order(forced(reverse, back))
    turned: HeadView | None = None
    if theirs is None:
        view = choose_view(ours, known)
    elif gold:
        view, turned = choose_view(ours, known), choose_view(theirs, [one.reversed() for one in known])
    else:
        view, turned = choose_views(ours, theirs, known)
    weights = [
        PairWeights(
            view.correct(one), None if theirs is None or turned is None else turned.correct(theirs[k])
        )
        for k, one in enumerate(ours)
    ]
    rule = choose_rule(weights, fixed=fixed, **({"gold": known} if gold else {"third": known}))
    agreed = 1 - score(rule.each(weights), known).aer
    remarks = [str(view)] if turned is None else [str(view), f"reverse: {turned}"]
    remarks.append(
        f"links: {rule}{'' if turned is None else ', ' + rule.symmetrise} "
        f"({chosen_on(gold) if gold else 'by agreement'}; they agree {agreed:.2f} with "
        f"{'them' if gold else 'an aligner'})"
    )
    links: list[Links] = []
    for block in blocks(pairs):
        one_way = _weights_by_word(system, block, view)
        other_way = (
            {}
            if reverse is None or turned is None
            else _weights_by_word(reverse, [pair[::-1] for pair in block], turned)
        )
        found = [Links.of(()) for _ in block]
        for k, one in one_way.items():
            found[k] = rule.links(PairWeights(one, other_way.get(k)))
        links += found
        if progress is not None:
            progress(len(links))
    return Aligned(links, rule, remarks, view)


def align_by_aligner(
    aligner: Aligner,
    pairs: Pairs,
    *,
    gold: Gold | None = None,
    progress: Callable[[int], None] | None = None,
    **named: Any,
) -> Aligned:
    """Align pairs by an aligner; `gold` has links of the first pairs, by which the rule is chosen."""
    fixed = fixed_rule(len(pairs), gold, named.get("method"), named.get("threshold"), named.get("symmetrise"))
    if gold:
        rule = choose_rule(aligner.weights(pairs[: len(gold)]), gold=gold, fixed=fixed)
        how = chosen_on(gold)
    else:
        plain = fixed.get("method", Rule.method) != Rule.method  # the others need no threshold
        rule, how = Rule(**{**({"threshold": 0.0} if plain else {}), **fixed}), "by default"
    links: list[Links] = []
    for block in blocks(pairs):
        links += rule.each(aligner.weights(block))
        if progress is not None:
            progress(len(links))
    return Aligned(links, rule, [f"links: {rule}, {rule.symmetrise} ({how})"])


def forced(
    system: ForcedDecoder, pairs: Pairs, only: Head | None = None
) -> Iterator[tuple[int, dict[Head, Floats]]]:
    """For each pair, in some order, its number and by head the weights (m + 1, n) between words.

    Pairs with an empty side are left out. `only` asks for one head alone.
    """
    paths = system.layers
    if not paths:
        raise RunError("this model has no attention to its source, so nothing in it aligns words.")
    layers = list(range(len(paths))) if only is None else [only.layer]
    if layers[-1] not in range(len(paths)):
        known = (
            f"layers 1 to {len(paths)} attend to the source" if len(paths) > 1 else "layer 1 is the only one"
        )
        raise RunError(f"{only} is not there: {known}.")
    tokenizers = system.source_tokenizer, system.target_tokenizer
    ours, theirs = (
        [segments(tokenizers[side], " ".join(pair[side].split())) for pair in pairs] for side in (0, 1)
    )
    lengths = [
        len(a.tokens) + len(b.tokens) + 1 if a.tokens and b.tokens else 0
        for a, b in zip(ours, theirs, strict=True)
    ]
    for some in batches_by_length(lengths, POSITIONS):
        asked = [paths[layer] for layer in layers]
        with torch.no_grad(), record(system.model, asked) as seen:
            system.forward([ours[k].tokens for k in some], [theirs[k].tokens for k in some])
        weights = {path: concat_steps(seen[path]).weights.cpu() for path in asked}  # (b, [heads,] m + 1, n)
        for row, k in enumerate(some):
            words = spaced_words(ours[k]), spaced_words(theirs[k])
            heads = {
                Head(layer, head): _by_word(one, *words)
                for layer in layers
                for head, one in _heads(weights[paths[layer]][row], only).items()
            }
            yield k, heads


def spaced_words(text: Segments) -> list[int]:
    """For each token the number of its word, words being what spaces separate: files of links count those."""
    before = list(accumulate(character == " " for character in text.text))
    return [before[text.spans[word][0]] for word in text.word_of]


def fixed_rule(
    pairs: int, gold: Gold | None, method: str | None, threshold: float | None, symmetrise: str | None
) -> dict[str, Any]:
    """The parts of the rule that are named, checked before any work is done."""
    named = {"method": method, "threshold": threshold, "symmetrise": symmetrise}
    fixed: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    Rule(**fixed)
    if gold is not None and len(gold) > pairs:
        raise ValueError(f"gold has links of {len(gold)} pairs, and there are {pairs}.")
    return fixed


def blocks(pairs: Pairs) -> Iterable[Pairs]:
    """Pairs, some at a time."""
    return (pairs[start : start + BLOCK] for start in range(0, len(pairs), BLOCK))


def chosen_on(gold: Gold) -> str:
    """How a rule was chosen."""
    return f"chosen on {len(gold)} sentences with gold links"


def _heads(weights: Tensor, only: Head | None) -> dict[int | None, Tensor]:
    """Weights ([heads,] m, n) by head, and their mean; a single head is its mean."""
    several = weights.reshape(-1, *weights.shape[-2:])
    found: dict[int | None, Tensor] = {None: several.mean(0), **dict(enumerate(several))}
    if only is None:
        return found if len(several) > 1 else {None: several[0]}
    if only.head not in found:
        raise RunError(f"{only} is not there: this layer has heads 1 to {len(several)}.")
    return {only.head: found[only.head]}


def _by_word(weights: Tensor, source: list[int], target: list[int]) -> Floats:
    """Weights of tokens, padding and a source's end included, to weights (m + 1, n) of words."""
    weights = weights[: len(target) + 1, : len(source)]
    end = max(target) + 1
    found: Floats = by_word(weights.double(), source, [*target, end]).numpy()
    return found


def _by_aligner(pairs: Pairs, some: Pairs) -> list[Links]:
    """The links that an aligner trained on pairs finds in some of them."""
    return Rule().each(train(pairs).weights(some))


def _with_words(pairs: Pairs, most: int | None = None) -> list[int]:
    """The first pairs that have words on both sides."""
    return list(islice((k for k, pair in enumerate(pairs) if all(map(str.split, pair))), most))


def _in_order(found: Iterable[tuple[int, dict[Head, Floats]]]) -> list[dict[Head, Floats]]:
    return [weights for _, weights in sorted(found, key=lambda one: one[0])]


def matched(system: ForcedDecoder, pairs: Pairs, view: HeadView, gold: Gold) -> Match:
    """The match score of a head, shifted as its view says, over all pairs; what it makes of gold links."""
    scored: list[tuple[Floats, Links]] = []
    for start in range(0, len(pairs), BLOCK):
        found = _weights_by_word(system, pairs[start : start + BLOCK], view)
        scored += [(weights, gold[start + k]) for k, weights in found.items()]
    return match_score(scored)


def _weights_by_word(system: ForcedDecoder, pairs: Pairs, view: HeadView) -> dict[int, Floats]:
    """Weights (m, n) of each pair with words."""
    return {k: view.correct(found) for k, found in forced(system, pairs, view.head)}
