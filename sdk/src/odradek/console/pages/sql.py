"""Stream SQL: a script is checked as it is typed, and what would run is shown. Running one is `odradek sql`."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from odradek.console.forms import form_of
from odradek.console.pages.base import check_forgery, page, render, state_of
from odradek.operations.sql import ScriptCheck, check_script

EXAMPLE = """CREATE STREAM orders (order_id INT, customer STRUCT<country STRING>, paid BOOLEAN)
  WITH (kafka_topic='orders', value_format='json');

CREATE TABLE paid_by_country AS
  SELECT customer->country AS country, COUNT(*) AS orders
  FROM orders WHERE paid GROUP BY customer->country;
"""


@page
async def sql(request: Request) -> Response:
    return render(request, "sql.html", text=EXAMPLE, checked=await asyncio.to_thread(check_script, EXAMPLE))


@page
async def check(request: Request) -> Response:
    """Check a script: nothing is run, so that a read-only console does it, too."""
    form = await form_of(request, state_of(request).settings.body_bytes_max)
    check_forgery(request.scope["session"], form)
    text = form.exactly("text")
    checked: ScriptCheck = await asyncio.to_thread(check_script, text)
    template = "sql_check.html" if form.flag("fragment") else "sql.html"
    return render(request, template, text=text, checked=checked)
