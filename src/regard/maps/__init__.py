"""Maps: p = map(θ), one per file. MAPS has them by name."""

from regard.maps.argmax import argmax as argmax
from regard.maps.bounded import bounded_softmax as bounded_softmax
from regard.maps.bounded import bounded_sparsemax as bounded_sparsemax
from regard.maps.entmax import Entmax as Entmax
from regard.maps.entmax import entmax as entmax
from regard.maps.entmax15 import entmax15 as entmax15
from regard.maps.entropies import support_size as support_size
from regard.maps.entropies import tsallis as tsallis
from regard.maps.fusedmax import fusedmax as fusedmax
from regard.maps.sigmoid import sigmoid as sigmoid
from regard.maps.softmax import softmax as softmax
from regard.maps.sparsemax import sparsemax as sparsemax
from regard.maps.table import MAPS as MAPS
from regard.maps.table import facts_of as facts_of
from regard.maps.table import register as register
from regard.maps.top_k import top_k_softmax as top_k_softmax
from regard.maps.top_k import top_k_sparsemax as top_k_sparsemax
