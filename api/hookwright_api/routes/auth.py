"""The login, and the user of a session."""

import asyncio

from fastapi import APIRouter, Request, Response
from pydantic import SecretStr

from hookwright_api.auth.callers import caller_of
from hookwright_api.auth.passwords import hash_password, verify_password
from hookwright_api.auth.session_tokens import end_sessions, issue_token
from hookwright_api.http.request_checks import GuardedRoute, audit, client_of_request, enforce, needs
from hookwright_api.http.responses import answer, from_kube
from hookwright_api.rate_limits import Scope
from hookwright_api.services import Services, services_of
from hookwright_api.view.table_records import UserRecord
from hookwright_crds.base import secrets_path
from hookwright_crds.documents.login_bodies import LoginAnswer, LoginRequest, MeAnswer, PasswordRequest
from hookwright_crds.permissions import ANY_USER, OPEN
from hookwright_crds.users import PASSWORD_HASH_FIELD
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import Code, FieldFault, ProblemError, invalid, unavailable

router = APIRouter(prefix="/v1/auth", tags=["auth"], route_class=GuardedRoute)


@router.post("/login", response_model=LoginAnswer, operation_id="login")
@needs(OPEN)
async def log_in(request: Request, body: LoginRequest) -> Response:
    """Return a session token for an email and its password.

    Failed logins have separate limits: a strict one per address, and a much higher one per email. 429 also means that
    two passwords from the address are being checked; 503, that too many of all addresses are.
    """
    services = services_of(request)
    if not services.view.session_keys:
        raise unavailable("the operator has not created a session key yet")
    await _check_failures(request, body.email)
    with await services.passwords.acquire(client_of_request(request)):
        user = await _verified(request, body.email, body.password)
    if user is None:
        raise ProblemError(
            401,
            "email or password is wrong",
            code=Code.LOGIN_FAILED,
            headers={"WWW-Authenticate": 'Bearer realm="hookwright"'},
        )
    services.audit.record(
        "login", actor=f"user:{user.email}", client=client_of_request(request), organization=user.organization
    )
    return _session_answer(services, user)


def _session_answer(services: Services, user: UserRecord) -> Response:
    token, expires_at = issue_token(services.view, user, now=services.now(), ttl=services.settings.session_ttl)
    return answer(
        {
            "token": token,
            "token_type": "Bearer",
            "expires_at": expires_at,
            "user": {"email": user.email, "organization": user.organization, "role": user.role},
        }
    )


def _counted(request: Request, email: str) -> tuple[tuple[Scope, str], ...]:
    """Return what a wrong password counts for."""
    return (Scope.LOGIN, client_of_request(request)), (Scope.LOGIN_EMAIL, email)


async def _check_failures(request: Request, email: str) -> None:
    """Refuse a password after too many failures; called before it waits too, so that it needs no place."""
    limiter = services_of(request).limiter
    for scope, identity in _counted(request, email):
        verdict = await limiter.hit(scope, identity, count=False)
        if verdict is not None and not verdict.allowed:
            enforce(request.scope, verdict)


async def _verified(request: Request, email: str, password: SecretStr) -> UserRecord | None:
    """Return the user of a correct password; None counts a failure, and costs the same work without a user."""
    services = services_of(request)
    # Again, in the place: a burst of logins cannot pass before its first failure is counted.
    await _check_failures(request, email)
    user = services.view.user(email)
    if await asyncio.to_thread(verify_password, user, password.get_secret_value()):
        return user
    for scope, identity in _counted(request, email):
        await services.limiter.hit(scope, identity)
    services.audit.login_failed(email=email, client=client_of_request(request))
    return None


@router.post("/password", response_model=LoginAnswer, operation_id="changePassword")
@needs(ANY_USER)
async def change_password(request: Request, body: PasswordRequest) -> Response:
    """Set a new password of the session's user, end all sessions of the user, and return a new session.

    A wrong current password is a 422 and counts as a failed login. 403 means that the installation manages users
    elsewhere.
    """
    services, session = services_of(request), caller_of(request).session
    assert session is not None
    if not services.settings.password_change:
        raise ProblemError(403, "this installation does not let users change passwords with /v1; ask its administrator")
    email = session.user.email
    await _check_failures(request, email)
    with await services.passwords.acquire(client_of_request(request)):
        user = await _verified(request, email, body.current_password)
        if user is None:
            raise invalid(FieldFault("current_password", "is wrong"))
        password_hash = await asyncio.to_thread(hash_password, body.new_password.get_secret_value())
    changed_user = await _write_hash(services, user, password_hash)
    audit(request, "password.change", target=email)
    return _session_answer(services, changed_user)


async def _write_hash(services: Services, user: UserRecord, password_hash: str) -> UserRecord:
    """Write the hash unless the Secret was changed since it was read, and return the user with it."""
    identity = user.identity
    patch = {"metadata": {"resourceVersion": str(identity.version)}, "stringData": {PASSWORD_HASH_FIELD: password_hash}}
    try:
        secret = await services.kube.merge(secrets_path(identity.namespace, identity.name), patch)
    except KubeError as error:
        raise from_kube(error, "the user") from None
    services.view.users.put(secret)
    return UserRecord.of(secret)


@router.post("/logout", status_code=204, operation_id="logout")
@needs(ANY_USER)
async def log_out(request: Request) -> Response:
    """End all sessions of the user, on every device. Other replicas refuse their tokens within a second.

    503 means that it is not known whether the sessions ended; log out again.
    """
    session = caller_of(request).session
    assert session is not None
    await end_sessions(services_of(request), session)
    audit(request, "logout", target=session.user.email)
    return Response(status_code=204)


@router.get("/me", response_model=MeAnswer, operation_id="me")
@needs(ANY_USER)
async def me(request: Request) -> Response:
    """Return the user of the session, and the projects of the organization."""
    caller = caller_of(request)
    session = caller.session
    assert session is not None
    projects = services_of(request).view.projects.find("organization", caller.organization)
    return answer(
        {
            "email": session.user.email,
            "organization": caller.organization,
            "role": session.user.role,
            "projects": [
                {"name": project.identity.name, "display_name": project.display_name}
                for project in sorted(projects, key=lambda project: project.identity.name)
            ],
            "expires_at": session.expires_at,
        }
    )
