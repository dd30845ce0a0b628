"""Planted models: whether attention is faithful is known by construction, so the audit can be tested."""

from regard.audits.planted import deceiving as deceiving
from regard.audits.planted import decoy_attention as decoy_attention
from regard.audits.planted import swapped_attention as swapped_attention
from regard.audits.planted import trained_classifiers as trained_classifiers
from regard.audits.planted import word_selection as word_selection
from regard.audits.planted.kinds import KINDS as KINDS
from regard.audits.planted.kinds import Planted as Planted
from regard.audits.planted.kinds import plant as plant
from regard.audits.planted.self_test import SelfTest as SelfTest
from regard.audits.planted.self_test import self_test as self_test
