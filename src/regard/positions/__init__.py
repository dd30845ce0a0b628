"""Positions: terms added to a score (bias, distance, relative, ALiBi …), scores that know positions (rotary,
Transformer-XL), encodings added to inputs."""

from regard.positions.alibi import ALiBi as ALiBi
from regard.positions.bias import Bias as Bias
from regard.positions.distance import Distance as Distance
from regard.positions.feature_terms import Features as Features
from regard.positions.fertility import Fertility as Fertility
from regard.positions.learned import Learned as Learned
from regard.positions.markov import Markov as Markov
from regard.positions.order import Order as Order
from regard.positions.relative import Relative as Relative
from regard.positions.relative_values import RelativeValues as RelativeValues
from regard.positions.rotary import Rotary as Rotary
from regard.positions.rotary_scaling import DynamicNTK as DynamicNTK
from regard.positions.rotary_scaling import Linear as Linear
from regard.positions.rotary_scaling import Llama3 as Llama3
from regard.positions.rotary_scaling import YaRN as YaRN
from regard.positions.sinusoidal import Sinusoidal as Sinusoidal
from regard.positions.sinusoidal import sinusoid as sinusoid
from regard.positions.t5_bias import T5Bias as T5Bias
from regard.positions.transformer_xl_score import TransformerXL as TransformerXL
