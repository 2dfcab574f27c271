"""Login and logout, and the account of the session's user."""

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.form_fields import faults_of, schemas_of
from hookwright_api.console.navigation import console_path, own_path
from hookwright_api.console.operations import call
from hookwright_api.console.page_route import LOGIN, ConsoleRoutes
from hookwright_api.console.session_cookie import caller_in, remove_session, set_session
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.http.guarded_route import caller_of
from hookwright_api.routes.auth import change_password, log_in, log_out
from hookwright_api.services import services_of
from hookwright_crds.documents.login_bodies import LoginRequest, PasswordRequest
from hookwright_crds.permissions import OPEN
from hookwright_runtime.problems import FieldFault, ProblemError, invalid
from hookwright_runtime.validation import from_validation

console = ConsoleRoutes()


@console.page("/login", permission=OPEN)
async def show_login(request: Request) -> Response:
    """Show the form, or the wanted page if the browser has a session."""
    following = own_path(request.query_params.get("next", ""))
    if caller_in(request) is not None:
        return see(request, following)
    return _login_form(request, following)


def _login_form(request: Request, following: str, email: str = "", problem: ProblemError | None = None) -> Response:
    status = problem.status if problem else 200
    answer = render(request, "login.html", status, following=following, email=email, problem=problem)
    if problem:
        answer.headers.update({name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"})
    return answer


@console.action("/login", permission=OPEN, uses=(log_in,))
async def begin_session(request: Request) -> Response:
    """Begin a session; a wrong password counts as for `/v1`."""
    form = form_of(request)
    email, following = form.text("email"), own_path(form.text("next"))
    try:
        body = LoginRequest.model_validate({"email": email, "password": form.raw("password")})
    except ValidationError:
        problem = invalid(FieldFault("email", "enter an email address and its password"))
        return _login_form(request, following, email, problem)
    try:
        session = await call(request, log_in, body)
    except ProblemError as problem:
        return _login_form(request, following, email, problem)
    answer = see(request, following)
    set_session(request, answer, session["token"], session["expires_at"])
    return answer


@console.action("/logout", uses=(log_out,))
async def end_session(request: Request) -> Response:
    """End all sessions of the user, and forget the cookie."""
    await call(request, log_out)
    answer = see(request, LOGIN, notice="logged-out")
    remove_session(request, answer)
    return answer


@console.page("/account")
async def show_account(request: Request) -> Response:
    """Show the user, and the form for a new password if the installation has it."""
    return _account(request)


def _account(request: Request, problem: ProblemError | None = None) -> Response:
    session = caller_of(request).session
    assert session is not None
    return render(
        request,
        "account.html",
        problem.status if problem else 200,
        session=session,
        can_change=services_of(request).settings.password_change,
        schemas=schemas_of(PasswordRequest),
        problem=problem,
        faults=faults_of(problem) if problem else {},
    )


@console.action("/account/password", uses=(change_password,))
async def set_password(request: Request) -> Response:
    """Change the password, and continue with the new session."""
    form = form_of(request)
    try:
        if form.raw("new_password") != form.raw("repeated"):
            raise invalid(FieldFault("repeated", "must be the same as the new password"))
        body = PasswordRequest.model_validate(
            {"current_password": form.raw("current_password"), "new_password": form.raw("new_password")}
        )
        session = await call(request, change_password, body)
    except ValidationError as error:
        return _account(request, from_validation(error.errors(include_url=False, include_input=False)))
    except ProblemError as problem:
        return _account(request, problem)
    answer = see(request, console_path("account"), notice="password-changed")
    set_session(request, answer, session["token"], session["expires_at"])
    return answer
