"""Generated corpora by name: CORPORA of pairs, LABELLED of labelled texts, RUNNING of running text,
STORIES of questions on stories, PASSAGES of questions about passages; ALGORITHMS make sequences; IMAGES,
CAPTIONED and ASKED have pictures."""

from regard.data.corpora.algorithms import ALGORITHMS as ALGORITHMS
from regard.data.corpora.corpus import ASKED as ASKED
from regard.data.corpora.corpus import CAPTIONED as CAPTIONED
from regard.data.corpora.corpus import CORPORA as CORPORA
from regard.data.corpora.corpus import IMAGES as IMAGES
from regard.data.corpora.corpus import LABELLED as LABELLED
from regard.data.corpora.corpus import PASSAGES as PASSAGES
from regard.data.corpora.corpus import RUNNING as RUNNING
from regard.data.corpora.corpus import STORIES as STORIES
from regard.data.corpora.corpus import Corpus as Corpus
from regard.data.corpora.phrase import Pair as Pair
from regard.data.corpora.phrases import phrases as phrases
from regard.data.corpora.toys import copy as copy
from regard.data.corpora.toys import dictionary as dictionary
from regard.data.corpora.toys import reverse as reverse
