"""Planted models: their truth is known by construction, so that the audit itself can be audited."""

from regard.audits.planted import beside as beside
from regard.audits.planted import deceiving as deceiving
from regard.audits.planted import exchanged as exchanged
from regard.audits.planted import plain as plain
from regard.audits.planted import selecting as selecting
from regard.audits.planted.self_test import SelfTest as SelfTest
from regard.audits.planted.self_test import self_test as self_test
from regard.audits.planted.table import KINDS as KINDS
from regard.audits.planted.table import Planted as Planted
from regard.audits.planted.table import plant as plant
