"""Planted models: whether attention is faithful is known by construction, so the audit can be tested."""

# The order is that of KINDS, and of the tables.
from regard.audits.planted import decoy_attention as decoy_attention  # isort: skip
from regard.audits.planted import arranged_texts as arranged_texts
from regard.audits.planted import deceiving as deceiving
from regard.audits.planted import word_selection as word_selection
from regard.audits.planted.calibration import SelfTest as SelfTest
from regard.audits.planted.calibration import graded as graded
from regard.audits.planted.calibration import self_test as self_test
from regard.audits.planted.kinds import KINDS as KINDS
from regard.audits.planted.kinds import Planted as Planted
from regard.audits.planted.kinds import plant as plant
