"""`python -m muster.local.healthy PART`: whether a process without a port works, for health checks of containers.

Each part says in the database every few seconds that it does (`muster.fleet.leases.tick`); one that hangs says nothing.
This reads it by one query, without loading Django's apps: it is asked every few seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg2

from muster.settings.env import database_settings

# The longest silence of a part that works, with room for a busy machine. `default` ticks every 30 s.
MAX_SILENCE_S = {"web": 30, "schedule": 120, "default": 180, "links": 60}


def silence_s(database_url: str, part: str) -> float | None:
    """For how long the part has said nothing; None if it never spoke. Raises `psycopg2.Error`."""
    address: dict[str, Any] = database_settings(database_url)
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = {name: address[key] for name, key in names.items() if address[key]}
    with closing(psycopg2.connect(**given, **address["OPTIONS"])) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM clock_timestamp() - at)::float8 FROM fleet_tick WHERE name = %s", [part]
        )
        row = cursor.fetchone()
    return None if row is None else float(row[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how the part is; 0 if it works."""
    parser = argparse.ArgumentParser(prog="python -m muster.local.healthy", description=__doc__)
    parser.add_argument("part", choices=sorted(MAX_SILENCE_S))
    part: str = parser.parse_args(arguments).part
    try:
        silence = silence_s(os.environ["DATABASE_URL"], part)
    except (KeyError, ValueError, psycopg2.Error) as error:
        print(f"{part}: cannot tell: {error}", file=sys.stderr)  # noqa: T201
        return 1
    if silence is None:
        print(f"{part}: has not worked yet", file=sys.stderr)  # noqa: T201
        return 1
    print(f"{part}: worked {silence:.1f} s ago")  # noqa: T201
    return 0 if silence <= MAX_SILENCE_S[part] else 1


if __name__ == "__main__":
    sys.exit(main())
