"""Pure: the documents of `/v1`, derived from the classes of the custom resources: the same fields, in snake_case."""

import re
import types
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from hookwright_crds.base import Model

_Type: TypeAlias = Any
"""What an annotation can contain: a class or a form of `typing`."""
_CAMEL: Final = re.compile(r"\b[a-z]+(?:[A-Z][a-z]+)+\b")


def request_of(fields: type[Model], base: type[BaseModel], *, without: Collection[str] = ()) -> Any:
    """Return the class of a request with all fields, their bounds and their defaults.

    Args:
        fields: the class of a custom resource; its validators of single fields are kept, those of the model are not.
        base: of the class, and of the classes of its objects.
        without: names of fields that the request has in another form.
    """
    return _derived(fields, base, "Body", lambda kind, info: (_bounded(kind, info), _of_request(info)), without=without)


def patch_of(fields: type[Model], base: type[BaseModel], *, without: Collection[str] = ()) -> Any:
    """Return the class of a merge patch (RFC 7396): each field may be absent, and null resets it.

    Entries of a map may be null too. A patch does not bound the entries of a map: the result is validated, and
    the request has a bound of values.
    """

    def changed(kind: _Type, info: FieldInfo) -> tuple[_Type, dict[str, Any]]:
        origin, arguments = _parts(kind)
        if origin is dict:
            name, value = arguments
            kind = types.GenericAlias(dict, (name, value | None))
            return kind | None, {"default": None}
        return _bounded(kind, info) | None, {"default": None}

    return _derived(fields, base, "Patch", changed, without=without)


def answer_of(fields: type[Model], base: type[BaseModel], *, without: Collection[str] = ()) -> Any:
    """Return the class of an answer: each field is present, and has no bounds, which a later version may change.

    Args:
        fields: the class of a custom resource.
        base: of the class, and of the classes of its objects.
        without: names of fields that no answer shows.
    """
    return _derived(fields, base, "Answer", lambda kind, _: (_unbounded(kind), {}), without=without)


def in_camel_case(fields: type[Model], document: dict[str, Any]) -> dict[str, Any]:
    """Return a request or a merge patch with the names of the custom resource; null and map keys stay as they are."""
    return {
        info.alias or name: in_camel_case(kind, value) if isinstance(value, dict) and kind is not None else value
        for name, value in document.items()
        for info in (fields.model_fields[name],)
        for kind in (_model_in(info.annotation),)
    }


def _derived(
    fields: type[Model],
    base: type[BaseModel],
    suffix: str,
    form: Callable[[_Type, FieldInfo], tuple[_Type, dict[str, Any]]],
    *,
    without: Collection[str] = (),
) -> type[BaseModel]:
    """Return a class with the fields in another form; objects in them are derived likewise."""

    def replaced(kind: _Type) -> _Type:
        if isinstance(kind, type) and issubclass(kind, Model):
            return _derived(kind, base, suffix, form)
        origin, arguments = _parts(kind)
        if origin in (Union, types.UnionType):
            return Union[tuple(replaced(choice) for choice in arguments)]  # noqa: UP007
        return kind

    definitions: dict[str, Any] = {}
    for name, info in fields.model_fields.items():
        if name not in without:
            kind, default = form(replaced(info.annotation), info)
            field: dict[str, Any] = {**default, "description": in_snake_case(info.description)}
            definitions[name] = (kind, Field(**field, examples=info.examples))
    return create_model(f"{fields.__name__}{suffix}", __base__=base, __doc__=fields.__doc__, **definitions)


def _parts(kind: _Type) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


def _bounded(kind: _Type, info: FieldInfo) -> _Type:
    return Annotated[kind, *info.metadata] if info.metadata else kind


def _of_request(info: FieldInfo) -> dict[str, Any]:
    """Return the default, and that a list has each value once, unless it may be null."""
    extra = {"json_schema_extra": {"uniqueItems": True}} if _parts(info.annotation)[0] is tuple else {}
    if info.default_factory is not None:
        return {"default_factory": info.default_factory, **extra}
    return extra if info.is_required() else {"default": info.default, **extra}


def _unbounded(kind: _Type) -> _Type:
    origin, arguments = _parts(kind)
    if origin is Annotated:
        return _unbounded(arguments[0])
    if origin is Literal:
        return type(arguments[0])
    if origin in (Union, types.UnionType):
        return Union[tuple(_unbounded(choice) for choice in arguments)]  # noqa: UP007
    if kind is AwareDatetime:
        return str
    if origin is tuple:
        return list[_unbounded(arguments[0])]  # type: ignore[misc]
    return kind


def _model_in(kind: _Type) -> type[Model] | None:
    choices = get_args(kind) or (kind,)
    return next((choice for choice in choices if isinstance(choice, type) and issubclass(choice, Model)), None)


def in_snake_case(text: str | None) -> str | None:
    """Return a description with names of fields as `/v1` spells them."""
    return text and _CAMEL.sub(lambda word: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", word[0]), text)
