"""Losses: one per map, whose gradient is the map's weights minus the target."""

from regard.losses.fenchel_young import entmax_loss as entmax_loss
from regard.losses.fenchel_young import softmax_loss as softmax_loss
from regard.losses.fenchel_young import sparsemax_loss as sparsemax_loss
