"""The caller of a request, from its headers; the project of the request, and the objects that its caller may see."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

from fastapi import Query, Request

from hookwright_api.auth.session_tokens import Session, read_token
from hookwright_api.services import services_of
from hookwright_api.view.table_records import EndpointRecord, KeyRecord, ProjectRecord, UserRecord
from hookwright_api.view.view import View
from hookwright_crds.keys import MalformedKeyError, digest, key_id_of, matches
from hookwright_crds.permissions import Credential, Permission
from hookwright_runtime.problems import Code, FieldFault, ProblemError, invalid, not_found

KEY_HEADER: Final = "X-Service-Key"
CALLER: Final = "hookwright.caller"
"""Key of the ASGI scope: the caller of an authenticated request."""

ProjectQuery = Annotated[
    str | None,
    Query(description="The Project's name or uid. Only with a session token, because a key belongs to one project."),
]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Attributes:
        organization: the namespace.
        key: the API key, which gives access to one project; None for a session.
        session: the session; None for a key.
    """

    organization: str
    key: KeyRecord | None = field(default=None, repr=False)
    session: Session | None = field(default=None, repr=False)

    @property
    def user(self) -> UserRecord | None:
        """The user of the session; None for a key."""
        return self.session.user if self.session else None

    @property
    def credential(self) -> Credential:
        """The kind of the credential."""
        return Credential.KEY if self.key else Credential.SESSION

    @property
    def actor(self) -> str:
        """The user or key, as the audit log and the annotation of created objects name it; no secret."""
        return f"key:{self.key.identity.name}" if self.key else f"user:{self.user.email if self.user else ''}"

    @property
    def credential_uid(self) -> str:
        """The uid of the ApiKey, or of the user's Secret."""
        record = self.key or self.user
        assert record is not None
        return record.identity.uid

    def check(self, permission: Permission) -> None:
        """Return if the caller has a permission.

        Raises:
            ProblemError: 403 that names the accepted credential, or the missing scope or role.
        """
        if self.credential not in permission.accepts:
            credential, alternatives = self.credential.value, " or ".join(kind.value for kind in permission.accepts)
            detail = f"this route does not accept {credential}; send {alternatives}"
            raise ProblemError(403, detail, code=Code.WRONG_CREDENTIAL)
        if self.key is not None:
            if permission.scope not in self.key.scopes:
                scopes = ", ".join(self.key.scopes)
                raise ProblemError(403, f"the key lacks the scope {permission.scope}; it has {scopes}")
            return
        if self.user is None or permission.role is None or not self.user.role.includes(permission.role):
            has = f"; the user has the role {self.user.role}" if self.user else ""
            raise ProblemError(403, f"this needs the role {permission.role}{has}")


def authenticate(request: Request) -> Caller:
    """Return the caller, from the headers.

    Raises:
        ProblemError: 401 with the same text for every invalid credential; 400 for two credentials.
    """
    services, headers = services_of(request), request.headers
    view, now = services.view, services.now()
    keys, authorizations = headers.getlist(KEY_HEADER), headers.getlist("authorization")
    if len(keys) + len(authorizations) > 1:
        detail = f"send one credential: {KEY_HEADER} or Authorization, once"
        raise ProblemError(400, detail, code=Code.SEVERAL_CREDENTIALS)
    if keys:
        record = find_key(view, keys[0], now)
        if record is None:
            raise _unauthenticated()
        return Caller(record.identity.namespace, key=record)
    scheme, _, token = "".join(authorizations).partition(" ")
    is_bearer = scheme.lower() == "bearer"
    session = read_token(view, token.strip(), now, services.settings.session_ttl) if is_bearer else None
    if session is None:
        raise _unauthenticated()
    return Caller(session.user.organization, session=session)


def _unauthenticated() -> ProblemError:
    """Return a 401 with the same text for every reason, so that an answer reveals nothing about a credential."""
    return ProblemError(
        401,
        "a valid credential is needed: an API key as X-Service-Key, or a session token as Authorization: Bearer",
        headers={"WWW-Authenticate": 'Bearer realm="hookwright"'},
    )


def find_key(view: View, plaintext: str, now: datetime) -> KeyRecord | None:
    """Return the ApiKey of a presented key, None if the key is not valid.

    A key is found by its digest, so the work does not depend on the number of ApiKeys that have its public id. Then it
    is compared in constant time. A rotated key keeps its id, and its replaced keys are valid until the ends of their
    overlaps. Only an ApiKey that the operator confirmed counts, because a digest belongs to the ApiKey that declared
    it first, also after that one was deleted. An expired key or one without a project is not valid.
    """
    try:
        key_id = key_id_of(plaintext)
    except MalformedKeyError:
        return None
    candidates = (key for key in view.keys.find("digest", digest(plaintext)) if key.key_id == key_id)
    record = next((key for key in candidates if _matches(plaintext, key, now)), None)
    if record is None or (record.expires_at is not None and now >= record.expires_at):
        return None
    return record if view.projects.get(record.identity.namespace, record.project) else None


def _matches(plaintext: str, key: KeyRecord, now: datetime) -> bool:
    valid = (key.digest, *(previous.digest for previous in key.previous if now < previous.until))
    # All digests are compared, so that the time does not depend on which of the keys was presented.
    return sum(matches(plaintext, digest) for digest in valid) > 0


def caller_of(request: Request) -> Caller:
    """Return the caller of a route that needs a credential."""
    caller: Caller = request.scope[CALLER]
    return caller


def project_named(request: Request, name_or_uid: str) -> ProjectRecord:
    """Return a project of the caller's organization; a key sees no other project than its own.

    Raises:
        ProblemError: 404.
    """
    caller = caller_of(request)
    record = services_of(request).view.project(caller.organization, name_or_uid)
    if record is None or (caller.key is not None and caller.key.project != record.identity.name):
        raise not_found("the project")
    return record


def optional_project(request: Request, project: str | None) -> str | None:
    """Return the name of the project that a request is limited to; None for all projects of a session's organization.

    Raises:
        ProblemError: 404 no such project; 422 a project together with a key.
    """
    caller = caller_of(request)
    if caller.key is not None:
        if project is not None:
            raise invalid(FieldFault("project", "must not be sent with a key, because a key belongs to one project"))
        return caller.key.project
    return None if project is None else project_named(request, project).identity.name


def one_project(request: Request, project: str | None) -> str:
    """Return the name of the project of a request.

    Raises:
        ProblemError: 404 no such project; 422 a project together with a key, or a session without a project.
    """
    name = optional_project(request, project)
    if name is None:
        raise invalid(FieldFault("project", "is missing; send ?project=<name>"))
    return name


def endpoint_named(request: Request, name: str, project: str | None) -> EndpointRecord:
    """Return an endpoint of a project or, if the project is None, of the organization.

    Raises:
        ProblemError: 404, also for an endpoint of another project.
    """
    record = services_of(request).view.endpoints.get(caller_of(request).organization, name)
    if record is None or (project is not None and record.project != project):
        raise not_found("the webhook")
    return record
