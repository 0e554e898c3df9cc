"""What an administrator's tool asks of the front besides SQL: `POST /weir/audit` notes in the audit what the tool does to the
store, such as `weir forget`; `POST /weir/unlock` forgets the failed logins of a user, `POST /weir/remove` a person of a
directory or provider.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .access import User
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
    user, asked = _asked(front, query, body, connection)
    if set(asked) != _KEYS:
        raise ServerError(36, f"The body must be an object with {', '.join(sorted(_KEYS))}")
    if not isinstance(asked["detail"], dict) or not all(isinstance(asked[one], str) for one in ("action", "person")):
        raise ServerError(36, "The body must hold two texts, action and person, and an object, detail")
    number = front.audit.action(user, connection.remote_addr or "127.0.0.1", asked)
    return json.dumps({"number": number}).encode() + b"\n"


def unlock(front: Front, query: Query, body: Body, connection: Any) -> bytes:
    """Forget the failed logins of the `user` whom the body, a JSON object, names. Raises ServerError."""
    front.people.unlock(_named(front, query, body, connection))
    return b"{}\n"


def remove(front: Front, query: Query, body: Body, connection: Any) -> bytes:
    """Forget the person `user` whom the body, a JSON object, names, with sessions and logins. Raises ServerError."""
    name = _named(front, query, body, connection)
    front.people.remove(name)
    front.sessions.end(name)
    return b"{}\n"


def _named(front: Front, query: Query, body: Body, connection: Any) -> str:
    _, asked = _asked(front, query, body, connection)
    if set(asked) != {"user"} or not isinstance(asked["user"], str):
        raise ServerError(36, "The body must be an object with the text user")
    return str(asked["user"])


def _asked(front: Front, query: Query, body: Body, connection: Any) -> tuple[User, dict[str, Any]]:
    user = query.log_in()
    if not user.role.is_admin:
        raise ServerError(497, f"Not enough privileges: the role {user.role.name} is not an administrator's")
    connection.rfile.allow(front.limits.statement)
    try:
        asked = json.loads(b"".join(bounded(body, _LARGEST)))
    except (ValueError, RecursionError) as error:
        raise ServerError(36, f"The body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise ServerError(36, "The body must be a JSON object")
    return user, asked
