"""Audits: whether the weights of a model may be shown as its reasons. AUDITS has the tests by name."""

from regard.audits.adversary import adversary as adversary
from regard.audits.audit import audit as audit
from regard.audits.case import Case as Case
from regard.audits.conicity import conicity as conicity
from regard.audits.consistency import consistency as consistency
from regard.audits.correlation import gradient_correlation as gradient_correlation
from regard.audits.correlation import leave_one_out_correlation as leave_one_out_correlation
from regard.audits.erasure import erasure as erasure
from regard.audits.finding import Finding as Finding
from regard.audits.finding import NotApplicable as NotApplicable
from regard.audits.ours import of_model as of_model
from regard.audits.outside import of_functions as of_functions
from regard.audits.permutation import permutation as permutation
from regard.audits.removal import removal as removal
from regard.audits.report import Report as Report
from regard.audits.table import AUDITS as AUDITS
from regard.audits.table import CONDITIONS as CONDITIONS
from regard.audits.uniform import uniform as uniform
from regard.audits.words_removed import comprehensiveness as comprehensiveness
from regard.audits.words_removed import sufficiency as sufficiency
