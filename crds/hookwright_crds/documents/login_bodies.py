"""Pure: the bodies of logins."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr

from hookwright_crds.documents.forms import TIME_EXAMPLE, Answer, Request
from hookwright_crds.users import MAX_EMAIL_LENGTH, MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH, UserRole, normal_email


class LoginRequest(Request):
    """The login of a user."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"email": "ada@example.com", "password": "correct horse battery staple"}}
    )

    email: Annotated[str, Field(max_length=MAX_EMAIL_LENGTH), AfterValidator(normal_email)]
    password: Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD_LENGTH)]


def _long_enough(password: SecretStr) -> SecretStr:
    if len(password) < MIN_PASSWORD_LENGTH:
        raise ValueError(f"must have at least {MIN_PASSWORD_LENGTH} characters")
    return password


class PasswordRequest(Request):
    """The new password of a user."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"current_password": "correct horse battery staple", "new_password": "four other random words"}
        }
    )

    current_password: Annotated[SecretStr, Field(min_length=1, max_length=MAX_PASSWORD_LENGTH)]
    new_password: Annotated[
        SecretStr,
        Field(
            max_length=MAX_PASSWORD_LENGTH,
            description=f"At least {MIN_PASSWORD_LENGTH} characters.",
            json_schema_extra={"minLength": MIN_PASSWORD_LENGTH},
        ),
        AfterValidator(_long_enough),
    ]


class LoginUser(Answer):
    """The user of a session."""

    email: str = Field(examples=["ada@example.com"])
    organization: str = Field(description="The organization, which is a namespace.", examples=["acme"])
    role: UserRole = Field(description="The rights of the user.", examples=["admin"])


class LoginAnswer(Answer):
    """A session."""

    token: str = Field(description="Send it as Authorization: Bearer.", examples=["eyJhbGciOi…"])
    token_type: Literal["Bearer"]
    expires_at: str = Field(examples=[TIME_EXAMPLE])
    user: LoginUser


class ProjectAnswer(Answer):
    """A project of the organization."""

    name: str = Field(examples=["billing"])
    display_name: str = Field(examples=["Billing"])


class MeAnswer(LoginUser):
    """The user of the session, and the accessible projects."""

    projects: list[ProjectAnswer]
    expires_at: str = Field(examples=[TIME_EXAMPLE])
