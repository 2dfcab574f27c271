r"""Pure: what the URL of a receiver looks like, so strictly that no two parsers can read it differently.

The rules are patterns that Python and RE2 read alike, for both the models and the CRD's CEL rules are made
of them (hence no look-around, and ``$`` only where a newline was refused already). They take the ASCII URLs
of RFC 3986, with a host name or an IP address in them.
"""

import re
from dataclasses import dataclass
from typing import Final

MAX_URL_LENGTH: Final = 2048


@dataclass(frozen=True, slots=True)
class UrlRule:
    """A pattern to be found in a URL, or not to be found, and the sentence for URLs that break the rule."""

    pattern: str
    sentence: str
    forbidden: bool = False
    """Whether finding the pattern is the fault."""
    revealing: bool = False
    """Whether a URL that breaks the rule holds a credential, so that no error may repeat it."""

    def allows(self, url: str) -> bool:
        """Tell whether ``url`` keeps this rule."""
        return bool(re.search(self.pattern, url)) is not self.forbidden


_LABEL: Final = r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_GROUP: Final = "[0-9A-Fa-f]{1,4}"
_SHORTENED: Final = "|".join(rf"({_GROUP}:){{1,{7 - after}}}(:{_GROUP}){{1,{after}}}" for after in range(1, 7))
_IPV6: Final = rf"({_GROUP}:){{7}}{_GROUP}|({_GROUP}:){{1,7}}:|{_SHORTENED}|:((:{_GROUP}){{1,7}}|:)"
"""RFC 4291, section 2.2, forms 1 and 2: hexadecimal throughout, without a zone."""
_HOST: Final = rf"({_LABEL}(\.{_LABEL})*\.?|\[({_IPV6})\])"
_PORT: Final = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_NO_AUTHORITY: Final = r"[^/]*(/[^/]|/?$)"
"""What is not said twice: that a URL without ``//`` is not absolute."""

URL_RULES: Final = (
    UrlRule(
        r"^[^/]*//[^/?#]*@",
        "url must not carry a user name or password; the signature is what tells receivers who calls",
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

    Whether plain http is let through is an installation's own setting, judged at reconcile and at
    send; here both schemes pass.

    Raises:
        ValueError: no absolute http(s) URL, one with userinfo or a fragment, or one with characters
            or a host that a client could read in two ways. The message never repeats the URL.
    """
    for rule in URL_RULES:
        if not rule.allows(url):
            raise ValueError(rule.sentence)
    return url
