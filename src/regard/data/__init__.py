"""Data: tokenizers, text files, named fields on disk, batches, and generated corpora."""

from regard.data.batches import Batch as Batch
from regard.data.batches import Batches as Batches
from regard.data.corpora import CORPORA as CORPORA
from regard.data.corpora import LABELLED as LABELLED
from regard.data.encoded import Encoded as Encoded
from regard.data.fields import Field as Field
from regard.data.labelled import Classes as Classes
from regard.data.labelled import Labelled as Labelled
from regard.data.labelled import labelled as labelled
from regard.data.segments import Segments as Segments
from regard.data.segments import segments as segments
from regard.data.streams import Streams as Streams
from regard.data.text import DataError as DataError
from regard.data.text import lines as lines
from regard.data.text import pairs as pairs
from regard.data.tokenizer import Tokenizer as Tokenizer
