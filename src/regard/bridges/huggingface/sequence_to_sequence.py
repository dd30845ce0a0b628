"""An encoder–decoder of transformers as a system: what it writes, and from where to where it looked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.bridges.huggingface.foreign_language_model import (
    NEW,
    OTHER,
    Continuation,
    ForeignTask,
    check_several,
)
from regard.bridges.huggingface.foreign_tokenizer import ForeignTokenizer
from regard.bridges.huggingface.model_attentions import head_count, paths_by_role
from regard.bridges.huggingface.model_facts import ForeignSettings, described, home, start_of
from regard.bridges.huggingface.writing_model import WritingModel
from regard.core.errors import RunError
from regard.core.settings import setting
from regard.data.padding import padded
from regard.data.segments import Segments, segments_of_ids
from regard.data.text import DataError, lines
from regard.tasks.case import Case
from regard.tasks.classification_case import case_of_model
from regard.tasks.system import Forward, System


@dataclass(frozen=True)
class StepAudit:
    """What `regard audit` asks of an encoder–decoder."""

    data: str | None = setting(None, "Texts to read, one per line.", metavar="FILE")
    step: int = setting(0, "Which token of what it writes is audited, from 0.")


class StackedTask(ForeignTask):
    """Texts to texts."""

    makes, Audit = "sequence-to-sequence model", StepAudit


class SequenceToSequence(System):
    """An encoder that reads a text and a decoder that writes another."""

    task = StackedTask()
    attentions = ("cross", "encoder", "decoder")
    parts: ForeignTokenizer
    unknown = None

    def __init__(self, theirs: Any, tokenizer: ForeignTokenizer, name: str):
        settings = ForeignSettings(described(theirs))
        super().__init__(theirs, tokenizer, settings, home(name))
        self.name = name

    @property
    def around(self) -> tuple[int, int]:
        return len(self.parts.before), len(self.parts.after)

    @property
    def tokenizer(self) -> ForeignTokenizer:
        return self.parts

    @property
    def attention_paths(self) -> dict[str, list[str]]:
        return paths_by_role(self.model)

    @property
    def heads(self) -> int:
        return head_count(self.model.get_submodule(self.layers[-1]))

    @property
    def purpose(self) -> str:
        return "Reads a text and writes another."

    def answer(self, inputs: Sequence[str], *, tokens: int = NEW, **options: Any) -> list[Continuation]:
        """What the model writes to each text: at most so many tokens, greedily unless told otherwise."""
        return [self._written(text, tokens, options) for text in inputs]

    def _written(self, text: str, tokens: int, options: dict[str, Any]) -> Continuation:
        (ids,) = self.parts.encode_many([text])
        tokens = tokens if self.parts.most is None else min(tokens, self.parts.most - 1)  # one begins
        given = torch.tensor([[*self.parts.before, *ids, *self.parts.after]], device=self.device)
        wanted = {"do_sample": False, "num_beams": 1, "max_new_tokens": tokens, **options}
        wanted = {"forced_eos_token_id": None, **wanted}  # the last of so many tokens need not be the end
        with torch.no_grad():
            found = self.model.generate(given, attention_mask=torch.ones_like(given), **wanted)[0].tolist()
        end = self.model.config.eos_token_id
        written = found[1 : found.index(end) if end in found[1:] else None]
        with torch.no_grad():
            logits = self.forward([ids], [written]).logits(0)[: len(written)].double().log_softmax(-1)
        each = [float(logits[i, token]) for i, token in enumerate(written)]
        return Continuation(text, self.parts.decode(written), sum(each), each, ids, written)

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Forward:
        """One pass over texts and what is written to them, both given as tokens: logits (b, m + 1, …)."""
        before, after = self.parts.before, self.parts.after
        source, lengths = padded([[*before, *one, *after] for one in inputs], self.device)
        real = torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(-1)
        start = start_of(self.model)
        target, _ = padded([[start, *one] for one in answers], self.device)
        given = {"input_ids": source, "attention_mask": real.long(), "decoder_input_ids": target}
        return Forward(self.model(**given, use_cache=False).logits, lambda logits: logits)

    def tokens(self, answer: Continuation) -> tuple[list[int], list[int]]:
        return answer.tokens, answer.written

    def answer_segments(self, answer: Continuation) -> Segments:
        return segments_of_ids(self.parts, answer.written)

    def batch_weights(self, answers: Sequence[Continuation]) -> list[list[torch.Tensor]]:
        """Cross-attention from each token that was written to the tokens of the text, for each layer."""
        seen = self.recorded(answers, self.layers)
        first = self.ahead
        return [
            [
                seen[path][-1].weights[i, :, : len(one.written), first : first + len(one.tokens)]
                for path in self.layers
            ]
            for i, one in enumerate(answers)
        ]

    def case(self, items: Sequence[str], *, step: int = 0, **more: Any) -> Case:
        """What the model writes to texts as its token number `step` (from 0), against all other tokens."""
        check_several(items)
        if not all(isinstance(one, str) for one in items):
            raise ValueError("an encoder–decoder reads one text at a time.")
        answers = self.answer(items, tokens=step + 1)
        for one in answers:
            if not one.tokens:
                raise ValueError(
                    f"the text {one.text!r} has no token: there is nothing to explain or to audit."
                )
            if not one.written:
                raise ValueError(f"to {one.text!r} the model writes nothing: there is nothing to explain.")
            if (count := len(one.written)) <= step:
                few = f"{count} token{'s' if count > 1 else ''}, numbered from 0"
                raise ValueError(f"to {one.text!r} the model writes {few}: there is no step {step}.")
        model = WritingModel(self.model, self.parts.before, self.parts.after).eval()
        tokens = [one.tokens for one in answers]
        words = [self.parts.pieces(one) for one in tokens]
        seconds = [one.written[: step + 1] for one in answers]
        same = all(one[-1] == seconds[0][-1] for one in seconds)
        token = self.parts.pieces(seconds[0][-1:])[0] if same else "its token"
        return case_of_model(
            model, tokens, seconds, words=words, classes=[token, OTHER],
            explained=torch.zeros(len(tokens), dtype=torch.long), **more,
        )  # fmt: skip

    def audited(self, options: StepAudit) -> tuple[Case, str]:
        if options.data is None:
            raise RunError(f"{self.name} writes texts: --data, texts to read, one per line, is needed.")
        texts = [line for line in lines(options.data) if line.strip()]
        if not texts:
            raise DataError(f"{options.data} holds no text.")
        return self.case(texts, step=options.step), f"{self.name} {options.step} {texts!r}"

    def asked_about(self, target: str, against: str | None) -> tuple[dict[str, Any], str | None]:
        raise ValueError(
            "an encoder–decoder is explained at a token that it writes itself, the first unless "
            "system.case(texts, step=1) says another: target and against are for language models."
        )

    def answer_weights(self, answer: Continuation) -> list[torch.Tensor]:
        paths, m = self.attention_paths["decoder_self"], len(answer.written)
        seen = self.recorded([answer], paths)
        return [seen[path][-1].weights[0, :, :m, : m + 1] for path in paths]

    def self_weights(self, answer: Continuation) -> tuple[list[torch.Tensor], int]:
        layers, ahead = super().self_weights(answer)
        n = ahead + len(answer.tokens)
        return [one[..., :n, :n] for one in layers], ahead
