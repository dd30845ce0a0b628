"""Where the words of one sentence pair look: weights from target to source, and maybe the other way."""

from dataclasses import dataclass

import numpy as np

from regard.alignment.bitext import Floats


@dataclass(frozen=True, eq=False)
class Looked:
    """Weights between m target and n source words."""

    forward: Floats  # (m, n): each target word looks at the source
    reverse: Floats | None = None  # (n, m): each source word looks at the target

    @classmethod
    def nothing(cls, n: int, m: int) -> "Looked":
        """Of n source and m target words, none looks anywhere."""
        return cls(np.zeros((m, n)), np.zeros((n, m)))
