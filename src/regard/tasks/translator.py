"""A trained translator: sentences in, translations out, and the attention between them."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from regard.attention import Attended
from regard.core.counting import counted
from regard.core.errors import RunError
from regard.core.tokens import BOS, EOS
from regard.data.context_lines import LineTokenizer, Window, last_lines, remaining_lines
from regard.data.copying import numbered
from regard.data.padding import batches_by_length, padded
from regard.data.segments import Segments, segments_of_ids
from regard.data.tables import kind_of
from regard.data.text import KINDS, DataError, lines
from regard.data.tokenizer import Tokenizer
from regard.decoding import Hypothesis, beam, cut_loops, greedy
from regard.tasks.bleu import Quality, quality
from regard.tasks.system import EXAMPLES, Forward, Scores, System, WrittenAnswer, check_finite
from regard.tasks.translation import (
    TRANSLATION,
    Decoding,
    Tokenizers,
    TranslationAudit,
    TranslationEvaluation,
    TranslationSettings,
)

if TYPE_CHECKING:
    from regard.alignment.forced_alignment import Aligned
    from regard.alignment.links import Links
    from regard.tasks.case import Case

POSITIONS = 8192  # source tokens times beams that are decoded at once
BLOCK = 500  # sentences between two reports of progress


@dataclass(frozen=True, eq=False)
class Translation(WrittenAnswer):
    """One translation, and on demand the attention it was written with."""

    source: str
    text: str
    score: float  # what was searched for: log p with penalties
    log_prob: float  # of the target and its end, by the model
    source_tokens: list[int] = field(repr=False)
    target_tokens: list[int] = field(repr=False)  # without an end
    system: "Translator" = field(repr=False)
    unknown: list[str] = field(default_factory=list, repr=False)  # words of tokens beyond the vocabulary

    @property
    def source_pieces(self) -> list[str]:
        """The source tokens as the model reads them."""
        return self.system.source_tokenizer.pieces(self.source_tokens, self.unknown)

    @property
    def target_pieces(self) -> list[str]:
        """The target tokens as the model wrote them, and the end."""
        return [*self.system.target_tokenizer.pieces(self.target_tokens, self.unknown), "</s>"]

    @cached_property
    def attended(self) -> dict[str, Attended]:
        """The source–target attentions by path: weights (1, [heads,] m, n), m with the end."""
        return self.system.attended(self)

    @cached_property
    def copied(self) -> list[float]:
        """For each target token, the share of its probability that comes from copying; or empty."""
        return self.system.copied(self.source_tokens, self.target_tokens)

    @property
    def marked(self) -> str:
        """The text with [[ ]] around words that were copied rather than generated."""
        if not any(share > 0.5 for share in self.copied):
            return self.text
        words = self.system.answer_segments(self)
        least: dict[int, float] = {}  # the least copied token of a word decides
        for word, share in zip(words.word_of, self.copied, strict=True):
            least[word] = min(share, least.get(word, 1.0))
        marked = (f"[[{word}]]" if least.get(k, 0.0) > 0.5 else word for k, word in enumerate(words.words))
        return " ".join(marked)


class Translator(System):
    """A model with its tokenizers; `reverse` is the one that was trained with it, in the other direction."""

    task = TRANSLATION
    parts: Tokenizers
    settings: TranslationSettings

    def __init__(
        self,
        model: Any,
        parts: Tokenizers,
        settings: TranslationSettings,
        folder: Path | None = None,
        *,
        reverse: "Translator | None" = None,
    ):
        super().__init__(model, parts, settings, folder)
        self.reverse = reverse

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts sources; with context these have lines, the last of which is translated."""
        return LineTokenizer(self.parts.source, self.context) if self.context else self.parts.source

    @property
    def source_tokenizer(self) -> Tokenizer:
        """What cuts sources."""
        return self.tokenizer

    @property
    def context(self) -> int:
        """How many sentences before are read with each."""
        return self.settings.context

    def reading(self) -> Callable[[str], str]:
        """A function to call with sentence after sentence of documents: the source that `translate` takes.

        It has the sentences before as lines; "" ends a document. Without context it is the sentence.
        """
        return Window(self.context, self.settings.data.boundary) if self.context else lambda line: line

    @property
    def target_tokenizer(self) -> Tokenizer:
        """What cuts targets."""
        return self.parts.target

    @property
    def decoding(self) -> Decoding:
        """How it searches unless told otherwise."""
        return self.settings.decoding

    @property
    def copies(self) -> bool:
        """Whether the model can copy words of the source."""
        return self.model.copying is not None

    @property
    def facts(self) -> list[str]:
        found = [f"beam {self.decoding.beam}"] if self.decoding.beam > 1 else []
        before = {0: [], 1: ["reads the sentence before"]}
        return found + before.get(self.context, [f"reads {self.context} sentences before"])

    @property
    def purpose(self) -> str:
        return "Translates sentences."

    @property
    def masked_paths(self) -> list[str]:
        return self.layers + self.attention_paths.get("context_words", [])

    @property
    def own_views(self) -> dict[str, Callable[[str], Any]]:
        """`regard view --kind context`: where the last line looks in the lines before."""
        from regard.tasks.translation_views import context_view

        return {"context": partial(context_view, self)} if self.context else {}

    def without(
        self, whole: Segments, words: Collection[int], how: str = "delete"
    ) -> tuple[Segments, list[int]]:
        if not self.context:
            return super().without(whole, words, how)
        rest = self.segments(*remaining_lines(whole, words))
        return rest, [i for i in range(len(whole.words)) if i not in words]

    @cached_property
    def examples(self) -> list[str]:
        if self.settings.data.corpus is None:
            return []
        return [example[0] for _, example in islice(self.task.read(self.settings, "valid"), EXAMPLES)]

    # Answers

    def translate(
        self, sources: Sequence[str], *, beam: int | None = None, alpha: float | None = None
    ) -> list[Translation]:
        """The best translation of each sentence; one of nothing but white space gives an empty one."""
        return [found[0] for found in self.translations(sources, beam=beam, alpha=alpha)]

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Translation]:
        return self.translate(inputs, **options)

    def translations(
        self,
        sources: Sequence[str],
        *,
        best: int = 1,
        beam: int | None = None,
        alpha: float | None = None,
        coverage: float | None = None,
        batch: int | None = None,
    ) -> list[list[Translation]]:
        """The `best` translations of each sentence, from the best on; at most `batch` are decoded at once."""
        if isinstance(sources, str):
            raise TypeError("translate takes a list of sentences; got one string. Use translate([text]).")
        chosen: dict[str, Any] = {"beam": beam, "alpha": alpha, "coverage": coverage}
        decoding = replace(self.decoding, **{k: v for k, v in chosen.items() if v is not None})
        if decoding.coverage:
            self._refuse_context("takes no coverage penalty: sentences that are only read are never covered")
        if best > decoding.beam:
            decoding = replace(decoding, beam=best)
        encoded, unknown = self._encoded(list(sources))
        found: list[list[Translation]] = [[] for _ in sources]
        lengths = [len(tokens) for tokens in encoded]
        for indices in batches_by_length(lengths, POSITIONS // decoding.beam, batch):
            some = [encoded[i] for i in indices]
            for i, hypotheses in zip(indices, self.decode(some, decoding, best), strict=True):
                found[i] = [self._translation(sources[i], encoded[i], unknown[i], h) for h in hypotheses]
        for i, tokens in enumerate(encoded):
            if not tokens:
                found[i] = [Translation(sources[i], "", 0.0, 0.0, [], [], self)]
        return found

    def decode(
        self, sources: Sequence[list[int]], decoding: Decoding, best: int = 1
    ) -> list[list[Hypothesis]]:
        """Hypotheses of sources given as tokens, decoded together; endless repetitions are cut."""
        source, lengths = padded(sources, self.device)
        limits, alpha = decoding.limits, decoding.alpha if decoding.beam > 1 else 0.0
        if decoding.beam == 1:
            found = greedy(self.model, source, lengths, limits)
        else:
            found = beam(
                self.model,
                source,
                lengths,
                limits,
                best=decoding.beam,
                width=decoding.beam,
                alpha=alpha,
                coverage=decoding.coverage,
            )
        check_finite(torch.tensor([[one.log_prob for one in some[:1]] or [math.nan] for some in found]))
        return [each[:best] for each in cut_loops(self.model, source, lengths, found, limits, alpha)]

    # Attention

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Forward:
        """Hidden states (b, m, width) of sources and targets given as tokens, without BOS and EOS."""
        source, lengths = padded(inputs, self.device)
        written, _ = padded([[BOS, *target] for target in answers], self.device)
        return Forward(self.model(source, lengths, written), self.model.logits)

    def copied(self, source: list[int], target: list[int]) -> list[float]:
        """For each target token, the share of its probability that comes from copying; or empty."""
        if not self.copies or not target:
            return []
        with torch.no_grad():
            pointing = self.forward([source], [target]).hidden[0, :-1]
            logits = F.linear(pointing.hidden, *self.model.vocabulary())
            shares: list[float] = pointing.copied(logits, torch.tensor(target, device=self.device)).tolist()
        return shares

    def answer_segments(self, answer: Translation) -> Segments:
        return segments_of_ids(self.target_tokenizer, answer.target_tokens, answer.unknown)

    def tokens(self, answer: Translation) -> tuple[list[int], list[int]]:
        return answer.source_tokens, answer.target_tokens

    def align(self, pairs: Sequence[tuple[str, str]], **options: Any) -> "Aligned":
        """Word links of sentence pairs, from attention (`alignment.forced_alignment.align`)."""
        from regard.alignment.forced_alignment import align

        self._refuse_context("does not align words: they are aligned sentence by sentence")
        return align(self, pairs, **options)

    # Scores and audits

    def score(self, examples: Sequence[tuple[str, str]], **options: Any) -> Scores:
        """BLEU, chrF, exact match, and BLEU by the length of the source; options are `beam` and `alpha`."""
        return self._scored(examples, options.get("beam"), options.get("alpha"), None)

    def evaluate(
        self, options: TranslationEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        if options.source is None:
            raise RunError(
                f"{self.folder} holds a translator: --source, the sentences to evaluate on, is needed."
            )
        if options.gold_alignments is not None:
            self._refuse_context("does not align words: they are aligned sentence by sentence")
        wanted = list(self.settings.in_documents(options.read(self.settings.data)))
        scores = self._scored(wanted, options.beam, options.alpha, progress, greedy=True)
        if options.gold_alignments is None:
            return scores
        from regard.tasks.alignment import alignment_scores

        links = alignment_scores(self, wanted, options)
        return replace(
            scores,
            figures={**scores.figures, **links.figures},
            notes=(*scores.notes, *links.notes, links.line),
        )

    def _scored(
        self,
        examples: Sequence[tuple[str, str]],
        beam: int | None,
        alpha: float | None,
        progress: Callable[[int, int], None] | None,
        greedy: bool = False,
    ) -> Scores:
        sources, found = [source for source, _ in examples], []
        for start in range(0, len(sources), BLOCK):
            found += self.translate(sources[start : start + BLOCK], beam=beam, alpha=alpha)
            if progress is not None:
                progress(len(found), len(sources))
        translated = [last_lines(source, 0) for source in sources] if self.context else sources
        measured = quality(translated, [one.text for one in found], [target for _, target in examples])
        figures: dict[str, Any] = asdict(measured)
        figures["beam"] = self.decoding.beam if beam is None else beam
        notes = [measured.signature]
        if greedy and figures["beam"] > 1:
            plain = self.translate(sources, beam=1)
            below = sum(a.log_prob < b.log_prob - 1e-6 for a, b in zip(found, plain, strict=True))
            figures["below_greedy"] = below / len(found)
            notes.insert(
                0, f"less likely than the greedy translation: {figures['below_greedy']:.1%} of sentences"
            )
        return _scores(measured, figures, notes)

    def case(
        self,
        items: Sequence[tuple[str, str | None]],
        *,
        gold: "Sequence[Links] | None" = None,
        seed: int = 0,
        **options: Any,
    ) -> "Case":
        """Every step of writing a target is a decision: pairs, of which a target may be None (its own)."""
        from regard.tasks.translation_case import case_of_pairs

        self._refuse_context("is not explained or audited: its weights are on one sentence of several")
        return case_of_pairs(self, items, gold=gold, seed=seed, **options)

    def audited(self, options: TranslationAudit) -> "tuple[Case, str]":
        if options.source is None:
            raise RunError(f"{self.folder} holds a translator: --source, sentences to audit on, is needed.")
        found: list[tuple[str, str | None]]
        if options.target is None and kind_of(options.source) not in KINDS:
            found = [(line, None) for line in lines(options.source)]
        else:
            found = list(options.read(self.settings.data))
        links = None
        if options.gold_alignments is not None:
            if any(target is None for _, target in found):
                raise RunError("--gold-alignments need --target: gold links are between given sentences.")
            from regard.alignment.formats import read

            sizes = [(len(one.split()), len((other or "").split())) for one, other in found]
            links = read(options.gold_alignments, sizes, base=options.base, gold=True)
            if len(links) > len(found):
                raise DataError(
                    f"{options.gold_alignments} has {len(links):,} sentences, and there are {len(found):,}."
                )
        return self.case(found, gold=links, seed=options.seed), repr((found, links))

    def _refuse_context(self, what: str) -> None:
        if self.context:
            raise RunError(f"a translator that reads the sentences before (context = {self.context}) {what}.")

    def _encoded(self, sources: list[str]) -> tuple[list[list[int]], list[list[str]]]:
        """The tokens of each source and, where the model can copy them, its unknown words."""
        if not self.copies:
            return self.source_tokenizer.encode_many(sources), [[] for _ in sources]
        found = numbered(self.source_tokenizer, sources)
        return [one.ids for one in found], [one.unknown for one in found]

    def _translation(
        self, source: str, tokens: list[int], unknown: list[str], found: Hypothesis
    ) -> Translation:
        text = self.target_tokenizer.decode([*found.tokens, EOS], unknown)
        text = " ".join(text.splitlines())  # one line for one line
        return Translation(source, text, found.score, found.log_prob, tokens, found.tokens, self, unknown)


def _scores(measured: Quality, figures: dict[str, Any], notes: list[str]) -> Scores:
    rows = (
        (words, f"{group['sentences']:,}", f"{group['bleu']:.1f}", f"{group['exact_match']:.3f}")
        for words, group in measured.by_length.items()
    )
    return Scores(
        figures,
        f"BLEU {measured.bleu:.2f}, chrF {measured.chrf:.2f}, exact match {measured.exact_match:.3f} "
        f"on {counted(measured.sentences, 'sentence')}, beam {figures['beam']}",
        ("words of the source", "sentences", "BLEU", "exact match"),
        tuple(rows),
        tuple(notes),
    )
