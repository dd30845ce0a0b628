"""The case of a captioner: each word of a caption is a decision, about the regions of its picture.

Predicted is the next token, given the tokens of the caption before it (teacher forcing); what is explained is
the token that the caption has there. Attention is that of this one step: other weights are put into it alone,
and the steps before it keep their own. Where there are many steps, some are drawn at random.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from regard.core.tokens import BOS, EOS
from regard.data.corpora.scenes import Captioned
from regard.data.images import Box, Pixels
from regard.models.captioners.show_attend_tell import ShowAttendTell, State
from regard.models.images.image_model import ImageModel
from regard.recording import record
from regard.tasks.captioner import Caption, Captioner
from regard.tasks.case import Case
from regard.tasks.image_case import OverRegions, case_of_regions, check_pictures
from regard.tasks.region_baselines import Baseline

STEPS = 300  # that are drawn


class NextWord(ImageModel):
    """A captioner as a classifier of pictures: given the words before, which is next?

    Words before are (b, m), BOS first, aligned at the end; row i begins at column first[i]. So the last step
    of all rows is the one that is asked about.
    """

    def __init__(self, captioner: ShowAttendTell):
        super().__init__(captioner.config)
        self.captioner, self.grid = captioner, captioner.grid
        self.attention_paths = {
            "reader": [f"captioner.{path}" for path in captioner.attention_paths["cross"]]
        }

    def from_normalised(self, x: Tensor, *before: Tensor) -> Tensor:
        return self.last_step(*self.all_but_last(x, *before))()

    def all_but_last(self, x: Tensor, written: Tensor, first: Tensor) -> tuple[Tensor, State, Any]:
        """The last token (b,), the state that it meets, and the memory, of pictures (b, c, h, w)."""
        memory = self.captioner.encode_normalised(x)
        state = self.captioner.start(memory)
        for t in range(int(first.min()), written.shape[1] - 1):
            _, after = self.captioner.step(written[:, t], state, memory)
            begun = (t >= first).unsqueeze(-1)  # (b, 1)
            state = replace(
                state,
                **{
                    one.name: torch.where(begun, getattr(after, one.name), getattr(state, one.name))
                    for one in fields(state)
                },
            )
        return written[:, -1], state, memory

    def last_step(self, tokens: Tensor, state: State, memory: Any) -> Callable[[], Tensor]:
        """A function that makes the last step: logits (b, vocabulary)."""
        return lambda: self.captioner.logits(self.captioner.step(tokens, state, memory)[0])


class OverWords(OverRegions):
    """A captioner as a model of regions; other weights need the last step alone."""

    model: NextWord

    def looked(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The weights of the last step (b, 1, n), and a function from other weights to logits."""
        with torch.no_grad():
            images = self.put_together(self.embed(tokens), lengths, tokens)
            step = self.model.last_step(*self.model.all_but_last(images, *self.more_of(tokens)))
            with record(self.model, self.model.attention_paths["reader"]) as seen:
                step()

        def again(weights: Tensor) -> Tensor:
            with self.model.looking_with(weights):
                return step()

        return self.model.over_cells(seen), again


def case_of_captions(
    system: Captioner,
    items: Sequence[Any],
    *,
    word: str | None = None,
    baseline: Baseline = "grey",
    most: int | None = STEPS,
    seed: int = 0,
    **more: Any,
) -> Case:
    """The case of a captioner and pictures, pairs (picture, caption), or captioned ones with boxes.

    Without a caption it is the system's own. `word` leaves only the steps of this word of the captions; of
    more than `most` steps, some are drawn.
    """
    check_pictures(system, items)
    captions = _with_captions(system, items)
    written = [one.target_tokens for one in captions]
    steps = [(i, t) for i, tokens in enumerate(written) for t in range(len(tokens) + 1)]
    if word is not None:
        steps = _steps_of(system, captions, word)
    if most is not None and len(steps) > most:
        drawn = torch.randperm(len(steps), generator=torch.Generator().manual_seed(seed))[:most]
        steps = [steps[k] for k in drawn.sort().values.tolist()]
    pictures = torch.tensor([i for i, _ in steps], device=system.device)
    pixels = system.stacked([one.pixels for one in captions])
    before = _aligned([[BOS, *written[i][:t]] for i, t in steps], system.device)
    model = OverWords(NextWord(system.model), pixels, before, pictures, baseline)
    tokens = torch.tensor([[*written[i], EOS][t] for i, t in steps])
    boxes = [_boxes(system, one, caption) for one, caption in zip(items, captions, strict=True)]
    if any(box is not None for some in boxes for box in some):
        marked = [boxes[i][t] for i, t in steps]
        nowhere = [False] * system.regions
        more["highlights"] = [
            nowhere if box is None else (system.share_in(box) > 0).tolist() for box in marked
        ]
    return case_of_regions(
        system,
        model,
        len(steps),
        labels=tokens,
        explained=tokens,
        classes=system.tokenizer.pieces(range(len(system.tokenizer))),
        inputs_of=[i for i, _ in steps],
        **more,
    )


def _with_captions(system: Captioner, items: Sequence[Any]) -> list[Caption]:
    """Every picture with its caption; the system's own where there is none."""
    found: dict[int, Caption] = {}
    own: dict[int, Pixels] = {}
    for i, one in enumerate(items):
        if isinstance(one, Captioned):
            picture, text = one.pixels, one.caption
        else:
            picture, text = one if isinstance(one, tuple) else (one, None)
        read = system.read(picture)
        if text is None:
            own[i] = read.pixels
            continue
        tokens = system.tokenizer.encode(text)
        if not tokens:
            raise ValueError(f"the caption {text!r} has no word.")
        found[i] = Caption(read.name, read.pixels, text, 0.0, tokens, system)
    found.update(zip(own, system.caption(list(own.values())), strict=True))
    return [found[i] for i in range(len(items))]


def _steps_of(system: Captioner, captions: Sequence[Caption], word: str) -> list[tuple[int, int]]:
    """The steps in which a word is written; ValueError if there is none."""
    found = []
    for i, caption in enumerate(captions):
        said = system.answer_segments(caption)
        found += [(i, t) for t, number in enumerate(said.word_of) if said.words[number] == word]
    if not found:
        texts = "; ".join(repr(caption.text) for caption in captions[:3])
        raise ValueError(f"{word!r} is no word of the caption {texts}.")
    return found


def _boxes(system: Captioner, item: Any, caption: Caption) -> list[Box | None]:
    """For each token of a caption, and its end, the box of what its word names, or None."""
    none: list[Box | None] = [None] * (len(caption.target_tokens) + 1)
    if not isinstance(item, Captioned) or not item.boxes:
        return none
    said = system.answer_segments(caption)
    if len(said.words) != len(item.boxes):
        return none
    return [*(item.boxes[number] for number in said.word_of), None]


def _aligned(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens (b, m), rows aligned at their ends, and the column in which each begins (b,)."""
    m = max(map(len, rows))
    tokens = torch.tensor([[*[BOS] * (m - len(row)), *row] for row in rows], device=device)
    return tokens, torch.tensor([m - len(row) for row in rows], device=device)
