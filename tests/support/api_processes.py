"""The API as a child process on a cluster, with its own ServiceAccount, and helpers for its tests."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from uuid import uuid4

import httpx
from argon2 import PasswordHasher
from support.polling import PATIENCE, eventually

from hookwright_crds.users import UserRole, user_secret
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, USERS_NAMESPACE
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_runtime.problems import TYPE_BASE, Code

PASSWORD: Final = "correct horse battery staple"

RBAC: Final = "rbac.authorization.k8s.io"
API_ACCOUNT: Final = {"kind": "ServiceAccount", "name": "hookwright-api", "namespace": SYSTEM_NAMESPACE}
GRANT: Final = (
    "kubectl create rolebinding projects -n {} --clusterrole=hookwright-project-manager "
    f"--serviceaccount={SYSTEM_NAMESPACE}:hookwright-api"
)
"""The command that lets /v1 create and delete projects of an organization, as docs/multi-tenancy.md has it."""


@contextmanager
def password_changes_allowed(control_plane: Cluster) -> Iterator[None]:
    """Grant the right that the chart grants with settings.passwordChange, inside the context."""
    objects, user = control_plane.objects, f"system:serviceaccount:{SYSTEM_NAMESPACE}:hookwright-api"

    def allowed() -> bool:
        return objects.may(user, "patch", "secrets", USERS_NAMESPACE)

    role = {"apiGroup": RBAC, "kind": "Role", "name": "hookwright-password-manager"}
    objects.create("RoleBinding", "passwords", USERS_NAMESPACE, roleRef=role, subjects=[API_ACCOUNT])
    eventually(allowed, "the right counts")
    yield
    objects.delete("RoleBinding", "passwords", namespace=USERS_NAMESPACE)
    # The tests of other files expect the rights that the chart grants without this setting.
    eventually(lambda: not allowed(), "the right is gone")


@cache
def _password_hash() -> str:
    # A login verifies it in 0.1 ms. One with the cost of the product takes 0.2 s of CPU.
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


@dataclass(slots=True)
class Organization:
    """A namespace with a user, seen through one API."""

    cluster: Cluster
    client: httpx.Client
    name: str
    email: str = ""
    _token: str = ""

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects as the administrator, in this namespace."""
        self.cluster.objects.apply(*objects, namespace=self.name)

    def project(self, name: str = "billing", display_name: str = "Billing") -> str:
        """Declare a project and return its name when a session sees it."""
        # The API knows the user at the first login: a login of an unknown user costs 0.2 s of CPU.
        self.email = self.email or self.user()
        self.apply({"kind": "Project", "metadata": {"name": name}, "spec": {"displayName": display_name}})
        eventually(lambda: name in self.projects(), f"project {name} visible")
        return name

    def projects(self) -> list[str]:
        """Return the answer of /v1/auth/me."""
        answer = self.client.get("/v1/auth/me", headers=self.session())
        return [project["name"] for project in answer.json()["projects"]] if answer.is_success else []

    def allow_projects(self) -> None:
        """Let /v1 create and delete projects in this namespace, as docs/multi-tenancy.md says."""
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "hookwright-project-manager"}
        self.cluster.objects.create("RoleBinding", "projects", self.name, roleRef=role, subjects=[API_ACCOUNT])
        body = {"name": "allowed"}
        eventually(
            lambda: self.client.post("/v1/projects", json=body, headers=self.session()).status_code in (201, 409),
            "projects may be created",
        )

    def session(self) -> dict[str, str]:
        """Return the header of a session of this organization's user, who is created at the first call."""
        self.email = self.email or self.user()
        if not self._token:
            self._token = self._log_in(self.email)
        return {"Authorization": f"Bearer {self._token}"}

    def session_of(self, role: UserRole) -> dict[str, str]:
        """Return the header of a session of a new user with a role."""
        return {"Authorization": f"Bearer {self._log_in(self.user(role))}"}

    def user(self, role: UserRole = UserRole.ADMIN, *, email: str = "", password_hash: str = "") -> str:
        """Write a user of this organization, a new one unless an email is given, and return the email."""
        email = email or f"ada-{uuid4().hex[:6]}@{self.name}.example"
        digest = password_hash or _password_hash()
        secret = user_secret(USERS_NAMESPACE, email=email, organization=self.name, password_hash=digest, role=role)
        self.cluster.objects.apply(secret)
        return email

    def wait_for_user(self, email: str) -> None:
        """Return when the API knows a user."""
        self._log_in(email)

    def _log_in(self, email: str) -> str:
        """Return a token, as soon as the API knows the user."""

        def token() -> str:
            answer = self.client.post("/v1/auth/login", json={"email": email, "password": PASSWORD})
            return str(answer.json()["token"]) if answer.is_success else ""

        return eventually(token, f"{email} can log in")

    def key(self, project: str = "billing", **extra: Any) -> dict[str, Any]:
        """Create a key and return the answer of the 201."""
        answer = self.client.post(
            f"/v1/projects/{project}/keys", json={"name": "test", **extra}, headers=self.session()
        )
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def service_key(self, project: str = "billing") -> dict[str, str]:
        """Create a key and return the header with it."""
        return {"X-Service-Key": self.key(project)["key"]}

    def webhook(
        self, headers: Mapping[str, str], url: str | None = "https://example.com/hooks", **extra: Any
    ) -> dict[str, Any]:
        """Register an endpoint and return the answer of the 201.

        A 503 is repeated, as a client does: on a busy machine the operator may need longer than the API waits.
        """
        body = {"url": url, "events": ["delivered"], **extra}
        deadline = time.monotonic() + PATIENCE
        while (answer := self.client.post("/v1/webhooks", json=body, headers=dict(headers))).status_code == 503:
            assert time.monotonic() < deadline, answer.text
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document


def problem_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    """Assert that a refusal is a problem document, and return it."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["code"] in [*Code]
    assert problem["type"] == TYPE_BASE + problem["code"]
    assert problem["title"]
    assert problem["detail"]
    return problem
