"""Reserved IPs by the name that they had before, floating IPs, which the service still answers to.

The vendor's document knows the present name alone. Requests are translated to it, and so checked against it, and
answers are translated back.
"""

from __future__ import annotations

import json
import re

from tests.support.contract import Request
from tests.support.httpserver import Reply

_FORMER = re.compile(r"/v2/floating_ips(?=/|$)")


def to_present(request: Request) -> Request | None:
    """Return the request by its present path, None when that is what it has."""
    path, count = _FORMER.subn("/v2/reserved_ips", request.path)
    return request.at(path) if count else None


def to_former(reply: Reply) -> Reply:
    """Return an answer with the former name in its keys, links and types."""
    if not isinstance(reply.body, dict):
        return reply
    return reply._replace(body=json.loads(json.dumps(reply.body).replace("reserved_ip", "floating_ip")))
