"""What is explained: a model or a function, with texts.

A model that embeds its tokens, logits = model.from_embedded(model.embed(tokens), lengths), as the classifiers
here do, is explained by the log-odds of a class,

    log p_c / (1 − p_c) = θ_c − log Σ_{k≠c} exp θ_k

which orders tokens as the probability does, and still changes where the probability is 1 to the last digit.

Anything else is a function: called with inputs, and with lengths if there are any, it returns numbers
(b, classes), and one of these is explained as it is. Inputs are tokens (b, n) or vectors (b, n, d).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError
from regard.core.recorders import attends, attention_paths
from regard.recording import intervene

Second = tuple[Tensor, Tensor]  # tokens (b, n') and lengths (b,) of the second texts, for pairs
Target = int | Tensor | None


@runtime_checkable
class EmbedsTokens(Protocol):
    """A model in two steps, between which gradients can be taken."""

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (b, n) to vectors (b, n, d)."""
        ...

    def from_embedded(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """Vectors (b, n, d) to logits (b, classes)."""
        ...


@runtime_checkable
class Conditioned(Protocol):
    """A model whose second step needs more than the vectors."""

    def condition(self, tokens: Tensor, lengths: Tensor, *second: Tensor) -> Tensor | None:
        """What it needs, (b, ...), or None if nothing."""
        ...


@runtime_checkable
class HasPathStart(Protocol):
    """A model that says where integrated gradients begin, if not at vectors of 0."""

    def path_start(self, vectors: Tensor) -> Tensor:
        """Vectors (b, n, d) to those that stand in their place."""
        ...


@dataclass(frozen=True, eq=False)
class Subject:
    """A model or a function, with texts."""

    model: Any
    inputs: Tensor  # tokens (b, n), or vectors (b, n, d)
    lengths: Tensor  # (b,)
    padded: bool  # whether lengths were given
    second: Second | None = None

    @property
    def embeds(self) -> bool:
        """Whether the model turns tokens into vectors, and these into logits."""
        return isinstance(self.model, EmbedsTokens)

    @property
    def tokens(self) -> bool:
        """Whether the inputs are tokens."""
        return not self.inputs.is_floating_point()

    @property
    def real(self) -> Tensor:
        """True for what is not padding: (b, n)."""
        return real(self.lengths, self.inputs.shape[1])

    def vectors(self) -> Tensor:
        """The embedded tokens (b, n, d), detached."""
        if not self.tokens:
            return self.inputs.detach()
        if not self.embeds:
            raise ValueError(
                "this needs the words' vectors, and a function of tokens has none: give it vectors (b, n, d) "
                "as inputs, or a model with embed and from_embedded; or use leave_one_out."
            )
        with eval_mode(self.model), torch.no_grad():
            vectors: Tensor = self.model.embed(self.inputs)
        return vectors.detach()

    def baseline(self, given: Tensor | None) -> Tensor:
        """What stands in the place of a word's vector (d,): as given, or 0."""
        vectors = self.vectors()
        found = torch.zeros_like(vectors[0, 0]) if given is None else given.to(vectors)
        if found.shape != vectors.shape[-1:]:
            raise ShapeError(f"baseline must be (d,) with d={vectors.shape[-1]}; got {tuple(found.shape)}.")
        return found

    def outputs(
        self, inputs: Tensor | None = None, lengths: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        """What the model returns (b, classes) for these inputs, tokens or vectors; default: its own.

        `rows` are the texts that the inputs are made of, if not all of them once.
        """
        inputs = self.inputs if inputs is None else inputs
        rows = torch.arange(len(self.inputs), device=self.inputs.device) if rows is None else rows
        lengths = self.lengths[rows] if lengths is None else lengths
        try:
            outputs = self._called(inputs, lengths, rows)
        except (IndexError, RuntimeError) as error:
            what = str(error).strip().split("\n")[0]
            raise ValueError(
                f"the model failed on inputs {tuple(inputs.shape)}: {what}. "
                "Can it take these tokens, and so many?"
            ) from error
        return self._checked(outputs, rows)

    def _called(self, inputs: Tensor, lengths: Tensor, rows: Tensor) -> Any:
        if not self.embeds:
            return self.model(inputs, lengths) if self.padded else self.model(inputs)
        second = () if self.second is None else tuple(part[rows] for part in self.second)
        if not inputs.is_floating_point():
            return self.model(inputs, lengths, *second)
        condition = None
        if self.tokens and isinstance(self.model, Conditioned):
            with torch.no_grad():
                condition = self.model.condition(self.inputs[rows], lengths, *second)
        return self.model.from_embedded(inputs, lengths, *(() if condition is None else (condition,)))

    def _checked(self, outputs: Any, rows: Tensor) -> Tensor:
        if not isinstance(outputs, Tensor):
            hint = " Return its .logits." if hasattr(outputs, "logits") else ""
            raise TypeError(f"the model must return a tensor; got {type(outputs).__name__}.{hint}")
        if outputs.dim() != 2 or len(outputs) != len(rows) or not outputs.is_floating_point():
            raise ShapeError(
                f"the model must return numbers (b, classes) with b={len(rows)}; "
                f"got {tuple(outputs.shape)} of {outputs.dtype}."
            )
        wrong = (~outputs.isfinite()).any(-1)
        if bool(wrong.any()):
            raise ValueError(f"the model returned NaN or infinity for text {int(rows[wrong][0])}.")
        return outputs

    def target(self, target: Target) -> Tensor:
        """The class that is explained, for each text (b,): as given, or the predicted one."""
        with eval_mode(self.model), torch.no_grad():
            outputs = self.outputs()
        b, classes = outputs.shape
        if target is None:
            return outputs.argmax(-1)
        chosen = torch.as_tensor(target, device=outputs.device)
        if chosen.is_floating_point() or chosen.shape not in ((), (b,)):
            raise ShapeError(f"target must be a class or one for each text, (b,) with b={b}; got {target}.")
        if not bool(((chosen >= 0) & (chosen < classes)).all()):
            raise ValueError(
                f"target must be from 0 to {classes - 1}, the classes of the model; got {target}."
            )
        return chosen.expand(b)

    def value(self, outputs: Tensor, target: Tensor) -> Tensor:
        """What is explained (b,): the log-odds of the target, of a function the output itself."""
        own = outputs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        if not self.embeds or outputs.shape[-1] == 1:
            return own
        return own - outputs.scatter(-1, target.unsqueeze(-1), float("-inf")).logsumexp(-1)


def subject(model: Any, inputs: Any, lengths: Any = None, second: Second | None = None) -> Subject:
    """A model or function with inputs, once they are known to fit."""
    if not callable(model):
        raise TypeError(f"model must be a model or a function; got {type(model).__name__}.")
    if not isinstance(inputs, Tensor):
        raise TypeError(f"inputs must be a tensor of tokens or of vectors; got {type(inputs).__name__}.")
    if inputs.dim() != (3 if inputs.is_floating_point() else 2):
        hint = " Use inputs.unsqueeze(0) for one text." if inputs.dim() == 1 else ""
        raise ShapeError(
            "inputs must be tokens (b, n), or vectors (b, n, d); "
            f"got {tuple(inputs.shape)} of {inputs.dtype}.{hint}"
        )
    return Subject(model, inputs, checked_lengths(inputs, lengths), lengths is not None, second)


def slopes(asked: Subject, target: Target, hold_attention: bool = False) -> tuple[Tensor, Tensor]:
    """The embedded tokens x and ∂y/∂x, both (b, n, d); 0 at padding."""
    classes, vectors = asked.target(target), asked.vectors().requires_grad_()
    with eval_mode(asked.model), held(asked) if hold_attention else nullcontext(), torch.enable_grad():
        y = asked.value(asked.outputs(vectors), classes)
        if not y.requires_grad:
            raise ValueError(
                "what the model returns has no gradient with respect to its inputs; use leave_one_out."
            )
        (slope,) = torch.autograd.grad(y.sum(), vectors, allow_unused=True)
    slope = torch.zeros_like(vectors) if slope is None else slope
    return vectors.detach(), torch.where(asked.real.unsqueeze(-1), slope, 0)


def held(asked: Subject) -> AbstractContextManager[None]:
    """A block in which gradients take attention weights for constants."""
    return intervene(asked.model, Tensor.detach, explained_attentions(asked.model, "hold_attention"))


def explained_attentions(model: Any, what: str) -> list[str]:
    """The paths of the attentions that explanations use: self-attentions, then those that read the tokens.

    All of them, of a model that does not name its attentions. `what` needs them, if the error must say it.
    """
    named = attention_paths(model)
    found: list[str] = []
    if reader := named.get("reader"):
        found = list(dict.fromkeys([*named.get("self", []), *reader]))
    elif isinstance(model, nn.Module):
        found = [path for path, part in model.named_modules() if attends(part)]
    if not found:
        kind = "this model has" if isinstance(model, nn.Module) else "a function shows"
        raise ValueError(
            f"{what} needs attention, and {kind} none that regard can see. Give its weights, a tensor "
            "(b, h, m, n) for each layer, or use gradient or leave_one_out."
        )
    return found


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """A block without dropout; afterwards every module is in the mode it was in."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        with torch.backends.cudnn.flags(enabled=False):  # its LSTMs have no backward outside of training
            yield
    finally:
        for module in training:
            module.training = True


def checked_lengths(inputs: Tensor, lengths: Tensor | None) -> Tensor:
    """Lengths (b,) from 1 to n, n for each if none are given, of inputs (b, n, ...)."""
    b, n = inputs.shape[:2]
    if lengths is None:
        lengths = torch.full((b,), n, device=inputs.device)
    if not isinstance(lengths, Tensor) or lengths.shape != (b,):
        came = tuple(lengths.shape) if isinstance(lengths, Tensor) else type(lengths).__name__
        raise ShapeError(f"lengths must be a tensor (b,) with b={b}; got {came}.")
    wrong = (lengths < 1) | (lengths > n)
    if bool(wrong.any()):
        text = int(wrong.nonzero()[0])
        raise ShapeError(
            f"lengths must be from 1 to n={n}: without a token there is nothing to explain; "
            f"text {text} has {int(lengths[text])}."
        )
    return lengths.to(inputs.device)


def real(lengths: Tensor, n: int) -> Tensor:
    """True for what is not padding: (b, n)."""
    return torch.arange(n, device=lengths.device) < lengths.unsqueeze(-1)
