"""Losses: Fenchel–Young losses of maps, the expected loss of hard attention, and penalties on weights."""

from regard.losses.doubly_stochastic import doubly_stochastic_penalty as doubly_stochastic_penalty
from regard.losses.expected import expected_loss as expected_loss
from regard.losses.fenchel_young import entmax_loss as entmax_loss
from regard.losses.fenchel_young import softmax_loss as softmax_loss
from regard.losses.fenchel_young import sparsemax_loss as sparsemax_loss
from regard.losses.global_fertility import global_fertility as global_fertility
from regard.losses.linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from regard.losses.trace import trace as trace
