"""Corpora that are generated, with gold word alignments. CORPORA has them by name."""

from regard.data.corpora.phrase import Pair as Pair
from regard.data.corpora.phrases import phrases as phrases
from regard.data.corpora.table import CORPORA as CORPORA
from regard.data.corpora.table import Corpus as Corpus
from regard.data.corpora.toys import copy as copy
from regard.data.corpora.toys import dictionary as dictionary
from regard.data.corpora.toys import reverse as reverse
