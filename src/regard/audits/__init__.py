"""Audits: whether the weights of a model may be shown as its reasons. AUDITS has the tests by name."""

from regard.audits import tests as tests
from regard.audits.examine import audit as audit
from regard.audits.register import AUDITS as AUDITS
from regard.audits.register import CONDITIONS as CONDITIONS
from regard.audits.register import Finding as Finding
from regard.audits.report import Report as Report
from regard.tasks.case import Case as Case
from regard.tasks.case import NotApplicable as NotApplicable
from regard.tasks.case import Trainable as Trainable
