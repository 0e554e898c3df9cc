"""`POST /weir/audit`: an administrator's tool notes in the audit what it does to the store besides SQL, such as `weir forget`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .body import Body, bounded
from .errors import ServerError
from .front import Front

if TYPE_CHECKING:
    from .query import Query

#: Largest body, octets: the entry must fit into one line.
_LARGEST = 16 << 10
_KEYS = {"action", "person", "detail"}


def note(front: Front, query: Query, body: Body, connection: Any) -> bytes:
    """Write the entry that the body describes: a JSON object with the texts `action` and `person`, and the object `detail`.
    Returns the entry's number as JSON. Raises ServerError."""
    user = query.log_in()
    if not user.role.is_admin:
        raise ServerError(497, f"Not enough privileges: the role {user.role.name} may not write to the audit")
    connection.rfile.allow(front.limits.statement)
    try:
        asked = json.loads(b"".join(bounded(body, _LARGEST)))
    except (ValueError, RecursionError) as error:
        raise ServerError(36, f"The body is not JSON: {error}") from None
    if not isinstance(asked, dict) or set(asked) != _KEYS:
        raise ServerError(36, f"The body must be an object with {', '.join(sorted(_KEYS))}")
    if not isinstance(asked["detail"], dict) or not all(isinstance(asked[one], str) for one in ("action", "person")):
        raise ServerError(36, "The body must hold two texts, action and person, and an object, detail")
    number = front.audit.action(user, connection.remote_addr or "127.0.0.1", asked)
    return json.dumps({"number": number}).encode() + b"\n"
