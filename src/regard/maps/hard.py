"""Hard attention: one key is drawn with the probability softmax would give it as weight.

    s ~ softmax(θ),      z = V_s        while training
    s = argmax θ                        in eval mode

The context is the value of one key, not a mixture. A choice has no gradient; what takes its place is an
object, `regard.maps.estimators`: `Hard(Reinforce())`, `Hard(StraightThrough())`. With a structure
(`regard.structures`), its vertices are chosen from instead.

Xu et al. (2015), "Show, Attend and Tell", arXiv:1502.03044, §4.1.
"""

from dataclasses import replace

from torch import Generator, Tensor, nn

from regard.maps.estimators.estimator import ONE_KEY, Estimator, Vertices
from regard.maps.estimators.straight_through import StraightThrough
from regard.maps.table import MAPS, register

STRAIGHT_THROUGH = StraightThrough()


@register(sparse=True, ordered=False, stochastic=True, guard=False)
def hard(scores: Tensor, estimator: Estimator | None = None, generator: Generator | None = None) -> Tensor:
    """Map scores (..., n) to weights (..., n): 1 for a key drawn from their softmax, 0 for the others.

    The estimator defaults to `StraightThrough()`. A function does not know of eval mode: `Hard` does.
    """
    weights: Tensor = (STRAIGHT_THROUGH if estimator is None else estimator)(scores, generator=generator)
    return weights


class Hard(nn.Module):
    """Hard attention with an estimator, over one key of n or a structure; eval mode takes the best.

    With a `torch.Generator`, draws can be repeated; else they come from torch's own. What a structure has of
    its own (the transitions of a chain) gets no gradient: the scores do.
    """

    def __init__(
        self,
        estimator: Estimator | None = None,
        structure: Vertices | None = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.estimator = StraightThrough() if estimator is None else estimator
        if not isinstance(self.estimator, Estimator):
            raise TypeError(
                f"estimator must be one of regard.maps.estimators, made: Reinforce(); got {estimator!r}."
            )
        if structure is not None and not self.estimator.structured:
            raise ValueError(
                f"{type(self.estimator).__name__} draws one key of n, so structure must be None; got "
                f"{type(structure).__name__}. Use StraightThrough(), PerturbAndMap() or Spigot()."
            )
        self.structure, self.generator = structure, generator
        self.facts = MAPS["hard"]
        if structure is not None:
            self.facts = replace(
                self.facts,
                acts_on=structure.acts_on,
                simplex=getattr(structure, "simplex", False),
                neighbours=getattr(structure, "neighbours", False),
            )

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., n), or (..., m, n) for some structures, to weights of the same shape."""
        among = ONE_KEY if self.structure is None else self.structure
        weights: Tensor = self.estimator(scores, among, self.generator)
        return weights

    def extra_repr(self) -> str:
        return "" if self.structure is None else f"structure={self.structure!r}"
