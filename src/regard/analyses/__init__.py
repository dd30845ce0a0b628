"""Analyses of Transformers: roles of heads, pruning of heads, and probing of hidden states."""

from regard.analyses.codelength import Codelength as Codelength
from regard.analyses.codelength import by_frequency as by_frequency
from regard.analyses.codelength import online as online
from regard.analyses.conllu import Sentence as Sentence
from regard.analyses.conllu import read_conllu as read_conllu
from regard.analyses.control_tasks import control_task as control_task
from regard.analyses.positional import Positional as Positional
from regard.analyses.probing import Probed as Probed
from regard.analyses.probing import probe as probe
from regard.analyses.probing import probing_data as probing_data
from regard.analyses.pruning import Pruned as Pruned
from regard.analyses.pruning import prune as prune
from regard.analyses.rare_words import RareWords as RareWords
from regard.analyses.reading import states_of as states_of
from regard.analyses.reading import weights_of as weights_of
from regard.analyses.roles import HeadRoles as HeadRoles
from regard.analyses.roles import HeadScore as HeadScore
from regard.analyses.roles import count_roles as count_roles
from regard.analyses.roles import head_roles as head_roles
from regard.analyses.subwords import Subwords as Subwords
from regard.analyses.syntactic import Syntactic as Syntactic
from regard.analyses.tokenized import TokenizedText as TokenizedText
from regard.analyses.tokenized import tokenize as tokenize
from regard.analyses.variational import variational as variational
