"""A language model of transformers as a system: it continues texts, and chooses between continuations.

`answer` generates. A `case` is about the next token: the token that the model finds most likely against all
others, or of each text a token against another, (text, target, against).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.bridges.huggingface.foreign_tokenizer import ForeignTokenizer
from regard.bridges.huggingface.model_attentions import head_count
from regard.bridges.huggingface.model_facts import ForeignSettings, described, home, sink_share
from regard.bridges.huggingface.reading_model import ReadingModel
from regard.core.counting import counted
from regard.core.errors import RunError
from regard.core.settings import setting
from regard.data.padding import padded
from regard.data.segments import Segments, segments_of_ids
from regard.data.text import DataError, lines
from regard.tasks.case import Case
from regard.tasks.classification_case import case_of_model
from regard.tasks.system import Forward, Scores, System
from regard.tasks.task import Task

OTHER = "another token"
FEW = 8  # texts that the weight on the first token is measured on
NEW = 20  # tokens that are generated unless told otherwise


@dataclass(frozen=True)
class ChoiceAudit:
    """What `regard audit` asks of a language model."""

    data: str | None = setting(
        None, "Texts, and the two tokens to choose from: text, tab, target, tab, against.", metavar="FILE"
    )


def check_several(items: Sequence[Any]) -> None:
    """Raise unless these are texts."""
    if isinstance(items, str) or not items:
        raise ValueError("texts are needed: a list of at least one.")


class ForeignTask(Task):
    """What a model of transformers is for; it is trained elsewhere."""

    name, says, makes, examples = "transformers", "A model of transformers.", "language model", "texts"
    Audit: type[Any] | None = ChoiceAudit


@dataclass(frozen=True, eq=False)
class Continuation:
    """What a language model writes after a text."""

    text: str
    said: str
    log_prob: float  # of all tokens that it wrote
    log_probs: list[float]  # of each of them
    tokens: list[int] = field(repr=False)
    written: list[int] = field(repr=False)
    probabilities: dict[str, float] = field(default_factory=dict)


class LanguageModel(System):
    """A decoder that predicts the next token."""

    task = ForeignTask()
    role, sinks, attentions = "self", True, ("answer", "text")
    model: ReadingModel
    parts: ForeignTokenizer
    unknown = None

    def __init__(self, theirs: Any, tokenizer: ForeignTokenizer, name: str):
        model = ReadingModel(theirs, tokenizer.before, (), reads_last=True)
        settings = ForeignSettings(described(theirs))
        super().__init__(model, tokenizer, settings, home(name))
        self.name = name

    @property
    def tokenizer(self) -> ForeignTokenizer:
        return self.parts

    @property
    def around(self) -> tuple[int, int]:
        return self.model.around[0], 0

    @property
    def heads(self) -> int:
        return head_count(self.model.get_submodule(self.layers[-1]))

    @property
    def purpose(self) -> str:
        return "Continues texts, a token at a time."

    def answer(self, inputs: Sequence[str], *, tokens: int = NEW, **options: Any) -> list[Continuation]:
        """What the model writes after each text: at most so many tokens, greedily unless told otherwise."""
        return [self._continued(text, tokens, options) for text in inputs]

    def _continued(self, text: str, tokens: int, options: dict[str, Any]) -> Continuation:
        theirs, (ids,) = self.model.theirs, self.parts.encode_many([text])
        if not ids and not self.ahead:
            raise ValueError(f"the text {text!r} has no token: it cannot be continued.")
        if self.parts.most is not None:
            tokens = min(tokens, self.parts.most - len(self.parts.before) - len(ids))
            if tokens < 1:
                raise ValueError(f"the text fills all {self.parts.most:,} positions of the model.")
        given = torch.tensor([[*self.parts.before, *ids]], device=self.device)
        wanted = {"do_sample": False, "max_new_tokens": tokens, **options}
        end = self.parts.theirs.eos_token_id
        with torch.no_grad():
            found = theirs.generate(
                given, attention_mask=torch.ones_like(given), pad_token_id=end, output_logits=True,
                return_dict_in_generate=True, **wanted,
            )  # fmt: skip
        written = found.sequences[0, given.shape[1] :].tolist()
        written = written[: written.index(end)] if end in written else written
        logits = torch.stack(found.logits, 1)[0, : len(written)].double().log_softmax(-1)
        each = [float(logits[i, token]) for i, token in enumerate(written)]
        return Continuation(text, self.parts.decode(written), sum(each), each, ids, written)

    def forward(self, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Forward:
        """One pass over texts and what follows them, both given as tokens: logits (b, n, vocabulary)."""
        before = self.parts.before
        tokens, lengths = padded(
            [[*before, *i, *a] for i, a in zip(inputs, answers, strict=True)], self.device
        )
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(-1)
        logits = self.model.theirs(input_ids=tokens, attention_mask=real.long(), use_cache=False).logits
        return Forward(logits, lambda logits: logits)

    def tokens(self, answer: Continuation) -> tuple[list[int], list[int]]:
        return answer.tokens, answer.written

    def answer_segments(self, answer: Continuation) -> Segments:
        return segments_of_ids(self.parts, answer.written)

    def batch_weights(self, answers: Sequence[Continuation]) -> list[list[Tensor]]:
        """From each token that was written, at the position that predicted it, to the tokens of the text."""
        seen = self.recorded(answers, self.layers)
        found = []
        for i, one in enumerate(answers):
            first, n, m = self.ahead, len(one.tokens), len(one.written)
            rows = slice(first + n - 1, first + n - 1 + m)
            found.append([seen[path][-1].weights[i, :, rows, first : first + n] for path in self.layers])
        return found

    def self_weights(self, answer: Continuation) -> tuple[list[Tensor], int]:
        n = self.ahead + len(answer.tokens)
        seen = self.recorded([answer], self.layers)
        return [seen[path][-1].weights[0, :, :n, :n] for path in self.layers], self.ahead

    def sink(self, texts: Sequence[str]) -> float:
        """The share of all weight that sits on the first token, on average over these texts."""
        return self.sink_of(self.parts.encode_many(texts))

    def sink_of(self, tokens: Sequence[Sequence[int]]) -> float:
        """The same of texts given as tokens."""
        return sink_share(self.model, self.layers, lambda: self.forward(tokens, [[] for _ in tokens]))

    @property
    def facts(self) -> list[str]:
        share = self.sink(["The keys to the cabinet are on the table , and the door is open ."])
        return [f"{share:.0%} of the weight on the first token"]

    def choice(self, target: str, against: str | None) -> tuple[list[int], list[int]]:
        """What both continuations begin with, and the tokens at which they differ."""
        both = self.parts.encode_many([target] if against is None else [target, against])
        if not all(both):
            raise ValueError(f"{target!r} against {against!r}: a continuation needs at least one token.")
        theirs = self.parts.theirs
        for text, ids in zip((target, against), both, strict=False):
            if theirs.unk_token_id in ids and theirs.unk_token not in str(text):
                raise ValueError(f"{text!r} is unknown to the tokenizer: the model cannot say it.")
        if against is None:
            return [], both[0][:1]
        same = next((i for i, (a, b) in enumerate(zip(*both, strict=False)) if a != b), None)
        if same is None:
            raise ValueError(f"{target!r} and {against!r}: one begins with the other; nothing to choose.")
        return both[0][:same], [one[same] for one in both]

    def asked_about(self, target: str, against: str | None) -> tuple[dict[str, Any], str | None]:
        chosen = self.choice(target, against)[1]
        return {"target": target, "against": against}, self.parts.pieces(chosen)[0]

    def case(
        self, items: Sequence[Any], *, target: str | None = None, against: str | None = None, **more: Any
    ) -> Case:
        """What comes after texts, or after each (text, target, against); without targets, the likeliest."""
        check_several(items)
        texts = [(one, target, against) if isinstance(one, str) else tuple(one) for one in items]
        if not all(len(one) == 3 for one in texts):
            raise ValueError("a language model reads one text at a time: a text, or (text, target, against).")
        tokens: list[list[int]] = []
        seconds: list[list[int]] = []
        for text, wanted, other in texts:
            (ids,) = self.parts.encode_many([text])
            if not ids:
                raise ValueError(f"the text {text!r} has no token: there is nothing to explain or to audit.")
            if wanted is None:
                best = self.forward([ids], [[]]).logits(0, -1).argmax()
                shared, chosen = list[int](), [int(best)]
            else:
                shared, chosen = self.choice(wanted, other)
            tokens.append([*ids, *shared])
            seconds.append(chosen)
        if len({len(one) for one in seconds}) > 1:
            raise ValueError("either every text has a token that its target is compared with, or none.")
        alone = len(seconds[0]) == 1  # one token against all others: it is explained, however likely it is
        if all(one == seconds[0] for one in seconds):
            classes = [*self.parts.pieces(seconds[0]), OTHER][:2]
        else:
            classes = ["its next token", OTHER] if alone else ["target", "other"]
        words = [self.parts.pieces(one) for one in tokens]
        said = f"{self.sink_of(tokens[:FEW]):.1%} of the weight of {self.name} sits on the first token."
        named_parts = {"words": words, "classes": classes, "preamble": said}
        explained = torch.zeros(len(tokens), dtype=torch.long) if alone else None
        return case_of_model(self.model, tokens, seconds, explained=explained, **named_parts, **more)

    def score(self, examples: Sequence[str], **options: Any) -> Scores:
        """Perplexity per token of texts."""
        total, count = 0.0, 0
        for text in examples:
            (ids,) = self.parts.encode_many([text])
            with torch.no_grad():
                logits = self.forward([ids], [[]]).logits(0)[self.ahead - 1 if self.ahead else 0 : -1]
            wanted = torch.tensor(ids if self.ahead else ids[1:], device=logits.device)
            total -= float(logits.double().log_softmax(-1).gather(-1, wanted[:, None]).sum())
            count += len(wanted)
        value = float(torch.tensor(total / max(count, 1)).exp())
        return Scores(
            {"perplexity": value, "tokens": count}, f"perplexity {value:.2f} on {counted(count, 'token')}"
        )

    def audited(self, options: ChoiceAudit) -> tuple[Case, str]:
        if options.data is None:
            raise RunError(f"{self.name} is a language model: --data, texts with two tokens each, is needed.")
        items = []
        for number, line in enumerate(lines(options.data), 1):
            parts = line.split("\t")
            if len(parts) != 3:
                raise DataError(f"{options.data}, line {number}: text, tab, target, tab, against is needed.")
            items.append(tuple(parts))
        return self.case(items), f"{self.name} {items!r}"
