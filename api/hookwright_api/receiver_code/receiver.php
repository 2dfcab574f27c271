<?php
// A receiver of webhooks in PHP 8 or newer, without a package.
// Try it with: WEBHOOK_SECRET=whsec_... php -S 127.0.0.1:8080 receiver.php

const TOLERANCE = 300; // seconds

/** Return the secret; throw if it is missing, because anybody can sign with an empty one. */
function known(string $secret): string
{
    if (!str_starts_with($secret, 'whsec_')) {
        throw new UnexpectedValueException('the secret must begin with whsec_');
    }
    return $secret;
}

/** Check webhook-signature (Standard Webhooks); throw if the request must be refused. Header names in lower case. */
function verify(string $secret, array $headers, string $body): void
{
    $key = base64_decode(substr(known($secret), strlen('whsec_')));
    $timestamp = $headers['webhook-timestamp'] ?? '';
    $signed = ($headers['webhook-id'] ?? '') . '.' . $timestamp . '.' . $body;
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', $signed, $key, true));
    $found = false;
    // During a rotation the header has one value for each secret. hash_equals runs in constant time.
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $value) {
        $found = hash_equals($expected, $value) || $found;
    }
    if (!$found) {
        throw new UnexpectedValueException('wrong signature');
    }
    if (abs(time() - (int) $timestamp) > TOLERANCE) {
        throw new UnexpectedValueException('the request is too old');
    }
}

/** Check X-Service-Signature, which does not cover the time; throw if the request must be refused. */
function verify_service_signature(string $secret, array $headers, string $body): void
{
    $expected = hash_hmac('sha256', $body, known($secret));
    if (!hash_equals($expected, $headers['x-service-signature'] ?? '')) {
        throw new UnexpectedValueException('wrong signature');
    }
}

// --- a script that uses one of the two ---

$headers = array_change_key_case(getallheaders());
$check = $_SERVER['REQUEST_URI'] === '/service-signature' ? 'verify_service_signature' : 'verify';
try {
    $check(getenv('WEBHOOK_SECRET'), $headers, file_get_contents('php://input'));
} catch (UnexpectedValueException $error) {
    http_response_code(401);
    exit($error->getMessage());
}
// Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
error_log('accepted ' . $headers['webhook-id']);
http_response_code(204);
