"""The guard before Superset: which addresses viewers and visitors may reach, and what their requests may contain.

Both are lists, and closed by default: an address that a new release of Superset brings stays closed until somebody
lists it. Superset's own permissions hold behind the guard. Administrators may reach everything and write any SQL.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

import weir_assets
import weir_people
import weir_requests

#: Front page of a customer's users.
CUSTOMER_PAGE = "/superset/dashboard/customer/"
#: What everybody may reach, to log in and out. The rules are those of Superset's URL map.
ENTRY = frozenset(
    [
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/healthcheck"),
        ("GET", "/ping"),
        ("GET", "/lang/<string:locale>"),
        ("GET", "/login/"),
        ("POST", "/login/"),
        ("GET", "/logout/"),
        ("GET", "/static/<path:filename>"),
        ("GET", "/static/appbuilder/<path:filename>"),
        ("GET", "/superset/language_pack/<lang>/"),
        ("GET", "/superset/welcome/"),
        ("GET", "/weir/metrics"),
    ]
)
#: The same, if people come from an OpenID Connect provider.
SIGN_ON = frozenset(
    [
        ("GET", "/login/local"),
        ("POST", "/login/local"),
        ("GET", "/login/<provider>"),
        ("GET", "/oauth-authorized/<provider>"),
    ]
)
#: What reading a dashboard takes.
PAGES = frozenset(
    [
        ("GET", "/api/v1/chart/<id_or_uuid>"),
        ("POST", "/api/v1/chart/data"),
        ("GET", "/api/v1/dashboard/<id_or_slug>"),
        ("GET", "/api/v1/dashboard/<id_or_slug>/charts"),
        ("GET", "/api/v1/dashboard/<id_or_slug>/datasets"),
        ("GET", "/api/v1/dashboard/<id_or_slug>/tabs"),
        ("GET", "/api/v1/dashboard/<int:pk>/filter_state/<string:key>"),
        ("POST", "/api/v1/dashboard/<int:pk>/filter_state"),
        ("PUT", "/api/v1/dashboard/<int:pk>/filter_state/<string:key>"),
        ("GET", "/api/v1/dashboard/permalink/<string:key>"),
        ("GET", "/api/v1/me/"),
        ("GET", "/api/v1/me/roles/"),
        ("GET", "/api/v1/security/csrf_token/"),
        ("GET", "/api/v1/time_range/"),
        ("GET", "/superset/dashboard/<dashboard_id_or_slug>/"),
        ("GET", "/superset/dashboard/p/<key>/"),
        ("POST", "/superset/explore_json/"),
        # Pages report clicks here; they are discarded.
        ("POST", "/superset/log/"),
    ]
)
#: How much of a body that is too large is read and thrown away, for its sender to hear so.
DISCARDED_OCTETS = 4 * weir_requests.MOST_OCTETS
_DATA = "/api/v1/chart/data"
_LEGACY = "/superset/explore_json/"
_FILTER_STATE = "/filter_state"


def open_to(method: str, rule: str, *, pages: bool) -> bool:
    """Whether a request of somebody who is not an administrator may pass; `pages`: whether the dashboards are open to
    whoever sends it."""
    wanted = ("GET" if method == "HEAD" else method, rule)
    return wanted in ENTRY or wanted in SIGN_ON or (pages and wanted in PAGES)


def attach(app: Any, front_page: str) -> None:
    """Make the application send visitors to their front page, and refuse what is not on the lists."""
    from flask import jsonify, redirect, request
    from flask_login import current_user

    public, counts = app.config["WEIR_PUBLIC"], weir_people.lockout()

    def roles() -> set[str]:
        return {role.name for role in current_user.roles} if current_user.is_authenticated else set()

    def refuse(cause: str, why: str) -> Any:
        counts.count(cause)
        return jsonify({"message": f"Refused: {why}"}), 403

    def bounded() -> None:
        if "Admin" not in roles():
            request.max_content_length = weir_requests.MOST_OCTETS

    # Before all others: the check against forged requests reads the whole form, that of a login, too.
    app.before_request_funcs.setdefault(None, []).insert(0, bounded)

    @app.after_request  # type: ignore[untyped-decorator]
    def answer_is_heard(response: Any) -> Any:
        # Who is still sending when the connection closes loses the answer: TCP resets the connection.
        if response.status_code == 413:
            left = DISCARDED_OCTETS
            while left > 0 and (piece := request.environ["wsgi.input"].read(min(left, 1 << 16))):
                left -= len(piece)
        return response

    @app.before_request  # type: ignore[untyped-decorator]
    def listed_alone() -> Any:
        rule = request.url_rule.rule if request.url_rule else None
        if rule is None or "Admin" in roles():
            return None
        if not open_to(request.method, rule, pages=public or current_user.is_authenticated):
            # Who follows a link of an administrator, and has not logged in yet.
            if not current_user.is_authenticated and request.method == "GET" and not rule.startswith("/api/"):
                return redirect("/login/?" + urllib.parse.urlencode({"next": request.full_path.rstrip("?")}))
            return refuse("address", f"{request.method} {rule} is for administrators")
        try:
            _cut_down(request, rule)
        except weir_requests.RefusedError as error:
            return refuse("request", str(error))
        return None

    @app.before_request  # type: ignore[untyped-decorator]
    def arrive() -> Any:
        if request.path in ("/", "/superset/welcome/"):
            if any(role.startswith(weir_assets.CUSTOMER_ROLE) for role in roles()):
                return redirect(CUSTOMER_PAGE)
            if request.path == "/" and not current_user.is_authenticated:
                return redirect(front_page)
        return None


def _cut_down(request: Any, rule: str) -> None:
    """Replace the parts of a request for data by what is listed of them. Raises RefusedError."""
    from werkzeug.datastructures import ImmutableMultiDict

    if rule in (_DATA, _LEGACY):
        if any(len(request.args.getlist(name)) > 1 for name in request.args):
            raise weir_requests.RefusedError("an argument is given twice")
        request.args = ImmutableMultiDict(weir_requests.arguments(request.args))
    if rule == _DATA or (_FILTER_STATE in rule and request.method != "GET"):
        # Superset reads the same object later.
        body = request.get_json(silent=True) if request.is_json else None
        checked = weir_requests.chart_data(body) if rule == _DATA else weir_requests.filter_state(body)
        assert body is not None
        body.clear()
        body.update(checked)
    elif rule == _LEGACY:
        if request.is_json:
            raise weir_requests.RefusedError("a form was expected")
        request.form = ImmutableMultiDict(weir_requests.legacy_chart(request.form))
