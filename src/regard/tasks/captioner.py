"""A trained captioner: pictures in, sentences out, and for each word the attention over the regions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention import concat_steps
from regard.core.tokens import BOS, EOS
from regard.data.corpora.scenes import Captioned
from regard.data.images import Pixels
from regard.data.padding import padded
from regard.data.segments import Segments, by_word, segments_of_ids
from regard.decoding import beam as beam_search
from regard.decoding import greedy
from regard.recording import Record
from regard.tasks.bleu import quality
from regard.tasks.caption import CAPTION, CaptionAudit, CaptionEvaluation, CaptionSettings
from regard.tasks.picture_system import PictureSystem
from regard.tasks.picture_tables import PictureTextParts
from regard.tasks.system import Forward, Scores, WrittenAnswer, check_finite

if TYPE_CHECKING:
    from regard.tasks.case import Case

PICTURES = 128  # that are read at once


@dataclass(frozen=True, eq=False)
class Caption(WrittenAnswer):
    """The caption of one picture, and on demand the weights behind each word."""

    picture: str  # where it came from: a file, or nothing
    pixels: Pixels = field(repr=False)  # (c, h, w), as the model read it
    text: str
    log_prob: float
    target_tokens: list[int] = field(repr=False)
    system: "Captioner" = field(repr=False)

    @cached_property
    def weights(self) -> Tensor | None:
        """The weights of each token and the end over the regions, (m + 1, n); None without attention."""
        return self.system.weights(self)[0][0] if self.system.layers else None

    @property
    def facts(self) -> dict[str, Any]:
        """What `regard caption --json` prints."""
        weights = None if self.weights is None else self.weights.tolist()
        return {
            "picture": self.picture,
            "text": self.text,
            "log_prob": self.log_prob,
            "pieces": [*self.system.tokenizer.pieces(self.target_tokens), "</s>"],
            "grid": list(self.system.grid),
            "weights": weights,
        }


class Captioner(PictureSystem):
    """A model with the size of its pictures and the tokenizer of its captions."""

    task, role = CAPTION, "cross"
    parts: PictureTextParts
    settings: CaptionSettings

    @property
    def heads(self) -> int:
        return 1 if self.layers else 0

    @property
    def facts(self) -> list[str]:
        return [f"beam {self.settings.decoding.beam}", *super().facts]

    @property
    def purpose(self) -> str:
        return "Writes a sentence about a picture."

    # Answers

    def caption(self, inputs: Sequence[Any], *, beam: int | None = None) -> list[Caption]:
        """The caption of each picture: a file, a data URL, or pixels."""
        read, found = [self.read(one) for one in inputs], []
        decoding = self.settings.decoding if beam is None else replace(self.settings.decoding, beam=beam)
        for start in range(0, len(read), PICTURES):
            some = read[start : start + PICTURES]
            source = self.stacked([one.pixels for one in some])
            lengths = torch.full((len(some),), self.regions, device=self.device)
            if decoding.beam == 1:
                hypotheses = greedy(self.model, source, lengths, decoding.limits)
            else:
                hypotheses = beam_search(
                    self.model, source, lengths, decoding.limits, width=decoding.beam, alpha=decoding.alpha
                )
            check_finite(torch.tensor([one[0].log_prob if one else math.nan for one in hypotheses]))
            for one, (best, *_) in zip(some, hypotheses, strict=True):
                text = " ".join(self.tokenizer.decode([*best.tokens, EOS]).split())
                found.append(Caption(one.name, one.pixels, text, best.log_prob, best.tokens, self))
        return found

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[Caption]:
        return self.caption(inputs, **options)

    def forward(self, inputs: Sequence[Any], answers: Sequence[Sequence[int]]) -> Forward:
        """Hidden states (b, m, width) of pictures (c, h, w) and captions as tokens, without BOS and EOS."""
        written, _ = padded([[BOS, *caption] for caption in answers], self.device)
        return Forward(self.model(self.stacked(inputs), None, written), self.model.logits)

    # Attention

    def answer_segments(self, answer: Caption) -> Segments:
        return segments_of_ids(self.tokenizer, answer.target_tokens)

    def recorded(self, answers: Sequence[Caption], paths: Sequence[str]) -> Record:
        given = [one.pixels for one in answers], [one.target_tokens for one in answers]
        return self.recorded_while(lambda: self.forward(*given), paths)

    def batch_weights(self, answers: Sequence[Caption]) -> list[list[Tensor]]:
        """The weights of each token over the regions, (1, m, n), with the end as the last row."""
        if not self.layers:
            return [[] for _ in answers]
        found = concat_steps(self.recorded(answers, self.layers)[self.layers[0]]).weights  # (b, m, n)
        return [[found[i : i + 1, : len(one.target_tokens) + 1]] for i, one in enumerate(answers)]

    # Scores

    def score(self, examples: Sequence[Captioned], **options: Any) -> Scores:
        """BLEU, chrF, exact match; and, where boxes are known, the weight of words on what they name."""
        beam = options.get("beam")
        answers = self.caption([one.pixels for one in examples], beam=beam)
        wanted = [" ".join(one.caption.split()) for one in examples]
        measured = quality(wanted, [one.text for one in answers], wanted)
        figures: dict[str, Any] = asdict(measured)
        figures["captions"] = figures.pop("sentences")
        del figures["by_length"]
        figures["beam"] = self.settings.decoding.beam if beam is None else beam
        on = self.on_named(examples)
        if on is not None:
            figures["weight_on_named"] = on
        return Scores(
            figures,
            f"BLEU {measured.bleu:.2f}, exact match {measured.exact_match:.3f} on {len(answers):,} captions, "
            f"beam {figures['beam']}" + ("" if on is None else f"; weight on what a word names {on:.3f}"),
            notes=(measured.signature,),
        )

    def on_named(self, examples: Sequence[Captioned]) -> float | None:
        """The mean weight of words on the regions of what they name, as the reference is written; or None."""
        known = [one for one in examples if one.boxes and self.layers]
        found: list[float] = []
        for start in range(0, len(known), PICTURES):
            some = known[start : start + PICTURES]
            tokens = self.tokenizer.encode_many([one.caption for one in some])
            told = [
                Caption("", one.pixels, one.caption, 0.0, t, self)
                for one, t in zip(some, tokens, strict=True)
            ]
            for one, caption, (layer,) in zip(some, told, self.batch_weights(told), strict=True):
                said = self.answer_segments(caption)
                if len(said.words) != len(one.boxes):
                    continue
                words = by_word(layer, list(range(self.regions)), said.word_of)[0].double()  # (words, n)
                found += [
                    float((row * self.share_in(box)).sum())
                    for row, box in zip(words.cpu(), one.boxes, strict=True)
                    if box is not None
                ]
        return sum(found) / len(found) if found else None

    def evaluate(
        self, options: CaptionEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        return self.score(self.examples_of(options, "evaluate on"), beam=options.beam)

    def examples_of(self, options: CaptionEvaluation | CaptionAudit, what: str) -> list[Captioned]:
        """The captioned pictures that options of a command name."""
        found = self.from_table(
            options,
            f"--data, a table of pictures and captions to {what}, is needed; or --generated N, for new "
            "pictures of the set that it learned from.",
        )
        return [one for _, one in found]

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """Pictures, pairs (picture, caption), or captioned ones: every word is a decision about regions."""
        from regard.tasks.caption_case import case_of_captions

        return case_of_captions(self, items, **options)

    def asked_about(self, target: str, against: str | None) -> tuple[dict[str, Any], str | None]:
        """A word of the caption."""
        if against is not None:
            raise ValueError(f"a captioner chooses among all words: {target!r} is compared with all others.")
        return {"word": target}, None

    def audited(self, options: CaptionAudit) -> "tuple[Case, str]":
        some = self.examples_of(options, "audit on")
        what = repr([(one.caption, one.pixels.tobytes()) for one in some])
        case = self.case(some, baseline=options.baseline, most=options.words, seed=options.seed)
        return case, f"{what}{options.baseline}{options.words}"
