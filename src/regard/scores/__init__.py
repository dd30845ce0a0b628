"""Scores: θ = score(q, K), one per file. SCORES has them by name."""

from regard.scores.additive import Additive as Additive
from regard.scores.bilinear import Bilinear as Bilinear
from regard.scores.concat import Concat as Concat
from regard.scores.convolution import Convolution as Convolution
from regard.scores.cosine import Cosine as Cosine
from regard.scores.dot import Dot as Dot
from regard.scores.intra_attention import IntraAttention as IntraAttention
from regard.scores.mlp import MLP as MLP
from regard.scores.scaled_dot import ScaledDot as ScaledDot
from regard.scores.score import SCORES as SCORES
from regard.scores.score import Factored as Factored
from regard.scores.score import Score as Score
from regard.scores.score import Sum as Sum
from regard.scores.score import register as register
from regard.scores.score import score_at as score_at
from regard.scores.soft_cap import SoftCap as SoftCap
from regard.scores.states import States as States
from regard.scores.temperature import Temperature as Temperature
