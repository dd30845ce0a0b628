"""Planted models: their truth is known by construction, so that the audit itself can be audited."""

from regard.audits.planted import plain as plain
from regard.audits.planted import selecting as selecting  # noqa: I001 (the order is that of the tables)
from regard.audits.planted import beside as beside
from regard.audits.planted import deceiving as deceiving
from regard.audits.planted import exchanged as exchanged
from regard.audits.planted.table import KINDS as KINDS
from regard.audits.planted.table import Planted as Planted
from regard.audits.planted.table import plant as plant
