"""The login, and the user of a session."""

from fastapi import APIRouter, Request, Response

from hookwright_api.auth.session_tokens import issue_token
from hookwright_api.http.guarded_route import OpenRoute, SessionRoute, caller_of, client_of_request
from hookwright_api.http.middleware import tally_of
from hookwright_api.http.responses import answer
from hookwright_api.rate_limits import Scope
from hookwright_api.rendering import timestamp
from hookwright_api.schemas import LoginAnswer, LoginRequest, MeAnswer
from hookwright_api.services import services_of
from hookwright_api.view.table_records import UserRecord
from hookwright_runtime.problems import ProblemError, unavailable

public = APIRouter(prefix="/v1/auth", tags=["auth"], route_class=OpenRoute)
router = APIRouter(prefix="/v1/auth", tags=["auth"], route_class=SessionRoute)


@public.post("/login", response_model=LoginAnswer, operation_id="login")
async def log_in(request: Request, body: LoginRequest) -> Response:
    """Return a session token for an email and its password.

    Failed logins have separate limits: a strict one per address, and a much higher one per email. 429 also means that
    two passwords from the address are being checked; 503, that too many of all addresses are.
    """
    services = services_of(request)
    keys = services.view.session_keys
    if not keys:
        raise unavailable("the operator has not created a session key yet")
    await _check_failures(request, body)
    async with services.passwords.turn(client_of_request(request)):
        user = await _verified(request, body)
    token, expires_at = issue_token(keys[0], user, now=services.now(), ttl=services.settings.session_ttl)
    return answer(
        {
            "token": token,
            "tokenType": "Bearer",
            "expiresAt": timestamp(expires_at),
            "user": {"email": user.email, "organization": user.organization},
        }
    )


def _counted(request: Request, body: LoginRequest) -> tuple[tuple[Scope, str], ...]:
    """Return what a failed login counts for."""
    return (Scope.LOGIN, client_of_request(request)), (Scope.LOGIN_EMAIL, body.email)


async def _check_failures(request: Request, body: LoginRequest) -> None:
    """Refuse a login after too many failures; called before the login waits too, so that it needs no place."""
    limiter = services_of(request).limiter
    for scope, identity in _counted(request, body):
        verdict = await limiter.peek(scope, identity)
        if verdict is not None and not verdict.allowed:
            tally_of(request.scope).append(verdict)
            raise verdict.refusal()


async def _verified(request: Request, body: LoginRequest) -> UserRecord:
    services = services_of(request)
    await _check_failures(request, body)
    user = services.view.user(body.email)
    if user is not None and await services.passwords.verify(user, body.password.get_secret_value()):
        return user
    if user is None:
        await services.passwords.verify(None, body.password.get_secret_value())
    for scope, identity in _counted(request, body):
        await services.limiter.hit(scope, identity)
    raise ProblemError(
        401,
        "email or password is wrong",
        headers={"WWW-Authenticate": 'Bearer realm="hookwright"'},
    )


@router.get("/me", response_model=MeAnswer, operation_id="me")
async def me(request: Request) -> Response:
    """Return the user of the session, and the projects of the organization."""
    caller = caller_of(request)
    assert caller.user is not None
    projects = services_of(request).view.projects.find("organization", caller.organization)
    return answer(
        {
            "email": caller.user.email,
            "organization": caller.organization,
            "projects": [
                {"name": project.identity.name, "displayName": project.display_name}
                for project in sorted(projects, key=lambda project: project.identity.name)
            ],
            "expiresAt": timestamp(caller.expires_at),
        }
    )
