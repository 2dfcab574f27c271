"""Login and logout, and the account of the session's user."""

from typing import Any

from starlette.responses import Response

from hookwright_api.console.form_fields import fields_of, read_request
from hookwright_api.console.navigation import console_path, own_path
from hookwright_api.console.page_route import LOGIN, action, page
from hookwright_api.console.session_cookie import caller_in, remove_session, set_session
from hookwright_api.console.visit import Visit
from hookwright_api.routes.auth import change_password, log_in, log_out
from hookwright_crds.documents.login_bodies import LoginRequest, PasswordRequest
from hookwright_crds.permissions import OPEN
from hookwright_runtime.problems import FieldFault, invalid


@page("/login", permission=OPEN)
async def show_login(visit: Visit) -> Response:
    """Show the form, or the wanted page if the browser has a session."""
    following = own_path(visit.form.text("next") or visit.query.get("next", ""))
    if visit.problem is None and caller_in(visit.request) is not None:
        return visit.see(following)
    return visit.render("login.html", fields=fields_of(LoginRequest), following=following)


@action("/login", permission=OPEN, uses=(log_in,), again=show_login)
async def begin_session(visit: Visit) -> Response:
    """Begin a session; a wrong password counts as for `/v1`."""
    session = await visit.call(log_in, read_request(LoginRequest, visit.form))
    return _keep_session(visit, session, visit.see(own_path(visit.form.text("next"))))


def _keep_session(visit: Visit, session: dict[str, Any], answer: Response) -> Response:
    set_session(visit.request, answer, session["token"], session["expires_at"])
    return answer


@action("/logout", uses=(log_out,))
async def end_session(visit: Visit) -> Response:
    """End all sessions of the user, and forget the cookie."""
    await visit.call(log_out)
    answer = visit.see(LOGIN, notice="logged-out")
    remove_session(visit.request, answer)
    return answer


@page("/account")
async def show_account(visit: Visit) -> Response:
    """Show the user, and the form for a new password if the installation has it."""
    return visit.render(
        "account.html",
        session=visit.caller and visit.caller.session,
        can_change=visit.services.settings.password_change,
        fields=fields_of(PasswordRequest),
    )


@action("/account/password", uses=(change_password,), again=show_account)
async def set_password(visit: Visit) -> Response:
    """Change the password, and continue with the new session."""
    if visit.form.raw("new_password") != visit.form.raw("repeated"):
        raise invalid(FieldFault("repeated", "must be the same as the new password"))
    session = await visit.call(change_password, read_request(PasswordRequest, visit.form))
    return _keep_session(visit, session, visit.see(console_path("account"), notice="password-changed"))
