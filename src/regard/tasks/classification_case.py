"""The case of a classifier: of a bare model with tokens, or of a trained system with texts."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.core.errors import RunError
from regard.data.labelled import USUAL, Labelled, Named
from regard.data.padding import padded
from regard.data.text import DataError
from regard.models.classifiers import ClassifierModel
from regard.models.classifiers.rationalizer import Rationalizer
from regard.models.subject import Subject, eval_mode, slopes, subject
from regard.recording import intervene, record
from regard.tasks.case import Case, Texts, Trainable, WithWeights
from regard.tasks.classification import CLASSIFICATION, ClassificationAudit, labelled_texts, marked_tokens
from regard.tasks.classifier import Classifier

KEPT = 1 << 24  # numbers of word vectors whose gradients are kept
Item = str | tuple[str, str] | Labelled


@runtime_checkable
class HasStates(Protocol):
    """A model whose attention is over hidden states of the words."""

    def states(self, embedded: Tensor, lengths: Tensor, *condition: Tensor) -> Tensor:
        """Embedded words (b, n, d) to hidden states (b, n, width)."""
        ...


def case_of_model(
    model: ClassifierModel, texts: Sequence[Sequence[int]], seconds: Texts | None = None, **more: Any
) -> Case:
    """The case of a model and texts given as tokens; `seconds` are the second texts of a model for pairs."""
    device = next(model.parameters()).device
    tables = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
    more.setdefault("size", sum(one.numel() for one in model.parameters() if id(one) not in tables))

    def tensors(texts: Texts, rows: Tensor) -> tuple[Tensor, ...]:
        second = () if seconds is None else padded([seconds[i] for i in rows.tolist()], device)
        return (*padded(texts, device), *second)

    def predictor(texts: Texts, rows: Tensor) -> Tensor:
        known: dict[Any, int] = {}  # the same tokens are read once
        first, which = list[int](), list[int]()
        for at, (text, row) in enumerate(zip(texts, rows.tolist(), strict=True)):
            key = tuple(text), () if seconds is None else tuple(seconds[row])
            if key not in known:
                known[key] = len(first)
                first.append(at)
            which.append(known[key])
        with eval_mode(model), torch.no_grad():
            found: Tensor = model(*tensors([texts[i] for i in first], rows[first])).double().softmax(-1)
            return found[which]

    def attention(texts: Texts, rows: Tensor) -> tuple[Tensor, WithWeights]:
        given = tensors(texts, rows)
        with eval_mode(model), torch.no_grad():
            condition, logits = model.condition(*given), model.prepared(*given)
            with record(model, model.attention_paths["reader"]) as seen:
                logits()
        own = model.over_words(seen)
        by_weights = selecting(model, given, own) if isinstance(model, Rationalizer) else lambda _: logits()

        def with_weights(weights: Tensor) -> Tensor:
            with eval_mode(model), model.looking_with(weights, condition):
                return by_weights(weights).double().softmax(-1)

        return own, with_weights

    def keys(texts: Texts, rows: Tensor) -> dict[str, Tensor]:
        given = tensors(texts, rows)
        paths = list(dict.fromkeys(path for role in model.attention_paths.values() for path in role))

        def noise(k: Tensor) -> Tensor:
            chance = torch.Generator().manual_seed(0)
            return k.std() * torch.randn(k.shape, generator=chance, dtype=k.dtype).to(k.device)

        with eval_mode(model), torch.no_grad():
            with record(model, paths) as seen:
                model(*given)
            found = {}
            for path in paths:
                with intervene(model, noise, path, on="keys"), record(model, path) as changed:
                    model(*given)
                own, other = seen[path][0].over_tokens, changed[path][0].over_tokens
                away = (own - other).abs().sum(-1) / 2  # (b, [heads,] m)
                if len(away) == len(rows):  # not where sentences of a text are rows
                    found[path] = away.flatten(1).mean(-1).double().cpu()
        return found

    def explained(texts: Texts, rows: Tensor) -> Subject:
        tokens, lengths, *second = tensors(texts, rows)
        return subject(model, tokens, lengths, (second[0], second[1]) if second else None)

    kept: dict[Any, tuple[Tensor, Tensor]] = {}  # two tests ask for the same

    def slopes_at(texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor]:
        key = tuple(map(tuple, texts)), tuple(rows.tolist())
        if key in kept:
            return kept[key]
        vectors, slope = slopes(explained(texts, rows), None, hold_attention=True)
        found = vectors.cpu(), slope.cpu()
        if sum(one.numel() for one, _ in kept.values()) + vectors.numel() <= KEPT:
            kept[key] = found
        return found

    def gradients(texts: Texts, rows: Tensor) -> Tensor:
        vectors, slope = slopes_at(texts, rows)
        return (vectors * slope).sum(-1).abs()

    def states(texts: Texts, rows: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(model, HasStates)
        given = tensors(texts, rows)
        with eval_mode(model), torch.no_grad():
            vectors, condition = model.embed(given[0]), model.condition(*given)
            more = () if condition is None or seconds is not None else (condition,)
            return model.states(vectors, given[1], *more).cpu(), vectors.cpu()

    return Case(
        texts,
        predictor,
        attention,
        gradients=gradients,
        slopes=slopes_at,
        states=states if isinstance(model, HasStates) and not isinstance(model, Rationalizer) else None,
        subject=explained,
        keys=None if isinstance(model, Rationalizer) else keys,
        differentiable=True,
        **more,
    )


def selecting(model: Rationalizer, texts: tuple[Tensor, ...], own: Tensor) -> WithWeights:
    """From weights (b, 1, n) to logits: the predictor gets the words that have weight.

    It has never seen the others, so that weight on them would say nothing. Words that it selected and gave no
    weight, as a sparse map can, are read as before.
    """
    tokens, lengths = texts
    with eval_mode(model), torch.no_grad():
        embedded, selected = model.embed(tokens), model.selected(tokens, lengths)
    without = selected & (own.squeeze(-2) == 0)

    def logits(weights: Tensor) -> Tensor:
        read = (weights.squeeze(-2) > 0).to(without.device) | without
        return model.from_selected(embedded, lengths, read.to(embedded.dtype))

    return logits


def case_of_texts(system: Classifier, items: Sequence[Item], **more: Any) -> Case:
    """The case of a classifier and texts, pairs of texts, or labelled texts with or without highlights."""
    if isinstance(items, str) or not items:
        raise ValueError("texts are needed: a list of at least one.")
    both, tokens, seconds = system.encoded([_text(item) for item in items])
    system.classify([_text(items[0])])  # an error if its answer is not a number
    labelled = [item for item in items if isinstance(item, Labelled)]
    if len(labelled) == len(items):
        checked = [
            system.parts.classes.check(item, f"text {number}") for number, item in enumerate(labelled, 1)
        ]
        more.setdefault("labels", torch.tensor([system.parts.classes.number[item.label] for item in checked]))
        if all(item.highlights is not None for item in labelled):
            more.setdefault(
                "highlights", [marked_tokens(system.tokenizer, item, item.highlights) for item in labelled]
            )
    return case_of_model(
        system.model,
        tokens,
        seconds if system.takes_second else None,
        words=[system.token_words(text, ids) for (text, _), ids in zip(both, tokens, strict=True)],
        classes=system.labels,
        **more,
    )


def audited_case(system: Classifier, options: ClassificationAudit) -> tuple[Case, str]:
    """The case of the files that are named, and what they hold in one string."""
    if options.data is None:
        raise RunError(f"{system.folder} holds a classifier: --data, labelled texts to audit on, is needed.")
    system, named = system.renamed(options.label_names), options.named(system.settings.data)
    texts = [text for _, text in labelled_texts(options.data, system.parts.classes, named)]
    what = repr((texts, system.labels))
    if options.train is None:
        return case_of_texts(system, texts), what
    train = trainable(system, options.train, named)
    learned = sha256(Path(options.train).read_bytes()).hexdigest()
    return case_of_texts(system, texts, train=train), what + learned


def trainable(system: Classifier, file: str, named: Named = USUAL) -> Trainable:
    """The labelled texts of a file and how the system was trained; longer texts than it took are left out."""
    settings = system.settings
    items = [text for _, text in labelled_texts(file, system.parts.classes, named)]
    encoded = system.tokenizer.encode_many([item.text for item in items])
    kept = [i for i, text in enumerate(encoded) if 0 < len(text) <= settings.data.longest]
    labels = torch.tensor([system.parts.classes.number[items[i].label] for i in kept])
    if len(labels.unique()) < 2:
        raise DataError(f"{file}: training needs texts of at least two classes.")
    return Trainable(
        [encoded[i] for i in kept],
        labels,
        len(system.labels),
        system.model,
        settings.training,
        lambda model: CLASSIFICATION.put_vectors(settings, system.parts, model),
    )


def _text(item: Item) -> str | tuple[str, str]:
    if not isinstance(item, Labelled):
        return item
    return item.text if item.second is None else (item.text, item.second)
