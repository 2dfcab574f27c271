"""Pure: what the command line knows of the contract, as JSON: it is installed without this package and pydantic."""

import json
import types
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import AfterValidator, AwareDatetime, BaseModel
from pydantic_core import PydanticUndefined

from hookwright_crds.base import Duration
from hookwright_crds.derived_models import in_snake_case
from hookwright_crds.documents.credential_bodies import GIVEN_FIELDS
from hookwright_crds.documents.webhook_bodies import WebhookRequest
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS, PUSH_FIELDS, EndpointFields
from hookwright_crds.events import described_types
from hookwright_crds.keys import KeyScope
from hookwright_crds.urls import check_url
from hookwright_crds.users import UserRole

_Type: TypeAlias = Any
"""What an annotation can contain: a class or a form of `typing`."""
_OPTIONS: Final = {
    "url": ["--to"], "events": ["--event", "-e"], "headers": ["--header"], "schedule": ["--retry-schedule"],
    "form": ["--signature-form"], "header": ["--signature-header"], "secret_headers": ["--secret-header"],
    "client_id": ["--oauth2-client-id"], "client_secret": ["--oauth2-client-secret"],
    "token_url": ["--oauth2-token-url"], "scopes": ["--oauth2-scope"], "endpoint_params": ["--oauth2-param"],
    "ca_certificates": ["--tls-ca"], "client_certificate": ["--tls-certificate"], "client_key": ["--tls-key"],
}  # fmt: skip
"""The names of options that are not the name of the field."""
_CHECKS: Final = {"duration": get_args(Duration)[-1], "url": AfterValidator(check_url)}
"""Forms of a text, by the validator."""
_FORMS: Final = {str: "text", int: "number", AwareDatetime: "time", tuple: "list", dict: "map"}


def text() -> str:
    """Return the file of the command line."""
    data = {
        "endpoint_fields": list(_fields(EndpointFields)),
        "credential_fields": list(_fields(WebhookRequest, GIVEN_FIELDS)),
        "event_types": described_types(),
        "key_scopes": list(KeyScope),
        "user_roles": list(UserRole),
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _fields(model: type[BaseModel], names: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield each field of a model, or those of some names: its names, form, default, option and flags."""
    for name, info in model.model_fields.items():
        if names and name not in names:
            continue
        flags = {"required": info.is_required(), "hidden": name in HIDDEN_FIELDS, "push_only": name in PUSH_FIELDS}
        is_secret = isinstance(info.json_schema_extra, dict) and "writeOnly" in info.json_schema_extra
        yield {
            "name": name,
            "spec": info.alias or name,
            **({"form": "secret"} if is_secret else _form(info.annotation, info.metadata)),
            "default": None if info.is_required() else info.get_default(call_default_factory=True),
            "description": in_snake_case(info.description),
            "options": _OPTIONS.get(name, [f"--{name.replace('_', '-')}"]),
            **{flag: True for flag, is_set in flags.items() if is_set},
        }


def _form(kind: _Type, metadata: list[Any]) -> dict[str, Any]:
    """Return the form of a value, with the choices of a literal and the fields of an object."""
    origin: _Type = get_origin(kind)
    arguments = get_args(kind)
    if origin in (Union, types.UnionType):
        return _form(next(choice for choice in arguments if choice is not type(None)), metadata)
    if origin is Annotated:
        return _form(arguments[0], [*metadata, *arguments[1:]])
    if origin is Literal:
        return {"form": "choice", "choices": list(arguments)}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        infos = [*kind.model_fields.values()]
        if len(infos) == 1 and infos[0].is_required():
            form = "object"  # the value of its only field
        else:
            # A group means something without a value if it has defaults, so a flag chooses it.
            has_defaults = any(info.default not in (None, PydanticUndefined) for info in infos)
            form = "group" if has_defaults else "parts"
        return {"form": form, "fields": list(_fields(kind))}
    names = [name for name, check in _CHECKS.items() if check in metadata]
    form = names[0] if names else _FORMS[origin or kind]
    if origin is tuple and _form(arguments[0], [])["form"] == "number":
        form = "numbers"
    if origin is dict and get_origin(arguments[1]) is None and issubclass(arguments[1], BaseModel):
        form = "secret_map"
    return {"form": form}
