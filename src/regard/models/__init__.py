"""Models: whole systems, one per file, readable beside their paper. MODELS has them by name."""

from regard.models.bahdanau import Bahdanau as Bahdanau
from regard.models.luong import Luong as Luong
from regard.models.model import Model as Model
from regard.models.model import Rows as Rows
from regard.models.rnn import RNN as RNN
from regard.models.table import MODELS as MODELS
from regard.models.table import Entry as Entry
from regard.models.table import register as register
from regard.models.transformer import Transformer as Transformer
