"""A trained machine: a sequence in, what the algorithm makes of it out, and what its heads did."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.corpora.algorithms import Algorithm, Posed
from regard.data.padding import batches_by_length
from regard.data.segments import Segments, Span, split_at_spaces
from regard.models.algorithm.algorithm_model import Run
from regard.tasks.algorithm import ALGORITHM, AlgorithmEvaluation, AlgorithmSettings
from regard.tasks.system import Forward, OneOfMany, Scores, System, check_finite
from regard.views import heat_map
from regard.views.base_view import View

POSITIONS = 8192  # steps that are computed at once, padding included
TIMES = (1, 2, 3)  # lengths that are tried, in those trained on; the second is what counts


@dataclass(frozen=True, eq=False)
class Output(OneOfMany):
    """What a machine says to one sequence."""

    text: str
    said: str  # words of bits
    logits: Tensor = field(repr=False)  # (m, outputs), at the steps at which something is asked
    posed: Posed = field(repr=False)
    tokens: list[int] = field(repr=False)  # the numbers of the words of the text

    @property
    def log_prob(self) -> float:
        """Of the bits it says, which are the likeliest ones."""
        return float(torch.nn.functional.logsigmoid(self.logits.double().abs()).sum())

    @property
    def errors(self) -> int:
        """Bits that are wrong."""
        right = torch.from_numpy(self.posed.targets[self.posed.scored]) > 0.5
        return int(((self.logits.cpu() > 0) != right).sum())


class Machine(System):
    """A model with the algorithm that it was to learn."""

    task = ALGORITHM
    role = "memory"
    units, unknown = "vectors", None
    settings: AlgorithmSettings

    @cached_property
    def algorithm(self) -> Algorithm:
        """What it was to learn."""
        return self.settings.data.algorithm

    @property
    def facts(self) -> list[str]:
        data = self.settings.data
        return [data.corpus, f"{data.shortest} to {data.longest} {self.algorithm.unit}"]

    @property
    def purpose(self) -> str:
        data = self.settings.data
        return (
            f"Learned {data.corpus.replace('_', ' ')} ({self.algorithm.says}) from sequences of "
            f"{data.shortest} to {data.longest} {self.algorithm.unit}."
        )

    @property
    def examples(self) -> list[str]:
        return self.held_out

    # Answers

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Output]:
        posed = [self.algorithm.posed(text) for text in inputs]
        found: dict[int, Output] = {}
        for some in batches_by_length([len(one.inputs) for one in posed], POSITIONS):
            with torch.no_grad():
                logits = self.run([posed[i] for i in some]).logits
            check_finite(logits)
            for i, row in zip(some, logits, strict=True):
                asked = row[: len(posed[i].inputs)][torch.from_numpy(posed[i].scored)]
                said = self.algorithm.written((asked > 0).cpu().numpy())
                words = list(range(len(inputs[i].split())))
                found[i] = Output(inputs[i], said, asked, posed[i], words)
        nothing = torch.zeros(0, self.algorithm.outputs)
        return [found.get(i, Output(text, "", nothing, posed[i], [])) for i, text in enumerate(inputs)]

    def run(self, posed: Sequence[Posed]) -> Run:
        """What the model does with sequences; shorter ones are padded at the end."""
        steps = max(len(one.inputs) for one in posed)
        inputs = np.zeros((len(posed), steps, self.algorithm.inputs), np.float32)
        for row, one in zip(inputs, posed, strict=True):
            row[: len(one.inputs)] = one.inputs
        found: Run = self.model.run(torch.from_numpy(inputs).to(self.device))
        return found

    def forward(self, inputs: Sequence[Posed], answers: Sequence[Any] = ()) -> Forward:
        """Logits (b, t, outputs) of sequences."""
        return Forward(self.run(inputs).logits, lambda logits: logits)

    def tokens(self, answer: Output) -> tuple[Posed, list[int]]:
        return answer.posed, []

    # What its heads do

    def segments(self, text: str, spans: Sequence[Span] | None = None) -> Segments:
        """The vectors of a text; each is a token and a word."""
        spans = split_at_spaces(text) if spans is None else list(spans)
        numbers = list(range(len(spans)))
        return Segments(text, numbers, spans, [text[a:b] for a, b in spans], spans, numbers)

    def answer_segments(self, answer: Output) -> Segments:
        return self.segments(answer.said)

    @property
    def layers(self) -> list[str]:
        """One, if there is a memory."""
        return self.attention_paths.get(self.role, [])

    @property
    def layer_names(self) -> list[str]:
        """What `weights` are made of: weights of heads that read and of heads that write."""
        return ["read × written"] if self.layers else []

    @property
    def masked_paths(self) -> list[str]:
        """None: heads look at locations, not at inputs."""
        return []

    @property
    def heads(self) -> int:
        return int(self.settings.model.get("reading", 1)) if self.layers else 0

    def weights(self, answer: Output) -> list[Tensor]:
        """From what is said to what was given, (heads, m, n): Σ_i read_t(i) written_s(i) over locations i."""
        if not self.layers:
            return []
        with torch.no_grad():
            seen = self.run([answer.posed])
        assert seen.reads is not None and seen.writes is not None
        scored = torch.from_numpy(answer.posed.scored)
        written = seen.writes[0].amax(0)[answer.posed.steps]  # (n, locations), by any head
        return [seen.reads[0][:, scored] @ written.T]

    @property
    def own_views(self) -> dict[str, Callable[[str], View]]:
        """`regard view --kind memory`: where the heads are, step by step."""
        return {"memory": self.memory_view} if self.layers else {}

    def memory_view(self, text: str) -> View:
        """The weights of every head over time: locations across, steps down."""
        posed = self.algorithm.posed(text)
        with torch.no_grad():
            seen = self.run([posed])
        assert seen.reads is not None and seen.writes is not None
        kinds = {"writing": seen.writes[0], "reading": seen.reads[0]}
        named = {
            f"{kind} head {k + 1}" if len(heads) > 1 else f"{kind} head": head
            for kind, heads in kinds.items()
            for k, head in enumerate(heads)
        }
        used = 1 + int(torch.stack(list(named.values())).amax((0, 1)).gt(0.01).nonzero().max())
        words = dict(zip(posed.steps, text.split(), strict=False))
        asked = posed.scored.tolist()
        rows = [words.get(t, "answer" if asked[t] else "flag") for t in range(len(posed.inputs))]
        return heat_map(
            {name: head[:, :used] for name, head in named.items()},
            [str(i + 1) for i in range(used)],
            rows,
            title=f"{self.settings.data.corpus}: {len(posed.inputs)} steps",
            caption=f"Weights of the heads over the first {used} of {kinds['reading'].shape[-1]} locations.",
        )

    # Scores

    def score(self, examples: Sequence[str], **options: Any) -> Scores:
        """The share of sequences without an error, and of wrong bits."""
        figures = self.quality(examples)
        line = (
            f"bit error {figures['bit_error']:.4f}, {figures['accuracy']:.4f} of {len(examples):,} sequences "
            "without an error"
        )
        return Scores(figures, line)

    def quality(self, examples: Sequence[str]) -> dict[str, float]:
        """Of sequences: accuracy, bit_error, errors of a sequence, and how many there are."""
        answers = self.answer(examples)
        errors = sum(one.errors for one in answers)
        bits = sum(one.logits.numel() for one in answers)
        return {
            "accuracy": sum(one.errors == 0 for one in answers) / max(len(answers), 1),
            "bit_error": errors / max(bits, 1),
            "errors_per_sequence": errors / max(len(answers), 1),
            "sequences": len(answers),
        }

    def evaluate(
        self, options: AlgorithmEvaluation, progress: Callable[[int, int], None] | None = None
    ) -> Scores:
        longest = self.settings.data.longest
        lengths = [options.length] if options.length is not None else [k * longest for k in TIMES]
        by_length: dict[str, dict[str, float]] = {}
        for done, length in enumerate(lengths):
            chance = np.random.default_rng([options.seed, length, 2])
            drawn = [self.algorithm.draw(chance, length) for _ in range(options.sequences)]
            by_length[str(length)] = self.quality(drawn)
            if progress is not None:
                progress(done + 1, len(lengths))
        length = lengths[min(1, len(lengths) - 1)]
        figures = {"length": length, "trained_on": longest, **by_length[str(length)], "by_length": by_length}
        line = (
            f"bit error {figures['bit_error']:.4f} at length {length} (trained on up to {longest}), "
            f"{figures['accuracy']:.4f} of {options.sequences:,} sequences without an error"
        )
        rows = tuple(
            (name, f"{by['bit_error']:.4f}", f"{by['accuracy']:.4f}", f"{by['errors_per_sequence']:.2f}")
            for name, by in by_length.items()
        )
        return Scores(figures, line, ("length", "bit error", "without error", "errors each"), rows)
