# SPDX-License-Identifier: Apache-2.0
"""The tables of history.db. evenkeel-history writes them (store.py), the panel reads them (reader.py)."""

from .tiers import TIERS

APPLICATION_ID = 0x656B6869  # "ekhi"
VERSION = 1
FOLDER = "/var/lib/evenkeel-history"
FILE = "history.db"
MINUTES = f"{FILE}-minutes"  # the log of the minutes that are not in the database yet (minutes.py)
DAMAGED = "history.db.damaged"

# The data of a row, in a query. A changed bit on the medium can give the value another type: then the row is damaged like
# any other, and is left out.
DATA = "CAST(ifnull(data, '') AS BLOB)"

_PERIODS = """
CREATE TABLE {table} (
  seq INTEGER PRIMARY KEY,   -- rising number; rows are never changed
  start INTEGER NOT NULL,    -- start of the slot, seconds since 1970
  last INTEGER NOT NULL,     -- seq of the last row of the finer tier that this row covers; 0 in the finest tier
  data BLOB NOT NULL         -- a Period
);
CREATE INDEX {table}_start ON {table} (start);
"""

CREATE = (
    "".join(_PERIODS.format(table=tier.table) for tier in TIERS)
    + """
CREATE TABLE wear (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,       -- seconds since 1970
  device TEXT NOT NULL,
  data BLOB NOT NULL         -- a Wear, as JSON
);
"""
    + f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
)

# An earlier version has not made this table.
CREATE_LOG = """
CREATE TABLE IF NOT EXISTS log (
  one INTEGER PRIMARY KEY,
  generation INTEGER NOT NULL  -- all minutes of MINUTES up to this generation are in this database
)
"""
