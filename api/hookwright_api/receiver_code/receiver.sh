#!/bin/sh
# A receiver of webhooks for POSIX shells and openssl 1.1 or newer. A web server runs it as a CGI program, with
# WEBHOOK_SECRET in the environment. openssl gets the key as an argument: other users of the host can see it.
set -f # no value of a header is a file name pattern
TOLERANCE=300 # seconds

hex() { od -An -v -tx1 | tr -d ' \n'; }

# Print the HMAC-SHA256 of the standard input in hexadecimal. The first argument is the key in hexadecimal.
sign() { openssl dgst -sha256 -mac HMAC -macopt "hexkey:$1" -binary | hex; }

# Compare two texts by their HMACs with a new random key, so the time reveals nothing of the expected text.
same() {
    random=$(openssl rand -hex 32)
    left=$(printf %s "$1" | sign "$random")
    [ ${#left} -eq 64 ] && [ "$left" = "$(printf %s "$2" | sign "$random")" ]
}

# Refuse a missing secret, because anybody can sign with an empty one.
known() { case $1 in whsec_?*) ;; *) echo 'the secret must begin with whsec_'; return 1 ;; esac; }

# Check webhook-signature (Standard Webhooks). Arguments: secret, id, timestamp, signatures, file with the body.
verify() {
    known "$1" || return 1
    key=$(printf %s "${1#whsec_}" | openssl base64 -d -A | hex)
    expected=v1,$({ printf '%s.%s.' "$2" "$3"; cat "$5"; } |
        openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
    found=no
    for value in $4; do # during a rotation there is one value for each secret
        [ ${#value} -eq 47 ] && same "$value" "$expected" && found=yes
    done
    [ $found = yes ] || { echo 'wrong signature'; return 1; }
    age=$(($(date +%s) - $3))
    [ "${age#-}" -le $TOLERANCE ] || { echo 'the request is too old'; return 1; }
}

# Check X-Service-Signature, which does not cover the time. Arguments: secret, signature, file with the body.
verify_service_signature() {
    known "$1" || return 1
    expected=$(sign "$(printf %s "$1" | hex)" < "$3")
    [ ${#2} -eq 64 ] && same "$2" "$expected" || { echo 'wrong signature'; return 1; }
}

# --- a CGI program that uses one of the two ---

body=$(mktemp) && trap 'rm -f "$body"' EXIT
head -c "${CONTENT_LENGTH:-0}" > "$body"
if [ "$PATH_INFO" = /service-signature ]; then
    refusal=$(verify_service_signature "$WEBHOOK_SECRET" "$HTTP_X_SERVICE_SIGNATURE" "$body")
else
    refusal=$(verify "$WEBHOOK_SECRET" "$HTTP_WEBHOOK_ID" "$HTTP_WEBHOOK_TIMESTAMP" "$HTTP_WEBHOOK_SIGNATURE" "$body")
fi
if [ -n "$refusal" ]; then
    printf 'Status: 401 Unauthorized\r\nContent-Type: text/plain\r\n\r\n%s\n' "$refusal"
    exit
fi
# Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
echo "accepted $HTTP_WEBHOOK_ID" >&2
printf 'Status: 204 No Content\r\n\r\n'
