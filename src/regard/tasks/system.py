"""What `regard.load` returns: a trained model with all that is needed to use, see and question it.

    answer            what it says to inputs
    forward           a teacher-forced pass over inputs and answers; `record` around it sees the attentions
    attention_paths   its attentions by role: "cross" | "self" | "decoder_self" | "reader" …
    segments          the tokens and words of a text, and which token is in which word
    score             how good it is on examples
    case              what explanations and audits ask of it

`inspection`, views, the page, explanations and audits use these names and nothing else of a task.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor, nn

from regard.attention import Attended, concat_steps
from regard.core.errors import RunError, WeightsError
from regard.core.tokens import UNK
from regard.data.labelled import Classes
from regard.data.segments import Segments, Span, segments
from regard.data.tokenizer import Tokenizer
from regard.recording import Record, intervene, record

if TYPE_CHECKING:
    from regard.tasks.case import Case
    from regard.tasks.task import Task
    from regard.views.ellipses import Ellipse


EXAMPLES = 3  # texts that are offered to begin with


class Answer(Protocol):
    """What a system says to one input; every task has a class of its own."""

    @property
    def said(self) -> str:
        """The answer as text: a translation, a class, a number."""
        ...

    @property
    def log_prob(self) -> float | None:
        """Its log-probability by the model, where it has one."""
        ...

    @property
    def probabilities(self) -> Mapping[str, float]:
        """Of every possible answer, where they are few: the classes; else empty."""
        ...


@dataclass(frozen=True, eq=False)
class Forward:
    """What a teacher-forced pass computed."""

    hidden: Any  # hidden states (b, m, width), whatever logits are made of
    read: Callable[[Any], Tensor] = field(repr=False)

    def logits(self, *index: Any) -> Tensor:
        """Logits of all hidden states, or of those at an index: logits(rows, positions)."""
        return self.read(self.hidden[index] if index else self.hidden)


@dataclass(frozen=True)
class Scores:
    """How good a system is: figures for programs, a line and a table for people."""

    figures: dict[str, Any]  # what `regard evaluate --json` prints
    line: str  # "BLEU 39.5, chrF 63.7 on 1,000 sentences"
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()  # further lines

    def __getitem__(self, name: str) -> Any:
        return self.figures[name]


@dataclass(frozen=True)
class Reply:
    """What `regard answer` prints: an answer, and where it comes from."""

    said: str
    facts: dict[str, Any]  # what `regard answer --json` prints
    text: str = ""  # what was read, if it is to be shown
    marked: tuple[tuple[int, int], ...] = ()  # characters of it, from start to end, that stand out
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()  # a table: the sentences of a story and their weights
    notes: tuple[str, ...] = ()  # further lines


class OneOfMany:
    """An answer of which there are too many to list the probabilities of all."""

    @property
    def probabilities(self) -> dict[str, float]:
        """None."""
        return {}


class WrittenAnswer(OneOfMany):
    """An answer that is a text."""

    text: str

    @property
    def said(self) -> str:
        """The text."""
        return self.text


class LabelAnswer:
    """An answer that is one of a few labels, the most likely one."""

    label: str
    probabilities: dict[str, float]

    @property
    def said(self) -> str:
        """The label."""
        return self.label

    @property
    def log_prob(self) -> float:
        """Of the label."""
        return math.log(max(self.probabilities[self.label], 1e-300))


class System:
    """A trained model of any task."""

    task: "Task"
    role: str = "cross"  # of the attentions that are shown: from the answer to the input
    picture: Literal["heat_map", "words", "image"] = "heat_map"  # how their weights are drawn
    attentions: tuple[str, ...] = ()  # that can be shown, the one of `role` first: cross, encoder, decoder
    whole: str = "text"  # what an input is, for captions: "text", "picture"
    most_characters: int | None = None  # of an input; None: as many as its tokens may have
    sinks: bool = False  # whether its first key takes weight whatever it is, as in decoders
    second_name: str = "Second text"  # what it is called, where an input is two
    kinds: str = "classes"  # what its labels are called
    units: str = "words"  # what `segments` cuts a text into, as captions call it
    rows: str = "answer"  # what the rows of these weights are the words of
    deletions: tuple[str, ...] = ("delete",)  # ways to take words out of an input
    unknown: int | None = UNK  # the token of what is not in its vocabulary

    def __init__(self, model: Any, parts: Any, settings: Any, folder: Path | None = None):
        self.model: Any = model.eval() if isinstance(model, nn.Module) else model
        self.parts, self.settings, self.folder = parts, settings, folder

    # What every task says anew

    def answer(self, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """The answer to each input, in order."""
        raise NotImplementedError

    def forward(self, inputs: Sequence[Any], answers: Sequence[Any]) -> Forward:
        """One pass over inputs and answers, both given as tokens."""
        raise RunError(f"a {self.task.makes} has no forward pass over inputs and answers.")

    def score(self, examples: Sequence[Any], **options: Any) -> Scores:
        """How good it is on examples as `task.read` gives them, without where they stand."""
        raise NotImplementedError

    def evaluate(self, options: Any, progress: Callable[[int, int], None] | None = None) -> Scores:
        """How good it is on the files that `regard evaluate` was given; `progress` hears done and total."""
        raise NotImplementedError

    def reply(self, options: Any) -> Reply:
        """The answer to a question, for `regard answer`; options are of `task.Asking`."""
        raise RunError(f"{self.folder} holds a {self.task.makes}, which answers no questions.")

    def case(self, items: Sequence[Any], **options: Any) -> "Case":
        """What explanations and audits ask: texts, answers, weights, and answers with other weights."""
        raise RunError(
            f"a {self.task.makes} has no decision about a text that could be explained or audited."
        )

    def asked_about(self, target: str, against: str | None) -> tuple[dict[str, Any], str | None]:
        """Options of `case`, and the class in it, for which a text speaks for `target`, not for `against`."""
        if against is not None:
            raise ValueError(f"a {self.task.makes} has classes: {target!r} is compared with all others.")
        return {}, target

    def audited(self, options: Any) -> "tuple[Case, str]":
        """The case of the files that options of `regard audit` name, and their content in one string."""
        raise RunError(f"{self.folder} holds a {self.task.makes}, which cannot be audited.")

    def classify(self, inputs: Sequence[Any], /, *, batch: int | None = None) -> list[Any]:
        """The class of each input."""
        raise RunError(f"a {self.task.makes} does not classify: it has no classes.")

    def caption(self, inputs: Sequence[Any], /, *, beam: int | None = None) -> list[Any]:
        """A sentence about each picture."""
        raise RunError(f"a {self.task.makes} writes no captions.")

    def align(self, pairs: Sequence[tuple[str, str]], **options: Any) -> Any:
        """Word links of sentence pairs."""
        raise RunError(f"a {self.task.makes} does not align words.")

    @property
    def tokenizer(self) -> Tokenizer:
        """What cuts the texts that it reads."""
        found: Tokenizer | None = getattr(self.parts, "tokenizer", None)
        if found is None:
            raise RunError(f"a {self.task.makes} has no tokenizer.")
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its classes, in the order of the logits; none if it has no classes."""
        classes: Classes | None = getattr(self.parts, "classes", None)
        return () if classes is None else classes.names

    def segments(self, text: str, spans: Sequence[Span] | None = None) -> Segments:
        """The tokens and words of a text that it reads; `spans` are its words, if they are known."""
        return segments(self.tokenizer, text, spans)

    # What follows from these, unless a task knows better

    @property
    def takes_second(self) -> bool:
        """Whether an input is two texts."""
        return False

    @property
    def around(self) -> tuple[int, int]:
        """Keys of its attentions before and after the tokens of the input, as BERT's [CLS] and [SEP]."""
        return 0, 0

    @property
    def ahead(self) -> int:
        """Those before."""
        return self.around[0]

    @property
    def behind(self) -> int:
        """Those after."""
        return self.around[1]

    @property
    def attention_paths(self) -> dict[str, list[str]]:
        """The paths of its attentions in `model`, by role."""
        paths: dict[str, list[str]] = self.model.attention_paths
        return paths

    @property
    def layers(self) -> list[str]:
        """The attentions that are shown, one for each layer, the last layer last."""
        return self.attention_paths.get(self.role, [])

    @property
    def map_name(self) -> str:
        """The map of its attentions, by name; "" if its settings name none."""
        return str(self.settings.model.get("map", ""))

    @property
    def layer_names(self) -> list[str]:
        """A name for each of the `weights`: the path of the attention, or what they are made of."""
        return list(self.layers)

    @property
    def masked_paths(self) -> list[str]:
        """The attentions in which `masking` changes the weights."""
        return self.layers

    @property
    def heads(self) -> int:
        """Heads of each of them; 0 if there are none."""
        return int(self.settings.model.get("heads", 1)) if self.layers else 0

    @property
    def device(self) -> torch.device:
        """Where its model is."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def facts(self) -> list[str]:
        """What else a person might want to know of it: "beam 5", "2 classes"."""
        return [f"{len(self.labels)} {self.kinds}"] if self.labels else []

    @cached_property
    def held_out(self) -> list[Any]:
        """A few examples that it was not trained on, where they are generated; else none."""
        if not self.settings.data.generated:
            return []
        return [one for _, one in islice(self.task.read(self.settings, "valid"), EXAMPLES)]

    @property
    def examples(self) -> list[str]:
        """Their texts, for people to begin with."""
        return []

    @property
    def second_examples(self) -> list[str]:
        """The second texts of these, where an input is two."""
        return []

    @property
    def example(self) -> str:
        """The first of them, or nothing."""
        return next(iter(self.examples), "")

    @property
    def purpose(self) -> str:
        """What it is for, in a sentence: the first of its README."""
        return f"A {self.task.makes}."

    def input(self, text: str, second: str | None = None) -> Any:
        """An input of `answer`, from what a person types."""
        return text if second is None else (text, second)

    @property
    def own_views(self) -> dict[str, Callable[[str], Any]]:
        """Views that only this kind of system has, of a text, by the name of `regard view --kind`."""
        return {}

    @property
    def sample(self) -> Any:
        """Any input that it can answer."""
        return self.input("a", "a" if self.takes_second else None)

    def check_received(self, text: str) -> None:
        """ValueError unless an input from the network may be read: it names no file of this host."""

    def without(
        self, whole: Segments, words: Collection[int], how: str = "delete"
    ) -> tuple[Segments, list[int]]:
        """What is read when words (numbers) are deleted, and the numbers of the words in it.

        `how` is one of `deletions`.
        """
        rest = self.segments(*whole.remaining(words))
        return rest, [i for i in range(len(whole.words)) if i not in words]

    def drawn_picture(self, answer: Any) -> Any:
        """The picture (h, w, 3) under the weights of an answer, where `picture` is "image"."""
        raise RunError(f"a {self.task.makes} reads no picture.")

    def drawn_input(self, given: Any) -> Any:
        """The picture (h, w, 3) of an input, where `picture` is "image"."""
        raise RunError(f"a {self.task.makes} reads no picture.")

    def densities(self, answer: Any) -> "list[list[Ellipse]]":
        """Of each layer, for each row of its weights, the density over the picture; [] if there are none."""
        return []

    def without_regions_as(self, baseline: str) -> dict[str, Any]:
        """Options of `case` that say what stands in the place of a deleted region of a picture."""
        raise ValueError(f"a {self.task.makes} reads no picture: there are no regions to be {baseline}.")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of its regions, where it reads pictures."""
        raise RunError(f"a {self.task.makes} reads no picture.")

    @property
    def receptive(self) -> tuple[int, int, float] | None:
        """What a region has seen of the picture, in pixels (`regard.views.image`); None if not known."""
        return None

    def answer_segments(self, answer: Any) -> Segments:
        """The tokens and words of an answer, the rows of its weights; unless it is a text, one."""
        whole = (0, len(answer.said))
        return Segments(answer.said, [0], [whole], [answer.said], [whole], [0])

    def tokens(self, answer: Any) -> tuple[Any, Any]:
        """Input and answer of an answer, as `forward` takes them."""
        return answer.tokens, []

    def recorded(self, answers: Sequence[Any], paths: Sequence[str]) -> Record:
        """What attentions do, by path, while the model reads inputs and answers once more."""
        given, said = zip(*map(self.tokens, answers), strict=True)
        with torch.no_grad(), record(self.model, paths) as seen:
            self.forward(given, said)
        return seen

    def attended(self, answer: Any, paths: Sequence[str] | None = None) -> dict[str, Attended]:
        """The same of one answer, all steps together: weights (1, [heads,] m, n); default: of its layers."""
        paths = self.layers if paths is None else paths
        seen = self.recorded([answer], paths) if paths else {}
        return {path: concat_steps(seen[path]) for path in paths}

    def weights(self, answer: Any) -> list[Tensor]:
        """The weights between the tokens of an answer and its input, (heads, m, n), for each layer name."""
        return self.batch_weights([answer])[0]

    def batch_weights(self, answers: Sequence[Any]) -> list[list[Tensor]]:
        """The `weights` of each answer, read as one batch: equal to rounding, as padding changes last bits.

        Rows after those of an answer are of padding. A task that has `weights` of its own is asked for each.
        """
        if type(self).weights is not System.weights:
            return [self.weights(answer) for answer in answers]
        seen = self.recorded(answers, self.layers) if self.layers else {}
        layers = [concat_steps(seen[path]).over_tokens for path in self.layers]  # each (b, [heads,] m, n)
        layers = [one if one.dim() == 4 else one.unsqueeze(1) for one in layers]
        read = [self.ahead + len(self.tokens(answer)[0]) for answer in answers]
        return [[one[i, ..., :n] for one in layers] for i, n in enumerate(read)]

    def self_weights(self, answer: Any) -> tuple[list[Tensor], int]:
        """Self-attention over the input, (heads, n, n) of each layer, and how many keys come before it."""
        paths = self.attention_paths.get("self", [])
        if not paths:
            raise RunError(f"this {self.task.makes} has no self-attention over its input.")
        return [one.over_tokens[0] for one in self.attended(answer, paths).values()], self.ahead

    def answer_weights(self, answer: Any) -> list[Tensor]:
        """Self-attention of a decoder, (heads, m, 1 + m) of each layer: each token of the answer, at the
        position that predicted it, over the start and the tokens of the answer."""
        raise RunError(f"this {self.task.makes} has no self-attention over its answer.")

    def masking(self, tokens: Sequence[int]) -> AbstractContextManager[None]:
        """A block in which these tokens of the input (positions) get no weight, the rest renormalised."""
        if not tokens:
            return nullcontext()
        keys = [self.ahead + token for token in tokens]
        return intervene(self.model, lambda weights: erase(weights, keys), self.masked_paths)


def check_finite(logits: Tensor) -> None:
    """WeightsError if an answer is not a number."""
    if not bool(logits.isfinite().all()):
        raise WeightsError("the model's answer is not a number: its weights are damaged or diverged.")


def most_likely(logits: Tensor, labels: Sequence[str]) -> list[tuple[str, dict[str, float]]]:
    """The label of each row of logits (b, labels), and the probabilities of all."""
    check_finite(logits)
    found = [dict(zip(labels, row, strict=True)) for row in logits.double().softmax(-1).tolist()]
    return [(max(one, key=one.__getitem__), one) for one in found]


def erase(weights: Tensor, keys: Sequence[int]) -> Tensor:
    """Weights (..., m, n) without these keys, the rest renormalised.

        p'_j = 0 for j erased,      p'_j = p_j Σp / Σ_{k kept} p_k otherwise

    A row keeps its sum. Where all of it was on erased keys, as a sparse map allows, the row is 0 and so is
    its context. With softmax this is the same as a mask. Serrano & Smith (2019), arXiv:1906.03731, §3.
    """
    kept = torch.ones(weights.shape[-1], dtype=torch.bool, device=weights.device)
    kept[list(keys)] = False
    rest = torch.where(kept, weights, 0)
    left = rest.sum(-1, keepdim=True)
    return rest * (weights.sum(-1, keepdim=True) / torch.where(left > 0, left, 1))  # no 0/0, nor its gradient
