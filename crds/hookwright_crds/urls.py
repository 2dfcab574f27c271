r"""Pure: the form of a receiver's URL, so strict that all parsers read it alike.

The rules are patterns that Python and RE2 read alike, because both the models and the CRD's CEL rules use them. So they
have no look-around, and ``$`` only if a newline was refused already. They accept the ASCII URLs of RFC 3986 with a host
name or an IP address.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

MAX_URL_LENGTH: Final = 2048


@dataclass(frozen=True, slots=True)
class UrlRule:
    """A pattern that a URL must or must not match, and the error message for URLs that break the rule."""

    pattern: str
    sentence: str
    forbidden: bool = False
    """Whether a match of the pattern is the fault."""
    revealing: bool = False
    """Whether a URL that breaks the rule contains a credential, so that no error may repeat it."""

    def allows(self, url: str) -> bool:
        """Return whether ``url`` follows this rule."""
        return bool(re.search(self.pattern, url)) is not self.forbidden


_LABEL: Final = r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_GROUP: Final = "[0-9A-Fa-f]{1,4}"
_SHORT_FORMS: Final = "|".join(rf"({_GROUP}:){{1,{7 - after}}}(:{_GROUP}){{1,{after}}}" for after in range(1, 7))
_IPV6: Final = rf"({_GROUP}:){{7}}{_GROUP}|({_GROUP}:){{1,7}}:|{_SHORT_FORMS}|:((:{_GROUP}){{1,7}}|:)"
"""RFC 4291, section 2.2, forms 1 and 2: hexadecimal only, without a zone."""
_HOST: Final = rf"({_LABEL}(\.{_LABEL})*\.?|\[({_IPV6})\])"
_PORT: Final = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_NO_AUTHORITY: Final = r"[^/]*(/[^/]|/?$)"
"""A URL without ``//`` passes the host rule, because the rule for absolute URLs reports it."""

URL_RULES: Final = (
    UrlRule(
        r"^[^/]*//[^/?#]*@",
        "url must not contain a user name or password; receivers verify the signature instead",
        forbidden=True,
        revealing=True,
    ),
    UrlRule(
        r"^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]",
        "url must be an absolute https URL, such as https://example.com/hooks",
    ),
    UrlRule(
        r"[^A-Za-z0-9._~:/?#@!$&'()*+,;=%\[\]-]|%.?$|%[^0-9A-Fa-f]|%.[^0-9A-Fa-f]",
        'url must not contain white space, control or non-ASCII characters, nor % " < > \\ ^ ` { | } '
        "by themselves; percent-encode them",
        forbidden=True,
    ),
    UrlRule(r"#", "url must not have a fragment (#…), which is never sent to a server", forbidden=True),
    UrlRule(
        rf"^({_NO_AUTHORITY}|[^/]*//([^/?#]*@)?{_HOST}(:{_PORT})?([/?#]|$))",
        "url must name a valid host (an IPv6 address in hexadecimal, between [ and ]) "
        "and, if it has a port, one from 1 to 65535",
    ),
)


def check_url(url: str) -> str:
    """Return ``url`` if deliveries can go there.

    Both http and https pass here. Each installation has a setting that allows plain http. The operator checks this
    setting at reconcile and at send.

    Raises:
        ValueError: not an absolute http(s) URL, or a URL with userinfo or a fragment. Also a URL with characters or a
            host that clients could read in two ways. The message never repeats the URL.
    """
    for rule in URL_RULES:
        if not rule.allows(url):
            raise ValueError(rule.sentence)
    return url


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL that `check_url` accepts: in lower case, and with the default port.

    Two spellings of one host, such as an IPv6 address in full and shortened or a name with a final dot, are different.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
