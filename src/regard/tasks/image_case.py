"""The case of a model of pictures: regions are what words are to a text.

A token is a region of one of the decisions: decision · regions + region. A classifier decides once about a
picture, a captioner once for each word. A text without some tokens is the picture with these regions painted
in the mean colour of the training pictures, or blurred (`region_baselines`). The vector of a region are its
normalised pixels, less those of this baseline, so that gradients by vectors are gradients by pixels and the
vector 0 is a region that is not there. Of a model that looks several times, the last look is explained.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import RunError
from regard.data.corpora.scenes import Asked
from regard.data.images import LabelledImage
from regard.data.padding import padded
from regard.models.subject import Subject, eval_mode, slopes, subject
from regard.recording import intervene, record
from regard.tasks.case import Case, Texts, WithWeights
from regard.tasks.picture_system import PictureSystem, region_numbers
from regard.tasks.region_baselines import Baseline, baseline_pictures


class OverRegions(nn.Module):
    """A model of pictures as a model of regions: embed gives their pixels, from_embedded puts them together.

    `more` are further inputs of the model, a row for each decision, as the tokens of questions; `pictures`
    (N,) says which picture each decision is about, if not each about its own.
    """

    def __init__(
        self,
        model: Any,
        pixels: Tensor,
        more: Sequence[Tensor] = (),
        pictures: Tensor | None = None,
        baseline: Baseline = "grey",
    ):
        super().__init__()
        self.model, self.more = model, more
        rows, columns = model.grid
        self.regions, self.size = rows * columns, tuple(pixels.shape[1:])
        self.pictures = torch.arange(len(pixels), device=pixels.device) if pictures is None else pictures
        images = model.normalise(pixels)  # (N, c, h, w)
        self.ground = baseline_pictures(baseline, images, model.grid)
        self.images = images - self.ground
        of = region_numbers(model.grid, (self.size[1], self.size[2])).flatten()
        order = of.argsort(stable=True)
        counts = of.bincount(minlength=self.regions)
        place = torch.arange(len(of)) - (counts.cumsum(0) - counts)[of[order]]
        self.at = torch.full((self.regions, int(counts.max())), -1)  # pixels of each region; −1: no more
        self.at[of[order], place] = order
        *self.earlier, last = model.attention_paths["reader"]  # looks before the last, which is explained
        self.attention_paths = {"reader": [f"model.{last}"]}

    def embed(self, tokens: Tensor) -> Tensor:
        """Regions (b, n) to their pixels (b, n, c · most)."""
        picture, region = self.pictures[tokens // self.regions], tokens % self.regions
        at = self.at[region]  # (b, n, most)
        flat = self.images.flatten(2)  # (N, c, h · w)
        found = flat[picture.unsqueeze(-1), :, at.clamp(min=0)]  # (b, n, most, c)
        return torch.where((at >= 0).unsqueeze(-1), found, 0).flatten(-2)

    def condition(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Which regions these are."""
        return tokens

    def put_together(self, embedded: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        """Normalised pictures (b, c, h, w) of these regions; all others are as the baseline is."""
        c, h, w = self.size
        there = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(-1)
        at = self.at[tokens % self.regions]  # (b, n, most)
        real = (at >= 0) & there.unsqueeze(-1)
        values = torch.where(real.unsqueeze(-1), embedded.unflatten(-1, (-1, c)), 0)  # (b, n, most, c)
        place = torch.where(real, at, h * w).flatten(1)  # what is padding goes beyond the end
        flat = values.new_zeros(len(tokens), h * w + 1, c)
        flat = flat.scatter(1, place.unsqueeze(-1).expand(-1, -1, c), values.flatten(1, 2))
        found: Tensor = flat[:, : h * w].transpose(1, 2).unflatten(-1, (h, w))
        return found + self.ground[self.pictures[tokens[:, 0] // self.regions]]

    def more_of(self, tokens: Tensor) -> list[Tensor]:
        """The further inputs of the decisions whose regions these are."""
        which = tokens[:, 0] // self.regions
        return [one[which] for one in self.more]

    def from_embedded(self, embedded: Tensor, lengths: Tensor, condition: Tensor) -> Tensor:
        """Logits of pictures of these regions."""
        images = self.put_together(embedded, lengths, condition)
        logits: Tensor = self.model.from_normalised(images, *self.more_of(condition))
        return logits

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits (b, classes) of regions (b, n), the first `lengths` (b,) of each row."""
        return self.from_embedded(self.embed(tokens), lengths, tokens)

    def looked(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The weights over all cells (b, k, n), and a function from other weights to logits (b, classes)."""
        more = self.more_of(tokens)
        with torch.no_grad(), record(self.model, self.model.attention_paths["reader"]) as seen:
            h = self.model.annotations(self.put_together(self.embed(tokens), lengths, tokens))
            self.model.from_annotations(h, *more)

        def again(weights: Tensor) -> Tensor:
            with self.model.looking_with(weights):
                found: Tensor = self.model.from_annotations(h, *more)
                return found

        return self.model.over_cells(seen), again


def case_of_pictures(
    system: PictureSystem,
    items: Sequence[Any],
    more_inputs: Sequence[Tensor] = (),
    *,
    baseline: Baseline = "grey",
    **more: Any,
) -> Case:
    """The case of a system and pictures, or labelled pictures with or without boxes."""
    check_pictures(system, items)
    given = [
        one.pixels if isinstance(one, LabelledImage | Asked) else system.read(one).pixels for one in items
    ]
    pixels = torch.from_numpy(np.stack(given)).to(system.device)
    known = [one for one in items if isinstance(one, LabelledImage | Asked)]
    if len(known) == len(items):
        number = system.parts.classes.number
        more.setdefault("labels", torch.tensor([number[one.label] for one in known]))
        if all(one.box is not None for one in known):
            inside = [system.share_in(one.box) > 0 for one in known if one.box is not None]
            more.setdefault("highlights", [row.tolist() for row in inside])
    model = OverRegions(system.model, pixels, more_inputs, baseline=baseline)
    return case_of_regions(system, model, len(given), classes=system.parts.classes.names, **more)


def check_pictures(system: PictureSystem, items: Sequence[Any]) -> None:
    """Raise what says why there is no case: no pictures, or no attention."""
    if isinstance(items, str) or not len(items):
        raise ValueError("pictures are needed: a list of at least one.")
    if not system.layers:
        raise RunError(f"this {system.task.makes} has no attention over regions: there is nothing to audit.")


def case_of_regions(system: PictureSystem, model: OverRegions, decisions: int, **more: Any) -> Case:
    """The case of so many decisions of a model of regions."""
    names, n, device = system.segments("").words, system.regions, system.device

    def predictor(texts: Texts, rows: Tensor) -> Tensor:
        with eval_mode(model), torch.no_grad():
            found: Tensor = model(*padded(texts, device)).double().softmax(-1)
            return found

    def attention(texts: Texts, rows: Tensor) -> tuple[Tensor, WithWeights]:
        tokens, lengths = padded(texts, device)
        with eval_mode(model):
            own, again = model.looked(tokens, lengths)
        below = own.clamp(max=0)  # densities have such weights: they count as 0, and stay
        own = own - below
        place = tokens % n  # a text may be without some regions: the weights of those that it has
        shown = own.gather(-1, place.unsqueeze(1).expand(-1, own.shape[1], -1))

        def with_weights(weights: Tensor) -> Tensor:
            whole = torch.zeros_like(own, dtype=weights.dtype)
            wide = place.unsqueeze(1).expand(-1, weights.shape[1], -1)[..., : weights.shape[-1]]
            whole = whole.scatter(-1, wide, weights.to(whole.device))
            with eval_mode(model):
                return again(whole + below).double().softmax(-1)

        return shown, with_weights

    def explained(texts: Texts, rows: Tensor) -> Subject:
        return subject(model, *padded(texts, device))

    def slopes_at(texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor]:
        with intervene(model.model, Tensor.detach, model.earlier) if model.earlier else nullcontext():
            vectors, slope = slopes(explained(texts, rows), None, hold_attention=True)
        return vectors.cpu(), slope.cpu()

    def gradients(texts: Texts, rows: Tensor) -> Tensor:
        vectors, slope = slopes_at(texts, rows)
        return (vectors * slope).sum(-1).abs()

    return Case(
        [list(range(i * n, (i + 1) * n)) for i in range(decisions)],
        predictor,
        attention,
        gradients=gradients,
        slopes=slopes_at,
        subject=explained,
        words=[names] * decisions,
        differentiable=True,
        **more,
    )
